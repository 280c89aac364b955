"""Readers of published tables of amounts and of logs of advertisements.

Files come without a split: one row in five is held out for testing. Of a column of text the most
frequent values of the training rows are categories, all others are none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import Columns
from labeldp.trainers.data.files import DataFileError, DatasetMissing, first_line, open_regular
from labeldp.trainers.data.published import AGAIN, refuse_row
from labeldp.trainers.data.splits import Splits, held_out, of_amounts

#: Categories of a column.
_MOST_FREQUENT = 30
#: Rows of a log that are read.
_MOST_ROWS = 300_000
NO_YES = ("no", "yes")

HOUSING_COLUMNS = (
    *("longitude", "latitude", "median_age", "rooms", "bedrooms", "population", "households"),
    *("median_income", "median_value"),
)
#: Dollars; the file has larger values as the upper bound.
HOUSING_BOUNDS = (0.0, 500_001.0)
BANK_NUMBERS = ("age", "balance", "day", "campaign", "pdays", "previous")
BANK_TEXTS = (
    *("job", "marital", "education", "default", "housing", "loan", "contact", "month"),
    "poutcome",
)
DISPLAY_NUMBERS = tuple(f"integer_{place}" for place in range(1, 14))
DISPLAY_TEXTS = tuple(f"category_{place}" for place in range(1, 27))
ATTRIBUTION_NUMBERS = ("click", "cost", "time_since_last_click")
ATTRIBUTION_TEXTS = ("campaign", *(f"cat{place}" for place in range(1, 10)))
STAR_BOUNDS = (1.0, 5.0)


def read_housing(folder: Path) -> Splits:
    """Return California housing: amounts are median values of houses, in dollars."""
    path = folder / "cal_housing.data"
    table = _frame(path, sep=",", header=None, names=HOUSING_COLUMNS, index_col=False)
    columns = {name: _numbers(path, table, name) for name in HOUSING_COLUMNS}
    return _amounts(columns, columns.pop("median_value"), bounds=HOUSING_BOUNDS)


def read_bank(folder: Path) -> Splits:
    """Return UCI Bank Marketing without the length of the call, which is known after it only."""
    path = folder / "bank-full.csv"
    table = _frame(path, sep=";")
    columns = {name: _numbers(path, table, name) for name in BANK_NUMBERS}
    columns |= {name: _column(path, table, name).to_numpy(dtype=str) for name in BANK_TEXTS}
    answers = _column(path, table, "y")
    refuse_row(path, ~answers.isin(NO_YES), "ends with neither yes nor no")
    return _classes(columns, (answers == "yes").to_numpy(dtype=np.int64))


def read_criteo_display(folder: Path) -> Splits:
    """Return Criteo's sample of display advertisements: clicked or not.

    Numbers are counts: their logarithms are taken.
    """
    path = folder / "dac_sample.txt"
    names = ("label", *DISPLAY_NUMBERS, *DISPLAY_TEXTS)
    table = _frame(path, sep="\t", header=None, names=names, index_col=False, nrows=_MOST_ROWS)
    columns = {name: _numbers(path, table, name, gaps=True) for name in DISPLAY_NUMBERS}
    columns = {name: np.log1p(np.maximum(each, -0.5)) for name, each in columns.items()}
    columns |= {name: table[name].to_numpy(dtype=str) for name in DISPLAY_TEXTS}
    return _classes(columns, _bits(path, table, "label"))


def read_criteo_attribution(folder: Path) -> Splits:
    """Return rows of Criteo's attribution log: a conversion within 30 days or not.

    Columns that are known after the advertisement only are left out.
    """
    path = folder / "criteo_attribution_dataset.tsv.gz"
    table = _frame(path, sep="\t", compression="gzip", nrows=_MOST_ROWS)
    columns = {name: _numbers(path, table, name) for name in ATTRIBUTION_NUMBERS}
    columns |= {name: _column(path, table, name).to_numpy(dtype=str) for name in ATTRIBUTION_TEXTS}
    return _classes(columns, _bits(path, table, "conversion"))


def read_movielens_amounts(folder: Path) -> Splits:
    """Return MovieLens-1M's ratings as amounts of 1 to 5 stars, by traits of user and movie."""
    ratings, users, movies = (
        _double_colons(folder / f"{name}.dat", *columns)
        for name, columns in (
            ("ratings", ("user", "movie", "stars", "seconds")),
            ("users", ("user", "gender", "age", "occupation", "zip")),
            ("movies", ("movie", "title", "genres")),
        )
    )
    path = folder / "ratings.dat"
    for other, key in ((users, "user"), (movies, "movie")):
        known = ratings[key].isin(other[key])
        refuse_row(path, ~known, f"names a {key} that {key}s.dat does not have")
    joined = ratings.merge(users.drop_duplicates("user"), on="user", how="left").merge(
        movies.drop_duplicates("movie"), on="movie", how="left"
    )
    genres = joined["genres"].str.get_dummies("|")
    columns: dict[str, NDArray[Any]] = {
        "gender": joined["gender"].to_numpy(dtype=str),
        "occupation": joined["occupation"].to_numpy(dtype=str),
        "age": _numbers(folder / "users.dat", joined, "age"),
        "year": _numbers(
            folder / "movies.dat",
            joined.assign(year=joined["title"].str.extract(r"\((\d{4})\)\s*$")[0]),
            "year",
        ),
        **{name: genres[name].to_numpy(dtype=np.float64) for name in genres},
    }
    return _amounts(columns, _numbers(path, joined, "stars"), bounds=STAR_BOUNDS)


def _double_colons(path: Path, *names: str) -> Any:
    """Fields between double colons, between whose colons lie empty fields."""
    table = _frame(path, sep="::", header=None, names=names, engine="python", encoding="latin-1")
    refuse_row(path, table[names[-1]].isna() | (table[names[-1]] == ""), "has too few fields")
    return table


def _amounts(
    columns: Mapping[str, NDArray[Any]], amounts: NDArray[Any], *, bounds: tuple[float, float]
) -> Splits:
    test = held_out(len(amounts))
    labels = of_amounts(amounts[~test], amounts[test], bounds=bounds)
    return Splits(**labels, **_features(columns, test))


def _classes(columns: Mapping[str, NDArray[Any]], labels: NDArray[np.int64]) -> Splits:
    test = held_out(len(labels))
    return Splits(
        train_labels=labels[~test],
        test_labels=labels[test],
        num_classes=2,
        class_names=NO_YES,
        **_features(columns, test),
    )


def _features(columns: Mapping[str, NDArray[Any]], test: NDArray[np.bool_]) -> dict[str, Any]:
    train, rest = ({name: each[part] for name, each in columns.items()} for part in (~test, test))
    fitted_to = dict(train)
    for name, column in train.items():
        if column.dtype.kind == "U":
            values, counts = np.unique(column, return_counts=True)
            ordered = values[np.argsort(-counts, kind="stable")]
            # Rare values are none of the categories, as they are in rows to predict.
            rare = np.isin(column, ordered[_MOST_FREQUENT:])
            fitted_to[name] = np.where(rare, ordered[0], column)
    fitted = Columns.fit(fitted_to)
    return {
        "train_features": fitted(train, what="training features"),
        "test_features": fitted(rest, what="testing features"),
        "preprocessing": fitted,
    }


def _frame(path: Path, **how: Any) -> Any:
    """Fields of a text file as a frame of text, empty where a line has none."""
    import pandas as pd

    try:
        with open_regular(path) as file:
            table = pd.read_csv(file, dtype=str, keep_default_na=False, **how)
    except FileNotFoundError as error:
        raise DatasetMissing(f"{path} is missing") from error
    except (ValueError, OSError, EOFError) as error:  # pandas', Unicode's and gzip's own kinds
        raise DataFileError(f"{path} can't be read ({first_line(error)}): {AGAIN}") from error
    if len(table) < 2:
        raise DataFileError(f"{path} has {len(table)} rows: {AGAIN}")
    return table


def _column(path: Path, table: Any, name: str) -> Any:
    if name not in table:
        raise DataFileError(f"{path} has no column {name!r}: {AGAIN}")
    return table[name]


def _numbers(path: Path, table: Any, name: str, *, gaps: bool = False) -> NDArray[np.float64]:
    """A column of numbers [N]; with `gaps` NaN where a field is empty."""
    import pandas as pd

    column = _column(path, table, name)
    found = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    bad = ~np.isfinite(found) & ~(gaps & (column == "").to_numpy())
    refuse_row(path, bad, f"has no number in column {name!r}")
    return np.asarray(found)


def _bits(path: Path, table: Any, name: str) -> NDArray[np.int64]:
    column = _column(path, table, name)
    refuse_row(path, ~column.isin(["0", "1"]), f"has neither 0 nor 1 in column {name!r}")
    return np.asarray((column == "1").to_numpy(dtype=np.int64))

"""Columns of a table as features: types, missing values, dates and categories, of features alone.

Numbers are standardized and text becomes one column per category, both as the training rows have
them. A number that is missing becomes the median of its column; where training rows lack some, an
indicator column marks them. Missing text is a category of its own. Dates are days since 1970.
Text that is all numbers or dates of one form (`written`) is read so, and the form is kept.

Their preparation is fitted once (`Numbers` for a matrix, `Columns` for named columns). It
prepares these rows, testing rows, and every row that a model predicts later.

>>> import numpy as np
>>> fitted = Columns.fit({"age": [20.0, 40.0, None], "city": ["Bern", None, "Rome"]})
>>> fitted({"age": [30, None], "city": ["Oslo", None]})
array([[0., 0., 0., 0., 0.],
       [0., 1., 0., 0., 1.]], dtype=float32)
"""

import difflib
import numbers
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeldp.trainers.data.files import FileRefused, check_unpacked
from labeldp.trainers.data.sparse_rows import Sentences, SparseRows
from labeldp.trainers.data.stored import Step
from labeldp.trainers.data.written import (
    ISO,
    MISSING,
    form_of,
    forms_in,
    in_words,
    of_dates,
    values_in,
)

#: A column of more categories names single rows, and its one-hot encoding is a lookup table.
MOST_CATEGORIES = 1000
#: The longest string, and the longest that can name a category.
MOST_CHARACTERS = 1_000_000
_LONGEST_CATEGORY = 10_000
#: A column of text with so many values holds sentences if more than this share of them differ and
#: have so many words on average.
_FEWEST_SENTENCES = 20
_DIFFERENT = 0.5
_FEWEST_WORDS = 3
_CHUNK_ROWS = 65_536
#: Kinds of NumPy's types that are numbers: truth values, whole and real ones.
_NUMBERS = "biuf"
_AS_IN_TRAINING = "turn it into numbers or text first, as for the training rows"
_DAY = np.timedelta64(1, "D")

#: Words for identifiers, at an end of a column's name.
_ID_WORDS = frozenset({"id", "ids", "uuid", "guid", "identifier", "rowid", "ssn"})


class RowsRefused(ValueError):
    """Rows of another kind than the training rows; the message names the difference."""


class ColumnsIgnored(UserWarning):
    """Columns that have no part in the features; the message names them."""


class TextColumns(StrEnum):
    """What becomes of columns of sentences: features of their words, nothing, or categories."""

    TFIDF = "tfidf"
    DROP = "drop"
    CATEGORY = "category"


# ------------------------------------------------------------------------------ types of columns


def column_values(name: str, column: Any) -> NDArray[Any]:
    """Return a column [N]: numbers, truth values, `datetime64`, or strings as objects.

    A missing value is NaN, NaT or None. Decimals become numbers.
    """
    if hasattr(column, "combine_chunks"):  # Arrow's
        column = column.to_pandas(date_as_object=False)
    array = array_of(column)
    if array.ndim != 1:
        raise RowsRefused(f"column {name!r} has shape {array.shape}; it must be one value per row")
    match array.dtype.kind:
        case "b" | "i" | "u" | "f" | "M":
            return array
        case "U":
            return array.astype(object)
        case "O":
            return _of_objects(name, array)
    raise RowsRefused(f"column {name!r} holds {array.dtype}; {_AS_IN_TRAINING}")


def learned_values(name: str, column: object) -> tuple[NDArray[Any], str]:
    """Return a column of training rows, and the form in which its text is read; "" for none.

    As `column_values`, and text that is all numbers or dates of one form as these.
    """
    values = column_values(name, column)
    text = values.dtype.kind == "O"
    form = form_of([each for each in values if each is not None]) if text else ""
    return (values_in(values.tolist(), form), form) if form else (values, "")


def is_missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values of a column (see `column_values`) are missing [N]."""
    if column.dtype.kind == "O":
        return np.array([value is None for value in column], dtype=bool)
    missing: NDArray[np.bool_] = column != column  # as NaN and NaT
    return missing


def _of_objects(name: str, array: NDArray[Any]) -> NDArray[Any]:
    import pandas as pd

    missing = pd.isna(array)
    present = array[~missing]
    kind = pd.api.types.infer_dtype(present, skipna=False)
    if kind == "string":
        longest = int(np.argmax([*map(len, present)]))
        if len(present[longest]) > MOST_CHARACTERS:
            raise FileRefused(
                f"row {np.flatnonzero(~missing)[longest]}, column {name!r} has "
                f"{len(present[longest]):,} characters; strings have {MOST_CHARACTERS:,} "
                f"characters at most: leave the column out (data.drop={name}), or shorten it"
            )
        if words := {text for text in set(present) if text.strip() in MISSING}:
            missing |= np.array([text in words for text in array.tolist()])
        return _with_none(array, missing)
    if kind == "boolean":
        if not missing.any():
            return array.astype(bool)
        return _with_none(np.where(missing, False, array).astype(bool).astype(str), missing)
    if kind in ("date", "datetime", "datetime64"):
        dates = pd.to_datetime(pd.Series(array, dtype=object), utc=True)
        return np.asarray(dates.dt.tz_localize(None).to_numpy())
    if kind == "time":
        present = np.array([at.hour + at.minute / 60 + at.second / 3600 for at in present])
    elif kind not in ("decimal", "empty"):
        for row, value in zip(np.flatnonzero(~missing), present, strict=True):
            if not isinstance(value, numbers.Real):
                raise RowsRefused(
                    f"row {row}, column {name!r} holds a {type(value).__name__} among values of "
                    f"other types; {_AS_IN_TRAINING}, or leave the column out"
                )
    values = np.full(len(array), np.nan)
    values[~missing] = present
    return values


def _with_none(array: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Text as objects, None where it is missing."""
    text = array.astype(object)
    text[missing] = None
    return text


def _days(dates: NDArray[Any]) -> NDArray[np.float64]:
    """Dates as days since 1970, with fractions; NaT as NaN."""
    since = dates.astype("datetime64[us]") - np.datetime64(0, "us")
    return np.where(np.isnat(since), np.nan, since / _DAY)


def identifier(name: str, column: NDArray[Any]) -> str | None:
    """Return why a column seems to name single rows rather than describe them, or None."""
    column, _ = learned_values(name, column)
    missing = is_missing(column)
    present = column[~missing]
    if not len(present):
        return "it has no value in any training row"
    text = column.dtype.kind == "O"
    if len(present) < 5 or column.dtype.kind not in "iufO":
        return None
    if column.dtype.kind == "f" and not np.equal(np.floor(present), present).all():
        return None
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower())
    ends = {words[0], words[-1]} if words else set()
    distinct = len(set(present)) if text else np.unique(present).size
    share = distinct / len(present)
    said = f"it has {distinct:,} different values in {len(present):,} rows"
    if ends & _ID_WORDS and share > 0.5:
        return f"{said}, and its name looks like an identifier"
    if share <= (0.9 if text else 0.95):
        return None
    if text and len(present) >= 20:
        seems, places = slips(present)
        if not len(places):
            return f"{said}, {seems or 'all text'}"
    # In a table of some length, whole numbers without gaps number the rows.
    long = not text and len(present) >= 100
    if long and float(present.max()) - float(present.min()) < 2 * len(present):
        return f"{said}, without gaps, like row numbers"
    return None


def is_sentences(column: NDArray[Any]) -> bool:
    """Whether a column of training rows (see `learned_values`) holds sentences.

    Text does that mostly differs, has three words or more on average, and is neither numbers nor
    dates with some errors.
    """
    if column.dtype.kind != "O":
        return False
    present = column[~is_missing(column)].tolist()
    if len(present) < _FEWEST_SENTENCES or len(set(present)) <= _DIFFERENT * len(present):
        return False
    words = sum(len(text.split()) for text in present)
    return words >= _FEWEST_WORDS * len(present) and not slips(column)[0]


def slips(column: NDArray[Any]) -> tuple[str, NDArray[np.intp]]:
    """Return what text seems to be though it can't be read so, and the rows in the way.

    Nothing ("") for other text; no rows where no form is that of nine rows in ten.
    """
    present = np.flatnonzero(~is_missing(column))
    texts = column[present].tolist()
    read = {form: values_in(texts, form) for form in forms_in(texts)}
    fits = {form: values == values for form, values in read.items()}
    if not fits or np.logical_or.reduce([*fits.values()]).mean() < 0.9:
        return "", present[:0]
    form, *others = sorted(fits, key=lambda each: -fits[each].sum())
    share = fits[form].mean()
    if share < 0.9:
        several = " and ".join(map(in_words, [form, *others[:1]]))
        said = f"values of several forms, {several}: write all in one"
        return said, present[:0]
    if share == 1:
        said = "dates, and whether the day or the month is first is not clear: write 2026-12-31"
        return said if of_dates(form) else "", present[:0]
    return in_words(form), present[~fits[form]]


def is_number(text: Any) -> bool:
    """Whether `float` reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------------------------- rows


def by_name(rows: object) -> dict[str, Any] | None:
    """Return the columns of rows that have names; None for rows that have none."""
    if isinstance(rows, Mapping):
        return {str(name): column for name, column in rows.items()}
    if not hasattr(rows, "columns") or not hasattr(rows, "iloc"):
        return None
    names = [str(name) for name in rows.columns]
    if len(set(names)) < len(names):
        raise RowsRefused(f"rows have two columns of one name: {_listed(names)}")
    return {name: rows.iloc[:, place] for place, name in enumerate(names)}


def named_columns(rows: object, *, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return columns of rows in the order of `names`; others are ignored with a warning."""
    found = by_name(rows)
    if found is None:
        raise RowsRefused(
            f"rows are a {type(rows).__name__} without names of columns; the training rows had "
            f"columns {_listed(names)}: give a DataFrame, or a mapping of names to columns"
        )
    missing = [name for name in names if name not in found]
    if missing:
        close = difflib.get_close_matches(missing[0], found, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {_listed(list(found))}"
        raise RowsRefused(
            f"rows have no column {missing[0]!r}, which the training rows had; {hint}"
        )
    if further := [name for name in found if name not in names]:
        warnings.warn(
            f"ignored {len(further)} column(s) that the model does not use: {_listed(further)}",
            ColumnsIgnored,
            stacklevel=2,
        )
    columns = {name: column_values(name, found[name]) for name in names}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise RowsRefused(
            f"columns have {_listed(sorted(lengths))} rows; all must have the same number"
        )
    return columns


def matrix_of(rows: object, *, width: int, names: Sequence[str] | None = None) -> NDArray[Any]:
    """Return rows as a matrix of numbers [N, width], NaN where one is missing."""
    found = by_name(rows)
    if found is not None:
        columns = named_columns(rows, names=list(found) if names is None else names)
        matrix = _stacked(list(columns), list(columns.values()))
    else:
        matrix = array_of(rows)
        if matrix.dtype == object and matrix.ndim == 2:
            # As a DataFrame of several types makes one.
            places = range(matrix.shape[1])
            held = [column_values(str(place), matrix[:, place]) for place in places]
            matrix = _stacked(places, held)
    if matrix.dtype.kind not in _NUMBERS:
        raise RowsRefused(
            f"rows are {matrix.dtype}; they must be real numbers [N, {width}]: {_AS_IN_TRAINING}"
        )
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise RowsRefused(
            f"rows have shape {matrix.shape}; the training rows had {width} columns, so that they "
            f"must be [N, {width}]"
        )
    return matrix


def _stacked(names: Sequence[Any], columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind not in _NUMBERS:
            held = "dates" if column.dtype.kind == "M" else "text"
            raise RowsRefused(f"column {name!r} holds {held}; the training rows had numbers there")
    return np.column_stack(columns) if columns else np.empty((0, 0))


def array_of(values: Any, *, what: str = "rows") -> NDArray[Any]:
    """Return an array, a sparse matrix of SciPy's, a tensor or lists as an array."""
    if hasattr(values, "toarray"):
        rows, columns = values.shape
        check_unpacked(f"{what} (sparse, {rows:,} x {columns:,})", 12 * rows * columns)
        values = values.toarray()
    if hasattr(values, "detach"):  # torch's
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise RowsRefused(
            f"{what} can't be read as an array ({error}); {_AS_IN_TRAINING}"
        ) from error


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:8])
    return f"{shown}, ... ({len(values)} in all)" if len(values) > 8 else shown or "none"


# ------------------------------------------------------------------------------------- encoders


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers(Step):
    """A matrix of numbers less the training rows' mean, over their deviation.

    Attributes:
        mean: Of each column of the training rows, float64 [D].
        std: Likewise; infinity for a column that never changes, which becomes zeros.
        median: Replacement of a missing number [D].
        indicated: Places of columns whose missing numbers have an indicator column, after all
            others [I].
        dates: Whether it is one column of dates, taken as days.
        form: Of the text of such a column, or of one of numbers (see `written`).
        scaled: Whether features are in single precision. Numbers that stay as they are need double.
    """

    kind: ClassVar[str] = "numbers"

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    median: NDArray[np.float64]
    indicated: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    names: tuple[str, ...] | None = None
    dates: bool = False
    form: str = ""
    scaled: bool = True

    @classmethod
    def fit(
        cls, train: NDArray[Any], *, names: Sequence[str] | None = None, form: str = ""
    ) -> "Numbers":
        """Learn from the training rows: numbers [N, D], NaN where one is missing, or dates."""
        if dates := train.dtype.kind == "M":
            train = _days(train)
        median, gaps = _medians(train)
        if gaps.any():
            train = np.where(np.isnan(train), median.astype(train.dtype), train)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = train.mean(axis=0, dtype=np.float64)
            squares = sum(((rows - mean) ** 2).sum(axis=0) for rows in _chunks(train))
            std = np.sqrt(squares / len(train))
        for place in np.flatnonzero(~np.isfinite(std)):
            refuse_infinite(train, what="training features", names=names)
            raise ValueError(
                f"column {_column(place, names)} holds numbers too large to standardize; rescale it"
            )
        # Rounding leaves noise in a constant column, not a signal.
        std[std <= 1e-12 * np.abs(mean)] = np.inf
        return cls(
            mean=mean,
            std=std,
            median=median,
            indicated=np.flatnonzero((gaps > 0) & (gaps < len(train))),
            names=None if names is None else tuple(names),
            dates=dates,
            form=form,
        )

    def __call__(self, rows: Any, *, what: str = "features") -> NDArray[np.floating]:
        """Return features [N, D + I] of rows [N, D] or of columns by name.

        `what` is a noun for messages.
        """
        if form := self.form or (ISO if self.dates else ""):
            rows = {name: _as_written(name, column, form) for name, column in rows.items()}
        width = len(self.mean)
        matrix = matrix_of(rows, width=width, names=self.names)
        refuse_infinite(matrix, what=what, names=self.names)
        result = np.empty((len(matrix), *self.shape), dtype=self.dtype)
        for some, target in zip(_chunks(matrix), _chunks(result), strict=True):
            gaps = np.isnan(some) if matrix.dtype.kind == "f" else None
            if gaps is not None and gaps.any():
                some = np.where(gaps, self.median.astype(some.dtype), some)
            target[:, :width] = (some - self.mean) / self.std
            target[:, width:] = 0 if gaps is None else gaps[:, self.indicated]
        return result

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (len(self.mean) + len(self.indicated),)

    @property
    def dtype(self) -> type[np.floating]:
        """Type of an output number."""
        return np.float32 if self.scaled else np.float64

    def as_they_are(self) -> "Numbers":
        """Return the same without a scale."""
        nothing = np.zeros_like(self.mean)
        one = np.ones_like(self.std)
        return replace(self, mean=nothing, std=one, scaled=False)


def _medians(train: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Median of each column's numbers [D], 0 where there are none, and how many are missing [D]."""
    median = np.zeros(train.shape[1])
    gaps = np.zeros(train.shape[1], dtype=np.int64)
    for place, column in enumerate(train.T):
        if column.dtype.kind == "f":
            absent = np.isnan(column)
            gaps[place] = absent.sum()
            column = column[~absent] if gaps[place] else column
        if len(column):
            with np.errstate(over="ignore", invalid="ignore"):
                median[place] = np.median(column)
    return median, gaps


def _as_written(name: str, column: NDArray[Any], form: str) -> NDArray[Any]:
    missing = is_missing(column)
    had = f"the training rows had {in_words(form)} there"
    if column.dtype.kind == "O":
        values = values_in(column.tolist(), form)
        if len(bad := np.flatnonzero((values != values) & ~missing)):
            raise RowsRefused(f"row {bad[0]}, column {name!r} is {column[bad[0]]!r}; {had}")
        column = values
    elif of_dates(form) and column.dtype.kind != "M" and not missing.all():
        raise RowsRefused(f"column {name!r} holds numbers; {had}")
    return _days(column) if column.dtype.kind == "M" else column


def _as_text(name: str, column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind == "b":
        return column.astype(str).astype(object)
    if column.dtype.kind == "O":
        return column
    if not is_missing(column).all():
        held = "dates" if column.dtype.kind == "M" else "numbers"
        raise RowsRefused(f"column {name!r} holds {held}; the training rows had text there")
    return np.full(len(column), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Categories(Step):
    """A column of text: one feature per category of the training rows, in alphabetical order."""

    kind: ClassVar[str] = "categories"

    categories: tuple[str, ...]
    indicated: bool = False

    @classmethod
    def fit(cls, column: NDArray[Any], *, name: str) -> "Categories":
        """Learn from the training rows [N]."""
        missing = is_missing(column)
        categories = sorted(set(column[~missing].tolist()))
        if (longest := max(map(len, categories), default=0)) > _LONGEST_CATEGORY:
            raise ValueError(
                f"column {name!r} has {longest:,} characters in a row, and the name of a category "
                f"has {_LONGEST_CATEGORY:,} at most; leave the column out (data.drop={name})"
            )
        if len(categories) > MOST_CATEGORIES:
            raise ValueError(
                f"column {name!r} has {len(categories)} categories in {len(column)} rows, more "
                f"than {MOST_CATEGORIES}; leave it out if it names single rows, or store it as "
                "a number"
            )
        return cls(categories=tuple(categories), indicated=bool(missing.any()))

    def __call__(
        self, rows: Mapping[str, NDArray[Any]], *, what: str = "features"
    ) -> NDArray[np.float32]:
        """Return a named column's features [N, D]; zeros for a category that is not known."""
        ((name, column),) = rows.items()
        missing = is_missing(column)
        column = _as_text(name, column)
        one_hot = np.zeros((len(column), *self.shape), dtype=np.float32)
        place = {category: number for number, category in enumerate(self.categories)}
        places = np.fromiter((place.get(text, -1) for text in column), np.int64, len(column))
        known = np.flatnonzero(places >= 0)
        one_hot[known, places[known]] = 1
        if self.indicated:
            one_hot[missing, -1] = 1
        return one_hot

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (len(self.categories) + self.indicated,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns(Step):
    """The columns of a table as features: numbers (see `Numbers`), text one-hot, and sentences.

    Attributes:
        beside: Whether the words of sentences come beside the features, as `SparseRows`.
    """

    kind: ClassVar[str] = "columns"

    names: tuple[str, ...]
    parts: tuple[Numbers | Categories | Sentences, ...]
    beside: bool = False

    @classmethod
    def fit(
        cls, train: Mapping[str, Any], *, text: TextColumns = TextColumns.CATEGORY
    ) -> "Columns":
        """Learn from training rows: column name -> values [N], as `column_values` takes them."""
        parts: list[Numbers | Categories | Sentences] = []
        for name, given in train.items():
            column, form = learned_values(name, given)
            if column.dtype.kind == "b":
                column = column.astype(str).astype(object)
            if text is TextColumns.TFIDF and is_sentences(column):
                parts.append(Sentences.fit(column.tolist()))
            elif column.dtype.kind == "O":
                parts.append(Categories.fit(column, name=name))
            else:
                parts.append(Numbers.fit(column[:, None], names=[name], form=form))
        return cls(names=tuple(train), parts=tuple(parts))

    def __call__(self, rows: object, *, what: str = "features") -> Any:
        """Return features [N, D] of a DataFrame or of columns by name.

        A category that no training row has is a row of zeros among its column's features.
        """
        found = named_columns(rows, names=self.names)
        count = len(next(iter(found.values()))) if found else 0
        kinds = {each.dtype for each in self.parts if isinstance(each, Numbers)}
        result = np.empty((count, *self.shape), dtype=np.result_type(np.float32, *kinds))
        words: list[Any] = []
        plain = np.ones(result.shape[1], bool)
        start = 0
        for name, encode in zip(self.names, self.parts, strict=True):
            (width,) = encode.shape
            some = slice(start, start + width)
            # A column without rows is of no type in most tables.
            if isinstance(encode, Sentences):
                plain[some] = False
                if count:
                    words.append(encode.words(_as_text(name, found[name]).tolist()))
                    result[:, some] = encode(words[-1])
            elif count:
                result[:, some] = encode({name: found[name]}, what=what)
            start += width
        if not words or not self.beside:
            return result
        beside = sparse.hstack(words, "csr")
        return SparseRows(dense=result, sparse=beside, plain=np.flatnonzero(plain))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (sum(each.shape[0] for each in self.parts),)

    def as_they_are(self, *, beside: bool = False) -> "Columns":
        """Return the same without a scale of numbers."""
        parts = (each.as_they_are() if isinstance(each, Numbers) else each for each in self.parts)
        return replace(self, parts=tuple(parts), beside=beside)


def standardized(fitted: Columns | Numbers, train: object, test: object) -> dict[str, Any]:
    """Return features of both parts and what made them, as `Splits` has them."""
    return {
        "train_features": fitted(train, what="training features"),
        "test_features": fitted(test, what="testing features"),
        "preprocessing": fitted,
    }


def _chunks(matrix: NDArray[Any]) -> list[NDArray[Any]]:
    return [matrix[i : i + _CHUNK_ROWS] for i in range(0, len(matrix), _CHUNK_ROWS)]


def refuse_infinite(
    matrix: NDArray[Any], *, what: str, names: Sequence[str] | None = None, missing: bool = True
) -> None:
    """Refuse infinity, and NaN unless numbers may be `missing`, by the first row and column."""
    if matrix.dtype.kind != "f":
        return
    for start, rows in enumerate(_chunks(matrix)):
        bad = np.argwhere(np.isinf(rows) if missing else ~np.isfinite(rows))
        if len(bad):
            row, place = bad[0]
            half = ""
            if matrix.dtype == np.float16 and np.isinf(rows[row, place]):
                half = " (half precision ends at 65,504: make them in single precision)"
            raise ValueError(
                f"{what} row {start * _CHUNK_ROWS + row}, column {_column(place, names)} "
                f"is {rows[row, place]}; features must be finite: drop such rows or fill them in"
                f"{half}"
            )


def _column(place: np.integer[Any], names: Sequence[str] | None) -> str:
    return str(place) if names is None else repr(names[int(place)])

"""Tables: numbers standardized and categories one-hot, both as the training rows have them; Adult.

What the training rows say is fitted once (`Numbers`, `Columns`), and prepares them, the testing
rows and whatever a model is asked about later.

UCI Adult (Becker and Kohavi 1996): does a person earn more than 50,000 dollars a year?

>>> import numpy as np
>>> fitted = Columns.fit({"age": np.array([20.0, 40.0]), "city": np.array(["Bern", "Rome"])})
>>> fitted({"age": [30], "city": ["Oslo"]})
array([[0., 0., 0.]], dtype=float32)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_sets.files import DataFileError, Splits, read_lines
from labeldp.trainers.data_sets.raw_rows import RowsRefused, matrix_of, named_columns

ADULT_CLASSES = ("<=50K", ">50K")
#: Name -> whether it is a number.
ADULT_COLUMNS = {
    "age": True,
    "workclass": False,
    "fnlwgt": True,
    "education": False,
    "education-num": True,
    "marital-status": False,
    "occupation": False,
    "relationship": False,
    "race": False,
    "sex": False,
    "capital-gain": True,
    "capital-loss": True,
    "hours-per-week": True,
    "native-country": False,
}
#: A column of more categories is an identifier, and its one-hot encoding a lookup table.
MOST_CATEGORIES = 1000
_CHUNK_ROWS = 65_536


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers:
    """Numbers less the training rows' mean, over their deviation.

    Attributes:
        mean: Of each column of the training rows, float64 [D].
        std: Likewise; infinity for a column that never changes, which becomes zeros.
        names: Of the columns, where they have any.
    """

    kind: ClassVar[str] = "numbers"

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    names: tuple[str, ...] | None = None

    @classmethod
    def fit(cls, train: NDArray[Any], *, names: Sequence[str] | None = None) -> "Numbers":
        """Return what the training rows [N, D] say.

        Raises:
            ValueError: A number that is not finite, or so large that its square is not.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            mean = train.mean(axis=0, dtype=np.float64)
            squares = sum(((rows - mean) ** 2).sum(axis=0) for rows in _chunks(train))
            std = np.sqrt(squares / len(train))
        for place in np.flatnonzero(~np.isfinite(std)):
            refuse_not_finite(train, what="training features", names=names)
            raise ValueError(
                f"column {_column(place, names)} holds numbers too large to standardize; rescale it"
            )
        # What is left of a constant column after rounding is no signal.
        std[std <= 1e-12 * np.abs(mean)] = np.inf
        return cls(mean=mean, std=std, names=None if names is None else tuple(names))

    def __call__(self, rows: Any, *, what: str = "features") -> NDArray[np.float32]:
        """Return features, float32 [N, D], of rows of numbers [N, D].

        Args:
            rows: An array, or columns by name.
            what: What they are, for messages.

        Raises:
            ValueError: Other columns, or a number that is not finite.
        """
        matrix = matrix_of(rows, width=len(self.mean), names=self.names)
        refuse_not_finite(matrix, what=what, names=self.names)
        result = np.empty(matrix.shape, dtype=np.float32)
        for some, target in zip(_chunks(matrix), _chunks(result), strict=True):
            target[:] = (some - self.mean) / self.std
        return result

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row that comes out."""
        return (len(self.mean),)

    def described(self) -> dict[str, Any]:
        """Return what is no array, as plain values."""
        return {"names": None if self.names is None else list(self.names)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {"mean": self.mean, "std": self.std}

    @classmethod
    def restored(
        cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "Numbers":
        """Return what `described` and `arrays` were taken of."""
        names = described["names"]
        return cls(
            mean=arrays["mean"],
            std=arrays["std"],
            names=None if names is None else tuple(names),
        )


@dataclass(frozen=True, kw_only=True)
class Number:
    """A column of numbers: less its mean, over its deviation (infinity makes it zeros)."""

    mean: float
    std: float

    def __call__(self, name: str, column: NDArray[Any], what: str) -> NDArray[np.float32]:
        """Return the column's feature [N, 1]."""
        if not len(column):  # of no type in most tables
            return np.zeros((0, 1), dtype=np.float32)
        if column.dtype.kind not in "biuf":
            raise RowsRefused(f"column {name!r} holds text; the training rows had numbers there")
        fitted = Numbers(mean=np.array([self.mean]), std=np.array([self.std]), names=(name,))
        return fitted(column[:, None], what=what)


@dataclass(frozen=True, kw_only=True)
class Categories:
    """A column of text: one feature per category of the training rows, in alphabetical order."""

    categories: tuple[str, ...]

    def __call__(self, name: str, column: NDArray[Any], what: str) -> NDArray[np.float32]:
        """Return the column's features [N, categories]; zeros for a category that is not known."""
        del what  # there is nothing that could be no number
        if not len(column):
            return np.zeros((0, len(self.categories)), dtype=np.float32)
        if column.dtype.kind == "b":
            column = column.astype(str)
        if column.dtype.kind != "U":
            raise RowsRefused(f"column {name!r} holds numbers; the training rows had text there")
        known = np.array(self.categories)
        nearest = np.searchsorted(known, column).clip(max=len(known) - 1)
        one_hot: NDArray[np.float32] = np.eye(len(known), dtype=np.float32)[nearest]
        one_hot *= (known[nearest] == column)[:, None]
        return one_hot


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table as features: numbers standardized, text one-hot.

    Attributes:
        columns: Name -> how it becomes features, in their order.
        beside: Names of columns of the training table that are no features (labels, say): rows may
            have them, and they are passed over.
    """

    kind: ClassVar[str] = "columns"

    columns: Mapping[str, Number | Categories]
    beside: tuple[str, ...] = ()

    @classmethod
    def fit(cls, train: Mapping[str, NDArray[Any]], *, beside: Sequence[str] = ()) -> "Columns":
        """Return what the training rows say.

        Args:
            train: Column name -> numbers or strings [N].
            beside: See the attribute.

        Raises:
            ValueError: Numbers that are not finite, or a column of too many categories.
        """
        fitted: dict[str, Number | Categories] = {}
        for name, column in train.items():
            if np.issubdtype(column.dtype, np.number):
                of_one = Numbers.fit(column[:, None], names=[name])
                fitted[name] = Number(mean=float(of_one.mean[0]), std=float(of_one.std[0]))
                continue
            categories = np.unique(column)
            if len(categories) > MOST_CATEGORIES:
                raise ValueError(
                    f"column {name!r} has {len(categories)} categories in {len(column)} rows, more "
                    f"than {MOST_CATEGORIES}; leave it out if it names single rows, or store it as "
                    "a number"
                )
            fitted[name] = Categories(categories=tuple(map(str, categories)))
        return cls(columns=fitted, beside=tuple(beside))

    def __call__(self, rows: Any, *, what: str = "features") -> NDArray[np.float32]:
        """Return features, float32 [N, D], of a table's rows.

        A category that no training row has is a row of zeros among its column's features.

        Args:
            rows: A DataFrame, or column name -> numbers or strings [N].
            what: What they are, for messages.

        Raises:
            ValueError: Other columns, of another kind, or a number that is not finite.
        """
        found = named_columns(rows, names=tuple(self.columns), beside=self.beside)
        blocks = [encode(name, found[name], what) for name, encode in self.columns.items()]
        return np.concatenate(blocks, axis=1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row that comes out."""
        widths = (
            len(each.categories) if isinstance(each, Categories) else 1
            for each in self.columns.values()
        )
        return (sum(widths),)

    def described(self) -> dict[str, Any]:
        """Return all of it as plain values; infinity as None, which JSON has."""
        return {
            "columns": [
                {"name": name, "categories": list(each.categories)}
                if isinstance(each, Categories)
                else {
                    "name": name,
                    "mean": each.mean,
                    "std": None if np.isinf(each.std) else each.std,
                }
                for name, each in self.columns.items()
            ],
            "beside": list(self.beside),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name: there are none."""
        return {}

    @classmethod
    def restored(
        cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "Columns":
        """Return what `described` was taken of."""
        del arrays
        columns: dict[str, Number | Categories] = {}
        for each in described["columns"]:
            if "categories" in each:
                columns[each["name"]] = Categories(categories=tuple(each["categories"]))
            else:
                std = np.inf if each["std"] is None else each["std"]
                columns[each["name"]] = Number(mean=each["mean"], std=std)
        return cls(columns=columns, beside=tuple(described["beside"]))


def encode(
    train: Mapping[str, NDArray[Any]], test: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the columns of a table as `Columns` makes features of them.

    Args:
        train: Column name -> numbers or strings [N].
        test: The same columns [M].

    Returns:
        float32 [N, D] and [M, D].

    Raises:
        ValueError: Numbers that are not finite, or a column of too many categories.
    """
    fitted = Columns.fit(train)
    return fitted(train, what="training features"), fitted(test, what="testing features")


def standardize(
    train: NDArray[Any], test: NDArray[Any], *, names: Sequence[str] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return both matrices as `Numbers` makes features of them.

    Args:
        train: Numbers [N, D].
        test: Numbers [M, D].
        names: Of the columns, for messages; their numbers if not given.

    Returns:
        float32 [N, D] and [M, D]; a column that never changes becomes zeros.

    Raises:
        ValueError: A number that is not finite, or so large that its square is not.
    """
    fitted = Numbers.fit(train, names=names)
    return fitted(train, what="training features"), fitted(test, what="testing features")


def _chunks(matrix: NDArray[Any]) -> list[NDArray[Any]]:
    return [matrix[i : i + _CHUNK_ROWS] for i in range(0, len(matrix), _CHUNK_ROWS)]


def refuse_not_finite(
    matrix: NDArray[Any], *, what: str, names: Sequence[str] | None = None
) -> None:
    """Refuse NaN and infinity in a matrix [N, D], and name the first row and column."""
    for start, rows in enumerate(_chunks(matrix)):
        bad = np.argwhere(~np.isfinite(rows))
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


def read_adult(folder: Path) -> Splits:
    """Return UCI Adult, training rows from `adult.data` and testing rows from `adult.test`.

    A missing entry, `?`, is a category like any other.

    Raises:
        DatasetMissing: One of the files is not there.
        DataFileError: A line that is cut off, no number where one belongs, an unknown label.
    """
    train, train_labels = read_adult_rows(folder / "adult.data")
    test, test_labels = read_adult_rows(folder / "adult.test")
    fitted = Columns.fit(train)
    return Splits(
        train_features=fitted(train, what="training features"),
        train_labels=train_labels,
        test_features=fitted(test, what="testing features"),
        test_labels=test_labels,
        num_classes=2,
        class_names=ADULT_CLASSES,
        preprocessing=fitted,
    )


def read_adult_rows(path: Path) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the columns of one of Adult's files, numbers or strings [N], and its labels [N].

    Raises:
        DatasetMissing: It is not there.
        DataFileError: A line that is cut off, no number where one belongs, an unknown label.
    """
    rows: list[list[str]] = []
    labels: list[int] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("|"):  # adult.test starts with a remark
            continue
        *fields, label = (part.strip() for part in line.split(","))
        if len(fields) != len(ADULT_COLUMNS):
            raise DataFileError(
                f"{path} line {number} has {len(fields) + 1} fields; Adult has "
                f"{len(ADULT_COLUMNS) + 1}: the file is cut off or damaged, fetch it again"
            )
        label = label.removesuffix(".")  # as adult.test writes them
        if label not in ADULT_CLASSES:
            raise DataFileError(f"{path} line {number} ends with no label of Adult, <=50K or >50K")
        rows.append(fields)
        labels.append(ADULT_CLASSES.index(label))
    if not rows:
        raise DataFileError(f"{path} holds no rows: fetch it again")
    columns: dict[str, NDArray[Any]] = {}
    for (name, numeric), values in zip(ADULT_COLUMNS.items(), zip(*rows, strict=True), strict=True):
        try:
            columns[name] = np.array(values, dtype=np.float64 if numeric else str)
        except ValueError as error:
            raise DataFileError(f"{path}, column {name!r}: {error}") from error
    return columns, np.array(labels, dtype=np.int64)

"""Tables: numbers standardized and categories one-hot, both as the training rows have them; Adult.

UCI Adult (Becker and Kohavi 1996): does a person earn more than 50,000 dollars a year?

>>> import numpy as np
>>> train = {"age": np.array([20.0, 40.0]), "city": np.array(["Bern", "Rome"])}
>>> test = {"age": np.array([30.0]), "city": np.array(["Oslo"])}
>>> encode(train, test)[1]
array([[0., 0., 0.]], dtype=float32)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_sets.files import DataFileError, Splits, read_lines

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


def encode(
    train: Mapping[str, NDArray[Any]], test: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the columns of a table as features.

    Numbers get mean 0 and standard deviation 1 on the training rows. Text becomes one column per
    category of the training rows, in alphabetical order; a category that only testing rows have is
    a row of zeros there.

    Args:
        train: Column name -> numbers or strings [N].
        test: The same columns [M].

    Returns:
        float32 [N, D] and [M, D].

    Raises:
        ValueError: Numbers that are not finite, or a column of too many categories.
    """
    blocks: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    for name, column in train.items():
        if np.issubdtype(column.dtype, np.number):
            blocks.append(standardize(column[:, None], test[name][:, None], names=[name]))
            continue
        categories, places = np.unique(column, return_inverse=True)
        if len(categories) > MOST_CATEGORIES:
            raise ValueError(
                f"column {name!r} has {len(categories)} categories in {len(column)} rows, more "
                f"than {MOST_CATEGORIES}; leave it out if it names single rows, or store it as a "
                "number"
            )
        nearest = np.searchsorted(categories, test[name]).clip(max=len(categories) - 1)
        one_hot = np.eye(len(categories), dtype=np.float32)
        known = (categories[nearest] == test[name])[:, None]
        blocks.append((one_hot[places], one_hot[nearest] * known))
    return (
        np.concatenate([block for block, _ in blocks], axis=1),
        np.concatenate([block for _, block in blocks], axis=1),
    )


def standardize(
    train: NDArray[Any], test: NDArray[Any], *, names: list[str] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return both matrices with the training rows' mean taken off, over their deviation.

    Args:
        train: Numbers [N, D].
        test: Numbers [M, D].
        names: Of the columns, for messages; their numbers if not given.

    Returns:
        float32 [N, D] and [M, D]; a column that never changes becomes zeros.

    Raises:
        ValueError: A number that is not finite, or so large that its square is not.
    """
    for part, matrix in (("training", train), ("testing", test)):
        refuse_not_finite(matrix, what=f"{part} features", names=names)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = train.mean(axis=0, dtype=np.float64)
        squares = sum(((rows - mean) ** 2).sum(axis=0) for rows in _chunks(train))
        std = np.sqrt(squares / len(train))
    for place in np.flatnonzero(~np.isfinite(std)):
        raise ValueError(
            f"column {_column(place, names)} holds numbers too large to standardize; rescale it"
        )
    # What is left of a constant column after rounding is no signal.
    std[std <= 1e-12 * np.abs(mean)] = np.inf

    def scaled(matrix: NDArray[Any]) -> NDArray[np.float32]:
        result = np.empty(matrix.shape, dtype=np.float32)
        for rows, target in zip(_chunks(matrix), _chunks(result), strict=True):
            target[:] = (rows - mean) / std
        return result

    return scaled(train), scaled(test)


def _chunks(matrix: NDArray[Any]) -> list[NDArray[Any]]:
    return [matrix[i : i + _CHUNK_ROWS] for i in range(0, len(matrix), _CHUNK_ROWS)]


def refuse_not_finite(matrix: NDArray[Any], *, what: str, names: list[str] | None = None) -> None:
    """Refuse NaN and infinity in a matrix [N, D], and name the first row and column."""
    for start, rows in enumerate(_chunks(matrix)):
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            row, place = bad[0]
            raise ValueError(
                f"{what} row {start * _CHUNK_ROWS + row}, column {_column(place, names)} "
                f"is {rows[row, place]}; features must be finite: drop such rows or fill them in"
            )


def _column(place: np.integer[Any], names: list[str] | None) -> str:
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
    train_features, test_features = encode(train, test)
    return Splits(
        train_features=train_features,
        train_labels=train_labels,
        test_features=test_features,
        test_labels=test_labels,
        num_classes=2,
        class_names=ADULT_CLASSES,
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

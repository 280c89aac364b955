"""UCI Adult (Becker and Kohavi 1996): does a person earn more than 50,000 dollars a year?"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import Columns
from labeldp.trainers.data.files import DataFileError, Splits, read_lines

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
        if numeric and np.isnan(columns[name]).any():
            row = int(np.isnan(columns[name]).argmax())
            raise DataFileError(f"{path} row {row}, column {name!r} is nan: fetch it again")
    return columns, np.array(labels, dtype=np.int64)

"""The user's own data: files of arrays or of a table, read, split and made features.

| file | holds |
|---|---|
| `.csv` | a line of names, then a line per row; a column of labels |
| `.parquet` | the same; its metadata may state the classes |
| `.npz` | `features` and `labels`, or those of `train_` and `test_`; it may state the classes |
| `.npy` and `.npy` | features in one, labels in the other; large features stay on disk |

Images are uint8 [N, H, W], [N, C, H, W] or [N, H, W, C] with C = 1 or 3; tables are numbers [N, D].

**Labels of testing rows count as public**, as the set of classes does. So neither is made up here:
without a split the user says what to hold out (`HoldOut`), and the classes are stated in the file
or by the user, never read off the labels.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.trainers.data_sets.embedded import own_provenance
from labeldp.trainers.data_sets.files import DataFileError, DatasetMissing, Splits
from labeldp.trainers.data_sets.own_arrays import read_npy, read_npz
from labeldp.trainers.data_sets.own_columns import LABEL
from labeldp.trainers.data_sets.own_csv import read_csv
from labeldp.trainers.data_sets.own_features import prepared, refuse_not_finite_numbers
from labeldp.trainers.data_sets.own_labels import label_numbers
from labeldp.trainers.data_sets.own_parquet import read_parquet
from labeldp.trainers.data_sets.own_rows import (
    OwnRows,
    refuse_hold_out,
    rows_for_testing,
    stated_classes,
)
from labeldp.trainers.data_sets.own_source import OwnSource

#: How a file of the user's is told from the name of a data set.
OWN_FILES = (".csv", ".npy", ".npz", ".parquet")


def read_own(source: OwnSource, *, folder: Path | None = None) -> Splits:
    """Return the arrays of a user's files.

    Args:
        source: Which files, and what they leave open.
        folder: Where features go that are too large for memory; a temporary one if not given.

    Raises:
        DatasetMissing: There is no such file.
        DataFileError: It can't be read, or does not hold what it should.
        ValueError: Features or labels that can't be used.
    """
    if source.path is None:
        raise ValueError(
            "name=own needs a path: data.path=FILE.csv (or .parquet, .npz; or .npy with "
            "data.labels=FILE.npy)"
        )
    file = Path(source.path).expanduser()
    rows = read_rows(source)
    if source.test_path is not None:
        rows = _with_second_file(rows, source, file)
    splits = splits_of(rows, source, where=file, folder=folder)
    return replace(splits, provenance=own_provenance(source, splits.train_features))


def read_rows(source: OwnSource, *, testing: bool = False) -> OwnRows:
    """Return what a file holds as it is, before anything is decided about it.

    Args:
        source: Which file.
        testing: Whether the second file is meant, of rows for testing.

    Raises:
        DatasetMissing: There is no such file.
        DataFileError: It can't be read, or does not hold what it should.
    """
    path, labels = source.path, source.labels
    if testing:
        path, labels = source.test_path, source.test_labels
    assert path is not None
    file = _there(path, key="data.test_path" if testing else "data.path")
    match file.suffix.lower():
        case ".csv":
            return read_csv(file, source)
        case ".parquet":
            return read_parquet(file, source)
        case ".npz":
            return read_npz(file, source)
        case ".npy":
            assert labels is not None
            key = "data.test_labels" if testing else "data.labels"
            return read_npy(file, _there(labels, key=key), source)
        case _:
            raise DataFileError(
                f"{file} is none of {', '.join(OWN_FILES)}; save the data as one of them"
            )


def splits_of(
    rows: OwnRows, source: OwnSource, *, where: Path | str, folder: Path | None = None
) -> Splits:
    """Return rows as features and labels, for training and for testing.

    Args:
        rows: As they were read.
        source: What they leave open.
        where: What holds them, for messages.
        folder: As in `read_own`.

    Raises:
        DataFileError: No classes are stated, or nothing is said of rows for testing.
        ValueError: Features or labels that can't be used.
    """
    num_classes, names = stated_classes(where, in_file=rows.stated, said=source.classes)
    rows = _numbered(rows, names, source, where=where)
    if rows.test is None:
        matrix = rows.features
        if isinstance(matrix, np.ndarray) and matrix.ndim == 2 and type(matrix) is not np.memmap:
            # Before the rows are split: here a message can name the row that the file has it in.
            refuse_not_finite_numbers(matrix, what=f"{where}: features")
        assert rows.labels is not None
        _validate.labels(rows.labels, num_classes=num_classes, name=f"{where}: labels", secret=True)
        chosen = rows_for_testing(
            where, rows.split, len(rows), hold_out=source.hold_out, seed=source.hold_out_seed
        )
        train, test = rows.only(~chosen), rows.only(chosen)
    else:
        refuse_hold_out(where, source.hold_out)
        train, test = (
            part.mapped()
            for part in (rows, _numbered(rows.test, names, source, where=source.test_path or where))
        )
    features = prepared(
        train.features, test.features, where=where, beside=rows.beside, folder=folder
    )
    assert train.labels is not None and test.labels is not None
    return Splits(
        train_features=features.train,
        train_labels=train.labels,
        test_features=features.test,
        test_labels=test.labels,
        num_classes=num_classes,
        class_names=names,
        preprocessing=features.preprocessing,
    )


def _numbered(
    rows: OwnRows, names: tuple[str, ...] | None, source: OwnSource, *, where: Any
) -> OwnRows:
    """The same rows with whole numbers for labels."""
    assert rows.labels is not None
    table = isinstance(rows.features, dict)
    column = f"column {source.label_column or LABEL!r}" if table else "array 'labels'"
    labels = label_numbers(rows.labels, names, where=where, column=column)
    return replace(rows, labels=labels)


def _with_second_file(rows: OwnRows, source: OwnSource, file: Path) -> OwnRows:
    """The rows of training with those that a second file has for testing."""
    if rows.split is not None or rows.test is not None:
        raise DataFileError(
            f"{file} brings a test split of its own, and data.test_path={source.test_path} "
            "another; leave one of them out"
        )
    other = read_rows(source, testing=True)
    if other.split is not None or other.test is not None:
        raise DataFileError(
            f"{source.test_path} brings a split of its own, but all of its rows are for testing "
            "(data.test_path); take the split out of it"
        )
    if rows.stated is not None and other.stated is not None and rows.stated != other.stated:
        raise DataFileError(
            f"{file} states the classes as {rows.stated!r} and {source.test_path} as "
            f"{other.stated!r}; they must agree"
        )
    return replace(rows, test=other, stated=rows.stated if other.stated is None else other.stated)


def _there(path: str | os.PathLike[str], *, key: str) -> Path:
    file = Path(path).expanduser()
    if not file.exists():
        raise DatasetMissing(f"{file.absolute()} is not there; check {key}")
    return file

"""The user's own table in a `.parquet` file: numbers, strings as categories, a column of labels."""

import difflib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_files import DataFileError, Splits
from labeldp.trainers.own_rows import SPLIT, count_classes, rows_for_testing
from labeldp.trainers.tabular_files import encode, refuse_not_finite

_LABEL_COLUMN = "label"


def read_parquet(file: Path, *, label_column: str | None = None) -> Splits:
    """Return the arrays of a table: one column of labels, the others features.

    Args:
        file: The `.parquet`.
        label_column: Whole numbers 0..K-1, or the classes' names; `label` if not given.

    Raises:
        DataFileError: It can't be read, or a column can't be used.
    """
    columns, classes = _parquet_columns(file, label_column or _LABEL_COLUMN)
    labels = columns.pop(label_column or _LABEL_COLUMN)
    num_classes = count_classes(file, labels=labels)
    split = columns.get(SPLIT)
    if split is not None and split.dtype.kind == "U" and set(split) <= {"train", "test"}:
        del columns[SPLIT]
    else:
        split = None
    if not columns:
        raise DataFileError(f"{file} has no column of features besides the labels")
    test_rows = rows_for_testing(file, split, len(labels))
    train_features, test_features = encode(
        {name: column[~test_rows] for name, column in columns.items()},
        {name: column[test_rows] for name, column in columns.items()},
    )
    train_labels, test_labels = labels[~test_rows], labels[test_rows]
    return Splits(
        train_features=train_features,
        train_labels=train_labels,
        test_features=test_features,
        test_labels=test_labels,
        num_classes=num_classes,
        class_names=classes,
    )


def _parquet_columns(
    file: Path, label_column: str
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...] | None]:
    """Columns as numbers or strings, labels as whole numbers, and the labels' names if any."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(file)
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise DataFileError(
            f"{file} ({file.stat().st_size:,} bytes) can't be read as Parquet ({first})"
        ) from error
    if label_column not in table.column_names:
        close = difflib.get_close_matches(label_column, table.column_names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "set data.label_column"
        raise DataFileError(
            f"{file} has no column {label_column!r}; {hint} (columns: "
            f"{', '.join(table.column_names)})"
        )
    if len(set(table.column_names)) < table.num_columns:
        raise DataFileError(f"{file} has two columns of one name: {', '.join(table.column_names)}")
    if table.num_rows < 2:
        raise DataFileError(f"{file} has {table.num_rows} rows; at least 2 are needed")
    columns: dict[str, NDArray[Any]] = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise DataFileError(
                f"{file} row {row}, column {name!r} has no value ({column.null_count} of "
                f"{table.num_rows} have none); drop such rows or fill them in"
            )
        columns[name] = _column(file, name, column)
        if columns[name].dtype.kind == "f":
            refuse_not_finite(columns[name][:, None], what=f"{file}", names=[name])
    classes: tuple[str, ...] | None = None
    if columns[label_column].dtype.kind == "U":
        names, columns[label_column] = np.unique(columns[label_column], return_inverse=True)
        classes = tuple(str(name) for name in names)
    return columns, classes


def _column(file: Path, name: str, column: Any) -> NDArray[Any]:
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return _column(file, name, column.dictionary_decode())
    if types.is_integer(kind) or types.is_floating(kind):
        return np.array(column.to_numpy(zero_copy_only=False))
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=str)
    raise DataFileError(
        f"{file} column {name!r} is of type {kind}; numbers and strings can be used: convert it or "
        "leave it out"
    )

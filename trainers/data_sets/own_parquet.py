"""The user's own table in a `.parquet` file: numbers, strings as categories, a column of labels."""

import difflib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data_sets.files import DataFileError, Splits
from labeldp.trainers.data_sets.own_rows import (
    SPLIT,
    HoldOut,
    StatedClasses,
    rows_for_testing,
    stated_classes,
)
from labeldp.trainers.data_sets.tables import Columns, refuse_not_finite
from labeldp.trainers.regular_files import FileRefused, check_unpacked, open_regular

_LABEL_COLUMN = "label"
#: The longest string that can name a category.
MOST_CHARACTERS = 10_000
#: Rows' worth of what a chunk holds besides its values.
_FOOTER_SLACK = 100
_TOO_LONG = (
    f"strings are taken as names of categories, of {MOST_CHARACTERS:,} characters at most: leave "
    "the column out, or turn its text into numbers first"
)


def read_parquet(
    file: Path,
    *,
    label_column: str | None = None,
    hold_out: HoldOut | None = None,
    classes: StatedClasses | None = None,
) -> Splits:
    """Return the arrays of a table: one column of labels, the others features.

    The file's own metadata may state the classes: `num_classes`, or `class_names` as a JSON list.

    Args:
        file: The `.parquet`.
        label_column: Whole numbers 0..K-1, or the classes' names; `label` if not given.
        hold_out: What becomes of labels for testing where no column is called `split`.
        classes: How many there are, or their names in order; not needed where the file says it.

    Raises:
        DataFileError: It can't be read, or a column can't be used.
        FileRefused: It is no regular file, its strings are too long, or it is larger than this
            machine's memory.
    """
    label_column = label_column or _LABEL_COLUMN
    columns, in_file = _parquet_columns(file, label_column)
    num_classes, names = stated_classes(file, in_file=in_file, said=classes)
    labels = _as_numbers(file, label_column, columns.pop(label_column), names)
    _validate.labels(labels, num_classes=num_classes, name=f"{file}: labels", secret=True)
    beside, split = [label_column], columns.get(SPLIT)
    if split is not None and split.dtype.kind == "U" and set(split) <= {"train", "test"}:
        del columns[SPLIT]
        beside.append(SPLIT)
    else:
        split = None
    if not columns:
        raise DataFileError(f"{file} has no column of features besides the labels")
    test_rows = rows_for_testing(file, split, len(labels), hold_out=hold_out)
    train, test = (
        {name: column[rows] for name, column in columns.items()} for rows in (~test_rows, test_rows)
    )
    fitted = Columns.fit(train, beside=beside)
    return Splits(
        train_features=fitted(train, what="training features"),
        train_labels=labels[~test_rows],
        test_features=fitted(test, what="testing features"),
        test_labels=labels[test_rows],
        num_classes=num_classes,
        class_names=names,
        preprocessing=fitted,
    )


def _as_numbers(
    file: Path, label_column: str, labels: NDArray[Any], names: tuple[str, ...] | None
) -> NDArray[Any]:
    """Labels as whole numbers: those that are names by their place among the stated ones."""
    if labels.dtype.kind != "U":
        return labels
    if names is None:
        raise DataFileError(
            f"{file} column {label_column!r} holds names of classes; which there are is not read "
            "off secret labels: set data.classes=NAME,NAME,... (or class_names, a JSON list, in "
            "the file's metadata)"
        )
    unknown = np.flatnonzero(~np.isin(labels, names))
    if len(unknown):
        raise DataFileError(
            f"{file} row {unknown[0]}, column {label_column!r} holds none of the stated classes "
            f"{', '.join(names)} ({len(unknown)} of {len(labels)} rows; labels are secret, so what "
            "is there is not shown): correct the rows, or state all classes in data.classes"
        )
    order = np.argsort(names)
    places: NDArray[Any] = order[np.searchsorted(names, labels, sorter=order)]
    return places


def _stated(file: Path, metadata: dict[bytes, bytes]) -> StatedClasses | None:
    """Number of classes or their names, as far as the file's metadata say."""
    for key in ("class_names", "num_classes"):
        if key.encode() not in metadata:
            continue
        try:
            value = json.loads(metadata[key.encode()])
        except ValueError:
            value = None
        if key == "num_classes" and isinstance(value, int):
            return value
        if key == "class_names" and isinstance(value, list):
            return tuple(str(name) for name in value)
        raise DataFileError(
            f"{file}: metadata {key} is {metadata[key.encode()]!r}; class_names must be a JSON "
            "list and num_classes a whole number"
        )
    return None


def _parquet_columns(
    file: Path, label_column: str
) -> tuple[dict[str, NDArray[Any]], StatedClasses | None]:
    """Columns as numbers or strings, and the classes as the file states them."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with open_regular(file) as opened:
            _check_footer(file, parquet.read_metadata(opened))
            opened.seek(0)
            table = parquet.read_table(opened)
    except FileRefused:
        raise
    except (pa.ArrowException, OSError, MemoryError) as error:
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
        # Labels that are no whole numbers are refused as such, without what they are.
        if columns[name].dtype.kind == "f" and name != label_column:
            refuse_not_finite(columns[name][:, None], what=f"{file}", names=[name])
    return columns, _stated(file, table.schema.metadata or {})


def _check_footer(file: Path, footer: Any) -> None:
    """Refuse by the file's own table of contents what could not be held, before it is read."""
    packed = 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            packed += column.total_uncompressed_size
            # Read, every string of a column takes as much as the longest.
            room = MOST_CHARACTERS * (4 * column.num_values + _FOOTER_SLACK)
            if column.physical_type == "BYTE_ARRAY" and column.total_uncompressed_size > room:
                raise FileRefused(
                    f"{file} column {column.path_in_schema!r} holds "
                    f"{column.total_uncompressed_size:,} bytes of text in {column.num_values:,} "
                    f"rows; {_TOO_LONG}"
                )
    # A number takes 8 bytes when it is read, however few it takes in the file.
    check_unpacked(file, max(packed, 8 * footer.num_rows * footer.num_columns))


def _text(file: Path, name: str, column: Any) -> NDArray[Any]:
    """Strings [N] of a column; NumPy gives each as much room as the longest needs."""
    from pyarrow import compute, types

    if not types.is_boolean(column.type) and len(column):
        lengths = compute.utf8_length(column)
        longest = compute.max(lengths).as_py()
        if longest > MOST_CHARACTERS:
            row = compute.index(lengths, longest).as_py()
            raise FileRefused(
                f"{file} row {row}, column {name!r} has {longest:,} characters; {_TOO_LONG}"
            )
        check_unpacked(f"{file} column {name!r}", 4 * longest * len(column))
    return np.array(column.to_pylist(), dtype=str)


def _column(file: Path, name: str, column: Any) -> NDArray[Any]:
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return _column(file, name, column.dictionary_decode())
    if types.is_integer(kind) or types.is_floating(kind):
        return np.array(column.to_numpy(zero_copy_only=False))
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        return _text(file, name, column)
    raise DataFileError(
        f"{file} column {name!r} is of type {kind}; numbers and strings can be used: convert it or "
        "leave it out"
    )

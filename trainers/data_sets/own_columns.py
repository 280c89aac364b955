"""Columns of a user's table, from whatever holds one: numbers, and text as names of categories."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_sets.files import DataFileError
from labeldp.trainers.data_sets.own_rows import SPLIT, OwnRows, StatedClasses
from labeldp.trainers.data_sets.tables import refuse_not_finite
from labeldp.trainers.regular_files import FileRefused, check_unpacked

LABEL = "label"
#: The longest string that can name a category.
MOST_CHARACTERS = 10_000
TOO_LONG = (
    f"strings are taken as names of categories, of {MOST_CHARACTERS:,} characters at most: leave "
    "the column out (data.drop), or turn its text into numbers first"
)


def rows_of_table(
    table: Any,
    *,
    where: Path | str,
    label_column: str | None,
    split_column: str | None = None,
    drop: Sequence[str] = (),
    stated: StatedClasses | None = None,
) -> OwnRows:
    """Return an Arrow table as columns of features, one of labels, and one of a split.

    Args:
        table: A `pyarrow.Table`.
        where: The file, for messages.
        label_column: Which one holds the labels; None takes all as features.
        split_column: Which one says `train` or `test`; `split` if not given and it says so.
        drop: Columns that are left out.
        stated: The classes as the file says.

    Raises:
        DataFileError: A column is not there, has no values or can't be used.
        FileRefused: Strings that are too long.
    """
    names = [str(name) for name in table.column_names]
    if len(set(names)) < len(names):
        raise DataFileError(f"{where} has two columns of one name: {', '.join(names)}")
    asked = {"data.drop": list(drop)}
    asked["data.split_column"] = [] if split_column is None else [split_column]
    if label_column is not None:
        asked["data.label_column"] = [label_column]
    for key, wanted in asked.items():
        for name in wanted:
            refuse_unknown_column(name, names, where=where, key=key)
    for needed in (label_column, split_column):
        if needed is not None and needed in drop:
            raise DataFileError(f"data.drop leaves out {needed!r}, which is needed: name it once")
    if label_column is not None and label_column == split_column:
        raise DataFileError(f"{where} column {label_column!r} can't be both labels and split")
    columns = {
        name: column_values(table.column(place), name, where=where, secret=name == label_column)
        for place, name in enumerate(names)
        if name not in drop
    }
    labels = None if label_column is None else columns.pop(label_column)
    split = _split(columns, split_column)
    if not columns:
        raise DataFileError(f"{where} has no column of features besides the labels")
    beside = tuple(name for name in names if name not in columns)
    return OwnRows(features=columns, labels=labels, split=split, stated=stated, beside=beside)


def _split(columns: dict[str, NDArray[Any]], named: str | None) -> NDArray[Any] | None:
    """Take the column of `train` and `test` out of the others, if there is one."""
    if named is not None:
        return columns.pop(named).astype(str)
    found = columns.get(SPLIT)
    # A feature may be called that, too.
    if found is None or found.dtype.kind != "U" or not set(found) <= {"train", "test"}:
        return None
    return columns.pop(SPLIT)


def refuse_unknown_column(name: str, names: Sequence[str], *, where: Path | str, key: str) -> None:
    """Refuse a name that no column has, and say which comes near."""
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"set {key}"
    raise DataFileError(f"{where} has no column {name!r}; {hint} (columns: {', '.join(names)})")


def column_values(
    column: Any, name: str, *, where: Path | str, secret: bool = False
) -> NDArray[Any]:
    """Return a column of an Arrow table as numbers or text [N].

    Args:
        column: A `pyarrow.ChunkedArray`.
        name: Of the column, for messages.
        where: The file, likewise.
        secret: Whether no value may be shown; such a column need not be finite here.

    Raises:
        DataFileError: A value is missing or not finite, or the column is of another kind.
        FileRefused: A string is too long.
    """
    flat = column.combine_chunks()
    if flat.null_count:
        row = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataFileError(
            f"{where} row {row}, column {name!r} has no value ({flat.null_count} of {len(flat)} "
            "have none); drop such rows, fill them in, or leave the column out with data.drop"
        )
    values = _values(where, name, flat)
    # Labels that are no whole numbers are refused as such, without what they are.
    if values.dtype.kind == "f" and not secret:
        refuse_not_finite(values[:, None], what=f"{where}", names=[name])
    return values


def _values(where: Path | str, name: str, column: Any) -> NDArray[Any]:
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return _values(where, name, column.dictionary_decode())
    if types.is_integer(kind) or types.is_floating(kind):
        return np.array(column.to_numpy(zero_copy_only=False))
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        return _text(where, name, column)
    if types.is_temporal(kind):
        raise DataFileError(
            f"{where} column {name!r} holds dates or times ({kind}); turn it into a number, such "
            f"as days since some day, or leave it out: data.drop={name}"
        )
    raise DataFileError(
        f"{where} column {name!r} is of type {kind}; numbers and strings can be used: convert it "
        f"or leave it out: data.drop={name}"
    )


def _text(where: Path | str, name: str, column: Any) -> NDArray[Any]:
    """Strings [N] of a column; NumPy gives each as much room as the longest needs."""
    from pyarrow import compute, types

    if not types.is_boolean(column.type) and len(column):
        lengths = compute.utf8_length(column)
        longest = compute.max(lengths).as_py()
        if longest > MOST_CHARACTERS:
            row = compute.index(lengths, longest).as_py()
            raise FileRefused(
                f"{where} row {row}, column {name!r} has {longest:,} characters; {TOO_LONG}"
            )
        check_unpacked(f"{where} column {name!r}", 4 * longest * len(column))
    return np.array(column.to_pylist(), dtype=str)

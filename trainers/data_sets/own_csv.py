"""The user's own table in a `.csv` file: a line of names, then a line per row.

Types are found over the whole file: a column is numbers if all of it is. The delimiter is that one
of comma, semicolon and tab that the first line has most of. Labels are read as text and turned into
classes elsewhere, for Arrow's own messages quote what they can't convert.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labeldp.trainers.data_sets.files import DataFileError
from labeldp.trainers.data_sets.own_columns import LABEL, refuse_unknown_column, rows_of_table
from labeldp.trainers.data_sets.own_rows import SPLIT, OwnRows
from labeldp.trainers.data_sets.own_source import OwnSource
from labeldp.trainers.regular_files import open_regular

#: Types are found within a block; Arrow takes no larger ones.
_LARGEST_BLOCK = 1 << 30
#: A first line that is longer is not taken for names of columns.
_LONGEST_HEADER = 1 << 20
_DELIMITERS = ",;\t"
#: Of what Arrow says, that which quotes nothing of the file.
_WRONG_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_REASONS = ("Empty CSV file", "invalid UTF8 data", "straddling object")


def read_csv(file: Path, source: OwnSource, *, labels: bool = True) -> OwnRows:
    """Return the rows of a table.

    Args:
        file: The `.csv`, UTF-8.
        source: Which columns hold what.
        labels: Whether a column of labels is asked for.

    Raises:
        DataFileError: It can't be read, or a column can't be used.
        FileRefused: It is no regular file, its strings are too long, or it is larger than this
            machine's memory.
    """
    label_column = (source.label_column or LABEL) if labels else None
    table = csv_table(file, text=[label_column, source.split_column or SPLIT])
    if label_column is not None and label_column not in table.column_names:
        _refuse_values_for_names(file, table.column_names)
        refuse_unknown_column(label_column, table.column_names, where=file, key="data.label_column")
    if table.num_rows < 2:
        raise DataFileError(f"{file} has {table.num_rows} rows; at least 2 are needed")
    return rows_of_table(
        table,
        where=file,
        label_column=label_column,
        split_column=source.split_column,
        drop=source.drop,
    )


def csv_table(file: Path, *, text: Sequence[str | None]) -> Any:
    """Return a `pyarrow.Table`; the columns in `text` stay text whatever is in them.

    So do `true` and `false`, which are two categories, written as the file has them.

    Raises:
        DataFileError: It is no table; no message quotes a line, for labels stand there.
        FileRefused: It is no regular file, or larger than this machine's memory.
    """
    import pyarrow as pa
    from pyarrow import csv

    with open_regular(file) as opened:
        size = opened.seek(0, 2)
        opened.seek(0)
        header = opened.readline(_LONGEST_HEADER)
        opened.seek(0)
        delimiter = max(_DELIMITERS, key=lambda mark: header.count(mark.encode()))
        try:
            return csv.read_csv(
                opened,
                # On one thread, which alone numbers the lines.
                csv.ReadOptions(use_threads=False, block_size=min(size + 1, _LARGEST_BLOCK)),
                csv.ParseOptions(delimiter=delimiter),
                csv.ConvertOptions(
                    column_types={name: pa.string() for name in text if name is not None},
                    true_values=[],
                    false_values=[],
                ),
            )
        except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
            # Not chained: what Arrow says quotes the line.
            raise DataFileError(_explained(file, size, error)) from None


def _explained(file: Path, size: int, error: Exception) -> str:
    """What is wrong with a file, as far as that says nothing of what it holds."""
    said = str(error)
    found = _WRONG_WIDTH.search(said)
    if found is not None:
        line, expected, actual = found.groups()
        return (
            f"{file} line {line} has {actual} fields, but the first line names {expected} "
            "columns; quote what holds the delimiter, or correct the line"
        )
    known = [reason for reason in _REASONS if reason in said]
    return (
        f"{file} ({size:,} bytes) can't be read as CSV ({(known or [type(error).__name__])[0]}); "
        "write it as UTF-8 text with a first line of names"
    )


def _refuse_values_for_names(file: Path, names: list[str]) -> None:
    """Refuse a first line that looks like a row: a message must not quote it, a label is in it."""
    if any(_is_number(name) for name in names):
        raise DataFileError(
            f"{file}: the first line holds numbers where names of columns belong; write a first "
            "line that names them, and the column of labels among them"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""The user's own table in a `.parquet` file: numbers, strings as categories, a column of labels."""

import json
from pathlib import Path
from typing import Any

from labeldp.trainers.data_sets.files import DataFileError
from labeldp.trainers.data_sets.own_columns import (
    LABEL,
    MOST_CHARACTERS,
    TOO_LONG,
    rows_of_table,
)
from labeldp.trainers.data_sets.own_rows import OwnRows, StatedClasses
from labeldp.trainers.data_sets.own_source import OwnSource
from labeldp.trainers.regular_files import FileRefused, check_unpacked, open_regular

#: Rows' worth of what a chunk holds besides its values.
_FOOTER_SLACK = 100


def read_parquet(file: Path, source: OwnSource, *, labels: bool = True) -> OwnRows:
    """Return the rows of a table.

    The file's own metadata may state the classes: `num_classes`, or `class_names` as a JSON list.

    Args:
        file: The `.parquet`.
        source: Which columns hold what.
        labels: Whether a column of labels is asked for.

    Raises:
        DataFileError: It can't be read, or a column can't be used.
        FileRefused: It is no regular file, its strings are too long, or it is larger than this
            machine's memory.
    """
    table = parquet_table(file)
    if table.num_rows < 2:
        raise DataFileError(f"{file} has {table.num_rows} rows; at least 2 are needed")
    return rows_of_table(
        table,
        where=file,
        label_column=(source.label_column or LABEL) if labels else None,
        split_column=source.split_column,
        drop=source.drop,
        stated=stated_in(file, table.schema.metadata or {}),
    )


def parquet_table(file: Path) -> Any:
    """Return a `pyarrow.Table`.

    Raises:
        DataFileError: It can't be read.
        FileRefused: It is no regular file, or larger than this machine's memory.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with open_regular(file) as opened:
            _check_footer(file, parquet.read_metadata(opened))
            opened.seek(0)
            return parquet.read_table(opened)
    except FileRefused:
        raise
    except (pa.ArrowException, OSError, MemoryError) as error:
        first = str(error).splitlines()[0]
        raise DataFileError(
            f"{file} ({file.stat().st_size:,} bytes) can't be read as Parquet ({first})"
        ) from error


def stated_in(file: Path, metadata: dict[bytes, bytes]) -> StatedClasses | None:
    """Return the number of classes or their names, as far as the file's metadata say.

    Raises:
        DataFileError: They say something else there.
    """
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
                    f"rows; {TOO_LONG}"
                )
    # A number takes 8 bytes when it is read, however few it takes in the file.
    check_unpacked(file, max(packed, 8 * footer.num_rows * footer.num_columns))

"""What is seen in a user's file before anything is decided: rows, columns, what is not said yet.

Nothing here shows a label, or counts them by class: how many there are of which is secret.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_sets.own_columns import LABEL, column_values
from labeldp.trainers.data_sets.own_csv import csv_table
from labeldp.trainers.data_sets.own_data import read_rows
from labeldp.trainers.data_sets.own_labels import is_whole
from labeldp.trainers.data_sets.own_parquet import parquet_table, stated_in
from labeldp.trainers.data_sets.own_rows import SPLIT, HoldOut, StatedClasses
from labeldp.trainers.data_sets.own_source import OwnSource
from labeldp.trainers.data_sets.tables import MOST_CATEGORIES

#: Text that is one number short of being numbers is rather a number with a slip of the pen.
_MOSTLY_NUMBERS = 0.9
#: A column of so many categories per row is rather one of names, where there are some rows.
_NAMES_ROWS, _FEWEST_ROWS = 0.5, 20


@dataclass(frozen=True, kw_only=True)
class ColumnSeen:
    """A column, or an array.

    Attributes:
        name: As the file has it.
        kind: What it is taken for.
        categories: How many there are, of text that is a feature.
        note: What is wrong or odd about it.
        usable: Whether it can be used as it is.
    """

    name: str
    kind: str
    categories: int | None = None
    note: str = ""
    usable: bool = True


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Something that the user has to say.

    Attributes:
        key: The setting.
        value: What to set it to; in capitals what only the user knows.
        why: Why it is needed.
    """

    key: str
    value: str
    why: str


@dataclass(frozen=True, kw_only=True)
class FileSeen:
    """What is seen in a file.

    Attributes:
        rows: How many there are, of training and testing.
        features: What they are.
        columns: All columns, or arrays.
        labels: How labels are read.
        split: Where rows for testing come from.
        classes: How many are stated, and their names; None if nobody says.
        missing: What has to be said before a sweep can train on it.
    """

    rows: int
    features: str
    columns: tuple[ColumnSeen, ...]
    labels: str
    split: str
    classes: StatedClasses | None
    missing: tuple[Missing, ...]


def describe(source: OwnSource) -> FileSeen:
    """Look into a file.

    Args:
        source: Which file, and what is said of it so far.

    Raises:
        DatasetMissing: It is not there.
        DataFileError: It can't be read at all.
    """
    assert source.path is not None
    file = Path(source.path).expanduser()
    if file.suffix.lower() == ".csv" and file.exists():
        name, split = source.label_column or LABEL, source.split_column or SPLIT
        return _of_table(csv_table(file, text=[name, split]), source, stated=None)
    if file.suffix.lower() == ".parquet" and file.exists():
        table = parquet_table(file)
        return _of_table(table, source, stated=stated_in(file, table.schema.metadata or {}))
    return _of_arrays(source)


def _of_table(table: Any, source: OwnSource, *, stated: StatedClasses | None) -> FileSeen:
    label_column = source.label_column or LABEL
    known = label_column in table.column_names
    columns = tuple(_columns(table, source, label_column, types_only=not known))
    labels, missing = "", []
    if known:
        labels = f"column {label_column!r}, {_kind_of_labels(table.column(label_column))}"
    else:
        why = f"no column is called {label_column!r}: say which one holds the labels"
        missing.append(Missing(key="data.label_column", value="NAME", why=why))
    for name in [*source.drop, *filter(None, [source.split_column])]:
        if name not in table.column_names:
            key = "data.drop" if name in source.drop else "data.split_column"
            missing.append(Missing(key=key, value="NAME", why=f"there is no column {name!r}"))
    bad = [column.name for column in columns if not column.usable]
    if bad:
        out = ",".join([*source.drop, *bad])
        why = f"what is in {', '.join(bad)} can't be used as it is: leave it out, or convert it"
        missing.append(Missing(key="data.drop", value=out, why=why))
    used = [column for column in columns if column.kind in ("number", "text") and column.usable]
    width = sum(column.categories or 1 for column in used)
    features = f"table of {len(used)} columns, {width} features when text is one-hot"
    has_split = any(column.kind == "split" for column in columns)
    return FileSeen(
        rows=table.num_rows,
        features=features if known else f"table of {len(columns)} columns",
        columns=columns,
        labels=labels,
        split=_split(source, f"column {source.split_column or SPLIT!r}" if has_split else ""),
        classes=stated if source.classes is None else source.classes,
        missing=(*missing, *_unsaid(source, stated, has_split, names="whole" not in labels)),
    )


def _columns(
    table: Any, source: OwnSource, label_column: str, *, types_only: bool
) -> Iterator[ColumnSeen]:
    for place, name in enumerate(map(str, table.column_names)):
        column = table.column(place)
        if name == label_column:
            yield ColumnSeen(name=name, kind="labels", note="secret")
        elif name in source.drop:
            yield ColumnSeen(name=name, kind="left out")
        elif name == source.split_column or (name == SPLIT and _says_split(column)):
            yield ColumnSeen(name=name, kind="split")
        else:
            seen = _feature(column, name)
            if types_only:
                # As long as nobody says which column holds the labels, it may be this one.
                note = "" if seen.kind in ("number", "text") else seen.note
                usable = not note
                seen = ColumnSeen(name=name, kind=seen.kind, note=note, usable=usable)
            yield seen


def _feature(column: Any, name: str) -> ColumnSeen:
    try:
        values = column_values(column, name, where="")
    except ValueError as error:
        return ColumnSeen(name=name, kind=str(column.type), note=str(error).strip(), usable=False)
    if values.dtype.kind != "U":
        same = len(values) and bool((values == values[0]).all())
        return ColumnSeen(name=name, kind="number", note="never changes" if same else "")
    categories = len(np.unique(values))
    if categories > MOST_CATEGORIES:
        too_many = f"more than {MOST_CATEGORIES} categories: it names single rows rather than kinds"
        note = _slip(values) or too_many
        return ColumnSeen(name=name, kind="text", categories=categories, note=note, usable=False)
    note = _slip(values)
    if not note and categories > _NAMES_ROWS * len(values) and len(values) >= _FEWEST_ROWS:
        note = f"names single rows rather than kinds; leave it out (data.drop={name})?"
    return ColumnSeen(name=name, kind="text", categories=categories, note=note)


def _slip(values: NDArray[Any]) -> str:
    """Say where text is that keeps a column from being numbers."""
    places = [row for row, text in enumerate(values.tolist()) if not _is_number(text)]
    if not places or len(places) > (1 - _MOSTLY_NUMBERS) * len(values):
        return ""
    first = str(values[places[0]])
    return f"numbers but for {len(places)} rows; the first is row {places[0]}: {first!r}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _says_split(column: Any) -> bool:
    from pyarrow import compute

    return set(map(str, compute.unique(column).to_pylist())) <= {"train", "test"}


def _kind_of_labels(column: Any) -> str:
    """Names or numbers, as far as a column's type says so; which, nobody reads off it."""
    from pyarrow import types

    if types.is_integer(column.type):
        return "whole numbers"
    if types.is_string(column.type) or types.is_large_string(column.type):
        whole = all(label is not None and is_whole(label) for label in column.to_pylist())
        return "whole numbers" if whole else "text"
    return "text" if types.is_dictionary(column.type) else str(column.type)


def _of_arrays(source: OwnSource) -> FileSeen:
    rows = read_rows(source)
    assert rows.labels is not None and isinstance(rows.features, np.ndarray)
    shape = " x ".join(map(str, rows.features.shape[1:]))
    images = rows.features.ndim > 2
    what = f"images of {shape}" if images else f"matrix of {shape} columns"
    if isinstance(rows.features, np.memmap):
        what += ", too large for memory: it stays on disk"
    kind = "text" if rows.labels.dtype.kind == "U" else str(rows.labels.dtype)
    own_split = rows.split is not None or rows.test is not None
    return FileSeen(
        rows=len(rows) + (0 if rows.test is None else len(rows.test)),
        features=f"{what}, {rows.features.dtype}",
        columns=(),
        labels=f"one per row, {kind}",
        split=_split(source, "the file's own" if own_split else ""),
        classes=rows.stated if source.classes is None else source.classes,
        missing=tuple(_unsaid(source, rows.stated, own_split, names=kind == "text")),
    )


def _split(source: OwnSource, own: str) -> str:
    if source.test_path is not None:
        return f"rows for testing are those of {source.test_path}; their labels are public"
    if own:
        return f"{own} says which rows are for testing; their labels are public"
    if source.hold_out is HoldOut.PUBLIC:
        return "one row in five is held out, and its label published"
    return "no label is published" if source.hold_out is HoldOut.NONE else ""


def _unsaid(
    source: OwnSource, stated: StatedClasses | None, own_split: bool, *, names: bool
) -> Iterator[Missing]:
    """What neither the file nor the user says, and nobody reads off labels."""
    if source.classes is None and stated is None:
        yield Missing(
            key="data.classes",
            value="NAME,NAME,..." if names else "K",
            why="which classes there are is public, and must not be read off secret labels",
        )
    if not own_split and source.test_path is None and source.hold_out is None:
        yield Missing(
            key="data.hold_out",
            value="none",
            why="nothing says which rows are for testing; none publishes no label, public "
            "publishes one in five (or data.split_column, or data.test_path)",
        )

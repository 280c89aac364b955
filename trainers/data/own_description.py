"""What is seen in a user's file before anything is decided: rows, columns, what is not said yet.

Nothing here shows a label, or counts them by class: how many there are of which is secret.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import (
    MOST_CATEGORIES,
    identifier,
    is_missing,
    learned_values,
    slips,
)
from labeldp.trainers.data.own_data import is_whole
from labeldp.trainers.data.own_files import (
    LABEL,
    SPLIT,
    HoldOut,
    OwnSource,
    StatedClasses,
    read_rows,
    stated_in,
)

#: Kind of a column that no feature is made of.
LEFT_OUT = "left out"
_DATE = "date, as days"
_FEATURES = ("number", "text", _DATE)


@dataclass(frozen=True, kw_only=True)
class ColumnSeen:
    """A column, or an array."""

    name: str
    kind: str
    categories: int | None = None
    missing: int = 0
    note: str = ""
    usable: bool = True


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Something that the user has to say."""

    key: str
    value: str
    why: str


@dataclass(frozen=True, kw_only=True)
class FileSeen:
    """What is seen in a file.

    Attributes:
        classes: How many are stated, and their names; None if nobody says.
    """

    rows: int
    features: str
    columns: tuple[ColumnSeen, ...]
    labels: str
    split: str
    classes: StatedClasses | None
    missing: tuple[Missing, ...]


def describe(source: OwnSource, table: Any = None) -> FileSeen:
    """Look into a file."""
    if table is None:
        return _of_arrays(source)
    assert source.path is not None
    stated = stated_in(Path(source.path).expanduser(), table.schema.metadata or {})
    return _of_table(table, source, stated=stated)


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
    for name in [*source.drop, *source.keep, *filter(None, [source.split_column])]:
        if name not in table.column_names:
            key = "data.drop" if name in source.drop else "data.split_column"
            key = "data.keep" if name in source.keep else key
            missing.append(Missing(key=key, value="NAME", why=f"there is no column {name!r}"))
    bad = [column.name for column in columns if not column.usable]
    if bad:
        out = ",".join([*source.drop, *bad])
        why = f"what is in {', '.join(bad)} can't be used as it is: leave it out, or convert it"
        missing.append(Missing(key="data.drop", value=out, why=why))
    used = [column for column in columns if column.kind in _FEATURES and column.usable]
    width = sum((column.categories or 1) + (column.missing > 0) for column in used)
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
            yield ColumnSeen(name=name, kind=LEFT_OUT)
        elif name == source.split_column or (name == SPLIT and _says_split(column)):
            yield ColumnSeen(name=name, kind="split")
        else:
            seen = _feature(column, name, keep=types_only or name in source.keep)
            if types_only and seen.kind in _FEATURES:
                # As long as nobody says which column holds the labels, it may be this one.
                seen = ColumnSeen(name=name, kind=seen.kind)
            yield seen


def _feature(column: Any, name: str, *, keep: bool) -> ColumnSeen:
    try:
        values = learned_values(name, column)
    except ValueError as error:
        return ColumnSeen(name=name, kind=str(column.type), note=str(error), usable=False)
    if not keep and (why := identifier(name, values)) is not None:
        note = f"looks like an identifier: {why}; data.keep={name} makes it a feature"
        return ColumnSeen(name=name, kind=LEFT_OUT, note=note)
    missing = is_missing(values)
    count = int(missing.sum())
    holes = f"{count:,} missing" if count else ""
    if values.dtype.kind in "ObU":
        present = values[~missing]
        categories = len(set(present.tolist()))
        note = _slip(values)
        usable = categories <= MOST_CATEGORIES
        if not usable and not note:
            note = f"more than {MOST_CATEGORIES} categories: it names single rows rather than kinds"
        note = note or (holes and f"{holes} (a category of their own)")
        return ColumnSeen(
            name=name,
            kind="text",
            categories=categories,
            missing=count,
            note=note,
            usable=usable,
        )
    kind = _DATE if values.dtype.kind == "M" else "number"
    if kind == "number" and np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        note = f"row {row} is {values[row]}; features must be finite"
        return ColumnSeen(name=name, kind=kind, note=note, usable=False)
    if holes:
        note = f"{holes} (the median, and an indicator column)"
        return ColumnSeen(name=name, kind=kind, missing=count, note=note)
    same = len(values) and bool((values == values[0]).all())
    return ColumnSeen(name=name, kind=kind, note="never changes" if same else "")


def _slip(values: NDArray[Any]) -> str:
    """Say where text is that keeps a column from being numbers."""
    places = slips(values)
    if not len(places):
        return ""
    first = str(values[places[0]])
    return f"numbers but for {len(places)} rows; the first is row {places[0]}: {first!r}"


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

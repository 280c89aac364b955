"""The user's own files: what is stated of them, and their rows as they are read.

| file | holds |
|---|---|
| `.csv`, `.xlsx` | a line of names, then a line per row; a column of labels |
| `.parquet` | the same |
| `.npz` | `features` and `labels`, or those of `train_` and `test_`; it may state the classes |
| `.npy` and `.npy` | features in one, which is mapped, and labels in the other |

Labels are turned into classes in `own_data`, each by itself.

>>> OwnSource(path="mine.csv", label_column="bought", drop=("note",), classes=("no", "yes")).classes
('no', 'yes')
>>> OwnSource(path="X.npy")
Traceback (most recent call last):
    ...
ValueError: X.npy holds features alone; name the file of their labels: data.labels=FILE.npy
"""

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import (
    MOST_CATEGORIES,
    RowsRefused,
    TextColumns,
    column_values,
    example,
    is_missing,
    is_sentences,
    learned_values,
    slips,
    why_left_out,
)
from labeldp.trainers.data.files import (
    DataFileError,
    DatasetMissing,
    FileRefused,
    check_archive,
    open_regular,
    readable,
)
from labeldp.trainers.data.preprocessing import MOST_DIRECTIONS
from labeldp.trainers.data.tables import csv_table, parquet_table

if TYPE_CHECKING:
    import pyarrow

#: Distinguishes a user's file from the name of a data set.
OWN_FILES = (".csv", ".npy", ".npz", ".parquet", ".xlsx")
LABEL = "label"
#: Spellings of a row's `train` or `test`.
SPLIT = "split"
_WRITE_PLAIN = (
    "write it with numpy.save or numpy.savez, numbers and strings only, no Python objects"
)
_FOUR = ("train_features", "train_labels", "test_features", "test_labels")
#: How many classes there are, or their names in order.
StatedClasses = int | Sequence[str]
PathLike = str | os.PathLike[str]


class HoldOut(StrEnum):
    """The fate of labels for testing where a file brings no split of its own.

    PUBLIC holds one row in five out and **publishes their true labels**: every trial sees them.
    NONE publishes none, and no test split is public.
    """

    PUBLIC = "public"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class OwnSource:
    """The user's own data.

    Attributes:
        test_path: A second file of the same kind, whose rows are for testing: **its labels are
            public**.
        test_labels: The labels that go with it, where it is an `.npy`; public as well.
        hold_out_seed: Public, chooses the rows that PUBLIC holds out.
        bounds: The least and the largest amount, where labels are amounts; public.
        encoding: Of a `.csv`, as Python names it; None for UTF-8, and UTF-16 with a mark.
        text: What becomes of columns of sentences.
    """

    path: PathLike | None = None
    labels: PathLike | None = None
    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    test_path: PathLike | None = None
    test_labels: PathLike | None = None
    hold_out: HoldOut | None = None
    hold_out_seed: int = 0
    classes: StatedClasses | None = None
    bounds: tuple[float, float] | None = None
    encoding: str | None = None
    text: TextColumns = TextColumns.TFIDF

    def __post_init__(self) -> None:
        if self.bounds is not None and self.classes is not None:
            raise ValueError(
                "data.bounds is for amounts and data.classes for classes; leave one of them out"
            )
        if self.hold_out_seed and self.hold_out is not HoldOut.PUBLIC:
            raise ValueError(
                f"data.hold_out_seed is {self.hold_out_seed}, but no rows are held out at random; "
                "set data.hold_out=public, or leave the seed out"
            )
        if self.test_path is not None and self.hold_out is not None:
            raise ValueError(
                f"data.hold_out is {self.hold_out}, but data.test_path={self.test_path} has a "
                "public test split; leave one of them out"
            )
        for key, labels, of, features in (
            ("data.labels", self.labels, "data.path", self.path),
            ("data.test_labels", self.test_labels, "data.test_path", self.test_path),
        ):
            alone = features is not None and Path(features).suffix.lower() == ".npy"
            if alone and labels is None:
                raise ValueError(
                    f"{features} holds features alone; name the file of their labels: "
                    f"{key}=FILE.npy"
                )
            if labels is not None and not alone:
                raise ValueError(
                    f"{key} is {labels}, but {of} is {features}; a second file of labels goes "
                    "with features in an .npy, and every other file holds its labels itself"
                )

    @property
    def named_columns(self) -> dict[str, tuple[str, ...]]:
        """Names of columns by the setting that states them."""
        return {
            "data.label_column": (self.label_column or LABEL,),
            "data.drop": self.drop,
            "data.keep": self.keep,
            "data.split_column": () if self.split_column is None else (self.split_column,),
            "data.group_column": () if self.group_column is None else (self.group_column,),
        }


#: Numbers or images [N, ...], or name of a column -> its values [N] (see `column_values`).
RawFeatures = NDArray[Any] | dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnRows:
    """A user's rows as they are read, before anything is decided about them.

    Attributes:
        labels: Of any kind [N]; never shown.
        split: `train` or `test` [N], if it is stated.
        test: Rows for testing where they are kept apart, with public labels.
        groups: The person of each row [N], where persons have several rows.
    """

    features: RawFeatures
    labels: NDArray[Any] = field(repr=False)
    split: NDArray[Any] | None = None
    stated: StatedClasses | None = None
    test: "OwnRows | None" = None
    groups: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def only(self, chosen: NDArray[np.bool_]) -> "OwnRows":
        """Return features and labels of the chosen rows [N]."""
        features = self.features
        if isinstance(features, dict):
            features = {name: column[chosen] for name, column in features.items()}
        elif not chosen.all():  # a file that is mapped as a whole is not copied
            features = features[chosen]
        groups = None if self.groups is None else self.groups[chosen]
        labels = self.labels[chosen]
        return OwnRows(features=features, labels=labels, stated=self.stated, groups=groups)


def read_rows(source: OwnSource, *, first: OwnRows | None = None) -> OwnRows:
    """Return what a file holds as it is, before anything is decided about it.

    With the rows of the first file it is the second one, whose columns of text are the same.
    """
    prefix = "" if first is None else "test_"
    path = source.path if first is None else source.test_path
    assert path is not None
    text: list[str] = []
    if first is not None and isinstance(first.features, dict):
        text = [name for name, column in first.features.items() if column.dtype == object]
    file = existing(path, key=f"data.{prefix}path")
    match file.suffix.lower():
        case ".csv" | ".parquet" | ".xlsx":
            return _rows_of_table(_read_table(file, source, text=text), file, source)
        case ".npz":
            return _read_npz(file, source)
        case ".npy":
            labels = source.labels if first is None else source.test_labels
            assert labels is not None
            return _read_npy(file, existing(labels, key=f"data.{prefix}labels"), source)
    raise DataFileError(
        f"{file} is not one of {', '.join(OWN_FILES)}; save the data as one of them"
    )


def existing(path: PathLike, *, key: str) -> Path:
    """Return a file that a setting names, or refuse it where it is missing."""
    file = Path(path).expanduser()
    if not file.exists():
        raise DatasetMissing(f"{file.absolute()} is not there; check {key}")
    return file


def _read_table(file: Path, source: OwnSource, *, text: Sequence[str] = ()) -> "pyarrow.Table":
    if file.suffix.lower() == ".parquet":
        return parquet_table(file)
    names = [source.label_column or LABEL, source.split_column or SPLIT, source.group_column]
    as_written = [name for name in names if name is not None]
    return csv_table(file, text=text, as_written=as_written, encoding=source.encoding)


def _rows_of_table(table: "pyarrow.Table", file: Path, source: OwnSource) -> OwnRows:
    """Columns of features, one of labels, and one of a split."""
    label_column = source.label_column or LABEL
    split_column = source.split_column
    names = [str(name) for name in table.column_names]
    for key, wanted in source.named_columns.items():
        for name in wanted:
            if name not in names:
                close = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"set {key}, or add a header"
                # Without a column of labels the first line may be a row: it has a label.
                alone = key == "data.label_column"
                listed = "" if alone else f" (columns: {', '.join(names)})"
                raise DataFileError(f"{file} has no column {name!r}; {hint}{listed}")
            if name in source.drop and key != "data.drop":
                raise DataFileError(
                    f"data.drop leaves out {name!r}, which is needed ({key}): name it once"
                )
    if table.num_rows < 2:
        raise DataFileError(f"{file} has {table.num_rows} rows; at least 2 are needed")
    if label_column == split_column:
        raise DataFileError(f"{file} column {label_column!r} can't be both labels and split")
    if source.group_column in (label_column, split_column or SPLIT):
        raise DataFileError(
            f"{file} column {source.group_column!r} can't hold persons and also labels or the split"
        )
    try:
        columns = {
            name: column_values(name, table.column(place))
            for place, name in enumerate(names)
            if name not in (*source.drop, label_column)
        }
    except (RowsRefused, FileRefused) as error:
        raise type(error)(f"{file} {error}") from None
    column = table.column(label_column)
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise DataFileError(
            f"{file} column {label_column!r} has no value in row {row} ({column.null_count} of "
            f"{len(column)} rows); drop such rows, or fill them in"
        )
    labels = column.to_pandas(date_as_object=True).to_numpy()
    split = columns.get(split_column or SPLIT)
    # A feature may be called that, too.
    if split is not None and (split_column or set(split) <= {"train", "test"}):
        split = columns.pop(split_column or SPLIT).astype(str)
    else:
        split = None
    groups = None if source.group_column is None else columns.pop(source.group_column)
    if not columns:
        raise DataFileError(f"{file} has no column of features besides the labels")
    return OwnRows(features=columns, labels=labels, split=split, groups=groups)


def _stated(file: Path, arrays: Mapping[str, NDArray[Any]]) -> StatedClasses | None:
    count = arrays["num_classes"].squeeze().tolist() if "num_classes" in arrays else None
    if type(count) not in (int, type(None)):
        raise DataFileError(f"{file} states num_classes {count!r}; it must be a whole number")
    if "class_names" not in arrays:
        return count
    names = tuple(map(str, arrays["class_names"].ravel()))
    if count not in (None, len(names)):
        raise DataFileError(
            f"{file}: there are {len(names)} class_names for {count} classes; give one each or none"
        )
    return names


def _read_npz(file: Path, source: OwnSource) -> OwnRows:
    _refuse_columns(file, source)
    arrays = npz_arrays(file)
    stated = _stated(file, arrays)
    if set(_FOUR) <= set(arrays):
        if source.split_column is not None:
            raise DataFileError(
                f"data.split_column is {source.split_column!r}, but {file} holds training and "
                "testing rows apart; leave one of them out"
            )
        train, train_labels, test, test_labels = (arrays[key] for key in _FOUR)
        one_label_each(file, train, train_labels)
        one_label_each(file, test, test_labels)
        public = OwnRows(features=test, labels=test_labels)
        return OwnRows(features=train, labels=train_labels, stated=stated, test=public)
    if not {"features", "labels"} <= set(arrays):
        raise DataFileError(
            f"{file} holds {', '.join(arrays) or 'nothing'}; it must hold {', '.join(_FOUR)}, or "
            "features and labels"
        )
    split = arrays.get(source.split_column or SPLIT)
    if split is None and source.split_column is not None:
        raise DataFileError(
            f"{file} holds no array {source.split_column!r}, which data.split_column names (it "
            f"holds {', '.join(arrays)})"
        )
    features = arrays["features"]
    labels = arrays["labels"]
    one_label_each(file, features, labels)
    return OwnRows(features=features, labels=labels, split=split, stated=stated)


def _read_npy(features: Path, labels: Path, source: OwnSource) -> OwnRows:
    _refuse_columns(features, source)
    if source.split_column is not None:
        raise DataFileError(
            f"data.split_column is {source.split_column!r}, but {features} holds features alone; "
            "name a second file of rows for testing instead: data.test_path and data.test_labels"
        )
    matrix = npy_array(features, mapped=True)
    column = npy_array(labels)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    one_label_each(f"{features} and {labels}", matrix, column)
    return OwnRows(features=matrix, labels=column)


def _refuse_columns(file: Path, source: OwnSource) -> None:
    for key in ("label_column", "group_column", "drop", "keep"):
        if getattr(source, key):
            raise ValueError(
                f"data.{key} is for tables with names (.csv, .parquet); {file.name} holds arrays"
            )


def npy_array(file: Path, *, mapped: bool = False) -> NDArray[Any]:
    """Return the array of an `.npy`; `mapped` it is read-only, and read where it is used."""
    with readable(file, ".npy", fix=_WRITE_PLAIN), open_regular(file):
        # It refuses a file with fewer bytes than its header announces.
        array: Any = np.load(file, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise DataFileError(f"{file} is an .npz, not an .npy; rename it to .npz")
    return np.asarray(array) if mapped else np.array(array)


def npz_arrays(file: Path, *, stored: bool = False) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz` by name; of one that is `stored`, nothing is compressed."""
    # Opened here, since NumPy leaves damaged files open.
    with (
        readable(file, ".npz", fix=_WRITE_PLAIN),
        open_regular(file) as opened,
        np.load(opened, allow_pickle=False) as archive,
    ):
        check_archive(file, archive.zip, stored=file.stat().st_size if stored else None)
        arrays = {key: archive[key] for key in archive.files}
    if empty := [key for key, array in arrays.items() if not array.dtype.itemsize]:
        # Any number of them fits into no bytes.
        raise DataFileError(
            f"{file}: {empty[0]} holds {arrays[empty[0]].size:,} values of no bytes"
        )
    return arrays


def one_label_each(file: Path | str, features: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse labels that are not one for each of at least one row."""
    if features.ndim == 0 or labels.ndim != 1 or len(features) != len(labels):
        raise DataFileError(
            f"{file}: features have shape {features.shape} and labels {labels.shape}; labels must "
            "be [N], one for each of N rows"
        )
    if len(labels) == 0:
        raise DataFileError(f"{file} has no rows; training and testing need some each")


# Nothing below shows a label, or counts them by class: how many there are of each is secret.

_LEFT_OUT = "left out"
_DATE = "date, as days"


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
    """A statement that the user has to make."""

    key: str
    value: str
    why: str


@dataclass(frozen=True, kw_only=True)
class FileSeen:
    """Rows, columns, labels and gaps of a file.

    Attributes:
        classes: How many are stated, and their names; None if not stated.
        bounds: Of amounts.
    """

    rows: int
    features: str
    columns: tuple[ColumnSeen, ...] = ()
    labels: str = "one per row"
    split: str = ""
    classes: StatedClasses | None = None
    bounds: tuple[float, float] | None = None
    missing: tuple[Missing, ...] = ()


def describe(source: OwnSource) -> FileSeen:
    """Look into a file."""
    assert source.path is not None
    file = existing(source.path, key="data.path")
    if file.suffix.lower() in (".csv", ".parquet", ".xlsx"):
        seen = _table_seen(_read_table(file, source), source)
    else:
        seen = _arrays_seen(read_rows(source))
    return replace(
        seen,
        split=_where_split(source, seen.split),
        classes=seen.classes if source.classes is None else source.classes,
        bounds=source.bounds,
        missing=(*seen.missing, *_unsaid(source, seen)),
    )


def _arrays_seen(rows: OwnRows) -> FileSeen:
    assert isinstance(rows.features, np.ndarray)
    shape = " x ".join(map(str, rows.features.shape[1:]))
    what = f"images of {shape}" if rows.features.ndim > 2 else f"matrix of {shape} columns"
    return FileSeen(
        rows=len(rows) + (0 if rows.test is None else len(rows.test)),
        features=f"{what}, {rows.features.dtype}",
        split="" if rows.split is None and rows.test is None else "the file's own",
        classes=rows.stated,
    )


def _table_seen(table: "pyarrow.Table", source: OwnSource) -> FileSeen:
    label_column = source.label_column or LABEL
    known = label_column in table.column_names
    columns = tuple(
        _column_seen(str(name), table.column(place), source, label_column, types_only=not known)
        for place, name in enumerate(table.column_names)
    )
    kind = "amounts" if source.bounds else "each one of the stated classes"
    missing = [
        Missing(key=key, value="NAME", why=f"no column is named {name!r} in the header")
        for key, names in source.named_columns.items()
        for name in names
        if name not in table.column_names
    ]
    if bad := [column.name for column in columns if not column.usable]:
        why = f"the values of {', '.join(bad)} can't be used: leave them out, or convert them"
        missing.append(Missing(key="data.drop", value=",".join([*source.drop, *bad]), why=why))
    has_split = any(column.kind == "split" for column in columns)
    return FileSeen(
        rows=table.num_rows,
        features=f"table of {len(columns)} columns",
        columns=columns,
        labels=f"column {label_column!r}, {kind}" if known else "",
        split=f"column {source.split_column or SPLIT!r}" if has_split else "",
        missing=tuple(missing),
    )


def _column_seen(
    name: str,
    column: "pyarrow.ChunkedArray",
    source: OwnSource,
    label_column: str,
    *,
    types_only: bool,
) -> ColumnSeen:
    if name == label_column:
        return ColumnSeen(name=name, kind="labels", note="secret")
    if name in source.drop:
        return ColumnSeen(name=name, kind=_LEFT_OUT)
    if name == source.group_column:
        return ColumnSeen(name=name, kind="persons")
    says_split = name == SPLIT and set(map(str, column.unique().to_pylist())) <= {"train", "test"}
    if name == source.split_column or says_split:
        return ColumnSeen(name=name, kind="split")
    try:
        values, form = learned_values(name, column)
    except ValueError as error:
        return ColumnSeen(name=name, kind=str(column.type), note=str(error), usable=False)
    kind = {"O": "text", "b": "text", "M": _DATE}.get(values.dtype.kind, "number")
    if types_only:  # until the column of labels is named, it may be this one
        return ColumnSeen(name=name, kind=kind)
    if name not in source.keep and (why := why_left_out(name, values, text=source.text)):
        note = f"{why}; data.keep={name} makes it a feature"
        return ColumnSeen(name=name, kind=_LEFT_OUT, note=note)
    missing = is_missing(values)
    count = int(missing.sum())
    if source.text is TextColumns.TFIDF and is_sentences(values):
        note = f"TF-IDF of words and letters, {MOST_DIRECTIONS} features at most"
        return ColumnSeen(name=name, kind="sentences", missing=count, note=note)
    categories = None
    usable = True
    note = form and f"written as {example(form)}"
    if kind == "text":
        categories = len(set(values[~missing].tolist()))
        usable = categories <= MOST_CATEGORIES
        note, places = slips(values)
        if len(places):
            first = f"the first is row {places[0]}: {str(values[places[0]])!r}"
            note += f" but for {len(places)} rows; {first}"
        elif not usable and not note:
            note = f"more than {MOST_CATEGORIES} categories: it names single rows rather than kinds"
        elif count and not note:
            note = f"{count:,} missing (a category of their own)"
    elif kind == "number" and np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        usable = False
        note = f"row {row} is {values[row]}; features must be finite"
    elif count:
        note = f"{note}; " * bool(note) + f"{count:,} missing (the median, and an indicator column)"
    return ColumnSeen(
        name=name, kind=kind, categories=categories, missing=count, note=note, usable=usable
    )


def _where_split(source: OwnSource, own: str) -> str:
    if source.test_path is not None:
        return f"rows for testing are those of {source.test_path}; their labels are public"
    if own:
        return f"{own} marks the rows for testing; their labels are public"
    if source.hold_out is HoldOut.PUBLIC:
        return "one row in five is held out, and its label published"
    return "no label is published" if source.hold_out is HoldOut.NONE else ""


def _unsaid(source: OwnSource, seen: FileSeen) -> Iterator[Missing]:
    """Settings that are still open; they are never derived from labels."""
    if source.classes is None and seen.classes is None and source.bounds is None:
        yield Missing(
            key="data.classes",
            value="NAME,NAME,...",
            why="the classes are public, and must not be read from secret labels (K stands for "
            "0,1,...,K-1; of amounts state data.bounds=LOW,HIGH instead)",
        )
    if not seen.split and source.test_path is None and source.hold_out is None:
        yield Missing(
            key="data.hold_out",
            value="none",
            why="no rows are marked for testing; none publishes no label, public "
            "publishes one in five (or data.split_column, or data.test_path)",
        )

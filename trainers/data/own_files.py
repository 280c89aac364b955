"""The user's own files: what is stated of them, and their rows as they are read.

| file | holds |
|---|---|
| `.csv` | a line of names, then a line per row; a column of labels |
| `.parquet` | the same; its metadata may state the classes |
| `.npz` | `features` and `labels`, or those of `train_` and `test_`; it may state the classes |
| `.npy` and `.npy` | features in one, labels in the other; large features stay on disk |

pyarrow reads tables and finds types over the whole file. The delimiter of a `.csv` is that one of
comma, semicolon and tab that the first line has most of. Labels are read as text and turned into
classes in `own_data`; no message of Arrow's is passed on, for it quotes what it can't convert.

>>> OwnSource(path="mine.csv", label_column="bought", drop=("note",), classes=("no", "yes")).classes
('no', 'yes')
>>> OwnSource(path="X.npy")
Traceback (most recent call last):
    ...
ValueError: X.npy holds features alone; name the file of their labels: data.labels=FILE.npy
"""

import difflib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data.columns import (
    MOST_CATEGORIES,
    MOST_CHARACTERS,
    RowsRefused,
    column_values,
    identifier,
    is_missing,
    is_number,
    learned_values,
    slips,
    too_long,
)
from labeldp.trainers.data.files import (
    DataFileError,
    DatasetMissing,
    FileRefused,
    check_unpacked,
    first_line,
    open_regular,
)

#: Distinguishes a user's file from the name of a data set.
OWN_FILES = (".csv", ".npy", ".npz", ".parquet")
LABEL = "label"
#: Spellings of a row's `train` or `test`.
SPLIT = "split"

#: How many classes there are, or their names in order.
StatedClasses = int | Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedRows:
    """Rows of a matrix that stays on disk.

    Attributes:
        matrix: A file's numbers [N, D], mapped.
        rows: Positions [M], ascending.
    """

    matrix: "np.memmap[Any, Any]"
    rows: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.rows)


#: Numbers or images [N, ...], or name of a column -> its values [N] (see `column_values`).
RawFeatures = NDArray[Any] | MappedRows | dict[str, NDArray[Any]]


class HoldOut(StrEnum):
    """The fate of labels for testing where a file brings no split of its own.

    PUBLIC holds one row in five out and **publishes their true labels**: every trial sees them.
    NONE publishes none: there is no public test split.
    """

    PUBLIC = "public"
    NONE = "none"


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnRows:
    """A user's rows as they are read, before anything is decided about them.

    Attributes:
        labels: Whole numbers, or text [N]; never shown. None where none were requested.
        split: `train` or `test` [N], if it is stated.
        test: Rows for testing where they are kept apart, with public labels.
    """

    features: RawFeatures
    labels: NDArray[Any] | None = field(default=None, repr=False)
    split: NDArray[Any] | None = None
    stated: StatedClasses | None = None
    test: "OwnRows | None" = None

    def __len__(self) -> int:
        if isinstance(self.features, dict):
            return len(next(iter(self.features.values())))
        return len(self.features)

    def only(self, chosen: NDArray[np.bool_]) -> "OwnRows":
        """Return features and labels of the chosen rows [N]."""
        assert self.labels is not None
        if chosen.all():
            return replace(self.mapped(), split=None)
        if isinstance(self.features, dict):
            few: RawFeatures = {name: column[chosen] for name, column in self.features.items()}
        elif isinstance(self.features, np.memmap) and chosen.any():
            few = MappedRows(matrix=self.features, rows=np.flatnonzero(chosen))
        else:
            assert isinstance(self.features, np.ndarray)
            few = self.features[chosen]
        return replace(self, features=few, labels=self.labels[chosen], split=None)

    def mapped(self) -> "OwnRows":
        """The same, where a matrix on disk says so."""
        if not isinstance(self.features, np.memmap):
            return self
        return replace(
            self, features=MappedRows(matrix=self.features, rows=np.arange(len(self.features)))
        )


#: A file of one array: features in one, labels in another.
ONE_ARRAY = ".npy"


@dataclass(frozen=True, kw_only=True)
class OwnSource:
    """The user's own data.

    Attributes:
        test_path: A second file of the same kind, whose rows are for testing: **its labels are
            public**.
        test_labels: The labels that go with it, where it is an `.npy`; public as well.
        hold_out_seed: Public, chooses the rows that PUBLIC holds out.
    """

    path: str | os.PathLike[str] | None = None
    labels: str | os.PathLike[str] | None = None
    label_column: str | None = None
    split_column: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    test_path: str | os.PathLike[str] | None = None
    test_labels: str | os.PathLike[str] | None = None
    hold_out: HoldOut | None = None
    hold_out_seed: int = 0
    classes: StatedClasses | None = None

    def __post_init__(self) -> None:
        _validate.whole(hold_out_seed=self.hold_out_seed)
        if self.hold_out_seed and self.hold_out is not HoldOut.PUBLIC:
            raise ValueError(
                f"data.hold_out_seed is {self.hold_out_seed}, but no rows are held out at random; "
                "set data.hold_out=public, or leave the seed out"
            )
        if self.test_labels is not None and self.test_path is None:
            raise ValueError(
                f"data.test_labels is {self.test_labels}, but data.test_path names no file of "
                "features that they belong to"
            )
        _check_pair(self.path, self.labels, key="data.labels", of="data.path")
        _check_pair(self.test_path, self.test_labels, key="data.test_labels", of="data.test_path")
        if self.test_path is not None and self.hold_out is not None:
            raise ValueError(
                f"data.hold_out is {self.hold_out}, but data.test_path={self.test_path} brings a "
                "public test split; leave one of them out"
            )


def _check_pair(
    features: str | os.PathLike[str] | None,
    labels: str | os.PathLike[str] | None,
    *,
    key: str,
    of: str,
) -> None:
    single = features is not None and Path(features).suffix == ONE_ARRAY
    if single and labels is None:
        raise ValueError(
            f"{features} holds features alone; name the file of their labels: {key}=FILE.npy"
        )
    if labels is not None and not single:
        raise ValueError(
            f"{key} is {labels}, but {of} is {features}; a second file of labels goes with "
            "features in an .npy, and every other file holds its labels itself"
        )


_FOUR = ("train_features", "train_labels", "test_features", "test_labels")
#: From so many bytes on an `.npy` is mapped.
MAPPED_BYTES = 1 << 28
#: A mapped array may be larger than memory.
_MOST_BYTES = 1 << 62
#: Types are found within a block of a `.csv`; Arrow takes no larger ones.
_LARGEST_BLOCK = 1 << 30
#: A first line that is longer is not taken for names of columns.
_LONGEST_HEADER = 1 << 20
_DELIMITERS = ",;\t"
#: Fields of a `.csv` that stand for a missing value: those that pandas takes for one.
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
#: Arrow's messages that quote nothing of the file.
_WRONG_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_REASONS = ("Empty CSV file", "invalid UTF8 data", "straddling object")
#: Rows' worth of what a chunk of a `.parquet` holds besides its values.
_FOOTER_SLACK = 100


def read_rows(source: OwnSource, *, testing: bool = False, table: Any = None) -> OwnRows:
    """Return what a file holds as it is, before anything is decided about it."""
    path, labels = source.path, source.labels
    if testing:
        path, labels = source.test_path, source.test_labels
    assert path is not None
    file = _there(path, key="data.test_path" if testing else "data.path")
    match file.suffix.lower():
        case ".csv" | ".parquet":
            table = read_table(source, testing=testing) if table is None else table
            return _rows_of_table(table, file, source)
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


def read_table(source: OwnSource, *, testing: bool = False) -> Any:
    """Return a `.csv` or `.parquet` as a `pyarrow.Table`; None if the file is another kind."""
    path = source.test_path if testing else source.path
    assert path is not None
    file = _there(path, key="data.test_path" if testing else "data.path")
    match file.suffix.lower():
        case ".csv":
            as_written = [source.label_column or LABEL, source.split_column or SPLIT]
            return csv_table(file, as_written=as_written)
        case ".parquet":
            return parquet_table(file)
    return None


def _rows_of_table(table: Any, file: Path, source: OwnSource) -> OwnRows:
    """Columns of features, one of labels, and one of a split."""
    label_column, split_column = source.label_column or LABEL, source.split_column
    names = [str(name) for name in table.column_names]
    if label_column not in names:
        if file.suffix.lower() == ".csv":
            _refuse_values_for_names(file, names)
        refuse_unknown_column(label_column, names, where=file, key="data.label_column")
    if table.num_rows < 2:
        raise DataFileError(f"{file} has {table.num_rows} rows; at least 2 are needed")
    if len(set(names)) < len(names):
        raise DataFileError(f"{file} has two columns of one name: {', '.join(names)}")
    stated = {"data.drop": source.drop, "data.keep": source.keep}
    stated["data.split_column"] = () if split_column is None else (split_column,)
    for key, wanted in stated.items():
        for name in wanted:
            refuse_unknown_column(name, names, where=file, key=key)
    for key, needed in (
        ("data.label_column", label_column),
        ("data.split_column", split_column),
        *(("data.keep", name) for name in source.keep),
    ):
        if needed is not None and needed in source.drop:
            raise DataFileError(
                f"data.drop leaves out {needed!r}, which is needed ({key}): name it once"
            )
    if label_column == split_column:
        raise DataFileError(f"{file} column {label_column!r} can't be both labels and split")
    try:
        columns = {
            name: column_values(name, table.column(place))
            for place, name in enumerate(names)
            if name not in source.drop
        }
    except (RowsRefused, FileRefused) as error:
        raise type(error)(f"{file} {error}") from None
    labels = _plain_labels(columns.pop(label_column), f"{file} column {label_column!r}")
    split = _split(columns, split_column)
    if not columns:
        raise DataFileError(f"{file} has no column of features besides the labels")
    return OwnRows(
        features=columns,
        labels=labels,
        split=split,
        stated=stated_in(file, table.schema.metadata or {}),
    )


def _plain_labels(labels: NDArray[Any], what: str) -> NDArray[Any]:
    """Labels as numbers, or as NumPy's strings; no message shows one."""
    missing = is_missing(labels)
    if missing.any():
        raise DataFileError(
            f"{what} has no value in row {missing.argmax()} ({missing.sum()} of {len(labels)} "
            "rows); drop such rows, or fill them in"
        )
    if labels.dtype.kind == "M":
        raise DataFileError(f"{what} holds dates, and labels are whole numbers or text")
    return labels.astype(str) if labels.dtype.kind in "Ob" else labels


def _split(columns: dict[str, NDArray[Any]], named: str | None) -> NDArray[Any] | None:
    if named is not None:
        return columns.pop(named).astype(str)
    found = columns.get(SPLIT)
    # A feature may be called that, too.
    if found is None or found.dtype.kind != "O" or not set(found) <= {"train", "test"}:
        return None
    return columns.pop(SPLIT).astype(str)


def refuse_unknown_column(name: str, names: Sequence[str], *, where: Path | str, key: str) -> None:
    """Refuse a name that no column has, and name the nearest one."""
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"set {key}"
    raise DataFileError(f"{where} has no column {name!r}; {hint} (columns: {', '.join(names)})")


def csv_table(file: Path, *, text: Sequence[str] = (), as_written: Sequence[str] = ()) -> Any:
    """Return a `pyarrow.Table` of a `.csv`.

    `true` and `false` stay text: two categories, written as the file has them.
    """
    import pyarrow as pa
    from pyarrow import compute, csv, types

    with open_regular(file) as opened:
        size = opened.seek(0, 2)
        opened.seek(0)
        header = opened.readline(_LONGEST_HEADER)
        opened.seek(0)
        delimiter = max(_DELIMITERS, key=lambda mark: header.count(mark.encode()))
        try:
            table = csv.read_csv(
                opened,
                # On one thread, which alone numbers the lines.
                csv.ReadOptions(use_threads=False, block_size=min(size + 1, _LARGEST_BLOCK)),
                csv.ParseOptions(delimiter=delimiter),
                csv.ConvertOptions(
                    column_types={name: pa.string() for name in (*text, *as_written)},
                    null_values=_MISSING,
                    true_values=[],
                    false_values=[],
                ),
            )
        except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
            # Not chained: Arrow's message quotes the line.
            raise DataFileError(_explained(file, size, error)) from None
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if types.is_string(column.type) and name not in as_written:
            missing = compute.is_in(column, value_set=pa.array(_MISSING))
            if compute.any(missing).as_py():
                column = compute.if_else(missing, None, column)
                table = table.set_column(place, name, column)
    return table


def _explained(file: Path, size: int, error: Exception) -> str:
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
    if any(is_number(name) for name in names):
        raise DataFileError(
            f"{file}: the first line holds numbers where names of columns belong; write a first "
            "line that names them, and the column of labels among them"
        )


def parquet_table(file: Path) -> Any:
    """Return a `pyarrow.Table`."""
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
    """Return the number of classes or their names, as far as the file's metadata say."""
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
                    f"rows; {too_long(column.path_in_schema)}"
                )
    # A number takes 8 bytes when it is read, however few it takes in the file.
    check_unpacked(file, max(packed, 8 * footer.num_rows * footer.num_columns))


def read_npz(file: Path, source: OwnSource) -> OwnRows:
    """Return the rows of an `.npz` of `train_features` and so on, or of `features` and `labels`."""
    refuse_columns(file, source)
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
    features, labels = arrays["features"], arrays["labels"]
    one_label_each(file, features, labels)
    return OwnRows(features=features, labels=labels, split=split, stated=stated)


def read_npy(features: Path, labels: Path, source: OwnSource) -> OwnRows:
    """Return the rows of two files of one array each; large features are mapped."""
    refuse_columns(features, source)
    if source.split_column is not None:
        raise DataFileError(
            f"data.split_column is {source.split_column!r}, but {features} holds features alone; "
            "name a second file of rows for testing instead: data.test_path and data.test_labels"
        )
    matrix, column = npy_array(features, mapped=True), npy_array(labels)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    one_label_each(f"{features} and {labels}", matrix, column)
    return OwnRows(features=matrix, labels=column)


def npy_array(file: Path, *, mapped: bool = False) -> NDArray[Any]:
    """Return the array of an `.npy`."""
    try:
        with open_regular(file, most_bytes=_MOST_BYTES if mapped else None) as opened:
            large = mapped and opened.seek(0, 2) >= MAPPED_BYTES
            opened.seek(0)
            if large:
                there: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
                if there.ndim == 2 and np.issubdtype(there.dtype, np.floating):
                    return there
                check_unpacked(file, there.nbytes)
            array: Any = np.load(opened, allow_pickle=False)
    except (FileRefused, FileNotFoundError):
        raise
    except Exception as error:  # NumPy raises many kinds on damaged files
        raise DataFileError(
            f"{file} ({file.stat().st_size:,} bytes) can't be read ({_first_line(error)}); write "
            "it with numpy.save, numbers or strings only, no Python objects"
        ) from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise DataFileError(f"{file} is an .npz, not an .npy; rename it to .npz")
    return array


def refuse_columns(file: Path, source: OwnSource) -> None:
    """Refuse names of columns where there are none."""
    for key in ("label_column", "drop", "keep"):
        if getattr(source, key):
            raise ValueError(
                f"data.{key} is for tables with names (.csv, .parquet); {file.name} holds arrays"
            )


def _stated(file: Path, arrays: dict[str, NDArray[Any]]) -> StatedClasses | None:
    names = None
    if "class_names" in arrays:
        names = tuple(str(name) for name in arrays["class_names"].ravel())
    value = arrays.get("num_classes")
    if value is None:
        return names
    if value.size != 1 or not np.issubdtype(value.dtype, np.integer):
        raise DataFileError(f"{file}: num_classes is {value!r}; it must be one whole number")
    if names is not None and len(names) != int(value.item()):
        raise DataFileError(
            f"{file}: there are {len(names)} class_names for {int(value.item())} classes; give one "
            "each or none"
        )
    return int(value.item()) if names is None else names


def npz_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz` by name."""
    try:
        # Opened here, since NumPy leaves damaged files open.
        with open_regular(file) as opened, np.load(opened, allow_pickle=False) as archive:
            check_unpacked(file, sum(member.file_size for member in archive.zip.infolist()))
            return {key: archive[key] for key in archive.files}
    except FileRefused:
        raise
    except Exception as error:  # NumPy and zipfile raise many kinds on damaged files
        raise DataFileError(
            f"{file} ({file.stat().st_size:,} bytes) can't be read ({_first_line(error)}); write "
            "it with numpy.savez, numbers and strings only, no Python objects"
        ) from error


def _first_line(error: Exception) -> str:
    line = first_line(error)
    # NumPy takes what it does not know for a pickle, and says how to load that unsafely.
    return "it is not in NumPy's format" if "pickled" in line else line


def one_label_each(file: Path | str, features: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse labels that are not one for each of at least one row."""
    if features.ndim == 0 or labels.ndim != 1 or len(features) != len(labels):
        raise DataFileError(
            f"{file}: features have shape {features.shape} and labels {labels.shape}; labels must "
            "be [N], one for each of N rows"
        )
    if len(labels) == 0:
        raise DataFileError(f"{file}: there are no rows; training and testing need some each")


def _there(path: str | os.PathLike[str], *, key: str) -> Path:
    file = Path(path).expanduser()
    if not file.exists():
        raise DatasetMissing(f"{file.absolute()} is not there; check {key}")
    return file


# Nothing below shows a label, or counts them by class: how many there are of each is secret.

#: As many digits as fit into 64 bits.
_WHOLE = re.compile(r"\s*-?[0-9]{1,18}\s*")
#: Kind of a column that no feature is made of.
LEFT_OUT = "left out"
_DATE = "date, as days"
_FEATURES = ("number", "text", _DATE)


def is_whole(text: str) -> bool:
    """Whether text is a whole number."""
    return _WHOLE.fullmatch(text) is not None


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
        why = f"no column is named {label_column!r}: name the one with the labels"
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
        split=_where_split(source, f"column {source.split_column or SPLIT!r}" if has_split else ""),
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
                # Until the column of labels is named, it may be this one.
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
    places = slips(values)
    if not len(places):
        return ""
    first = str(values[places[0]])
    return f"numbers but for {len(places)} rows; the first is row {places[0]}: {first!r}"


def _says_split(column: Any) -> bool:
    return set(map(str, column.unique().to_pylist())) <= {"train", "test"}


def _kind_of_labels(column: Any) -> str:
    """Names or numbers, as far as a column's type says so; the values stay secret."""
    kind = str(column.type)
    if kind.startswith(("int", "uint")):
        return "whole numbers"
    if kind in ("string", "large_string"):
        whole = all(label is not None and is_whole(label) for label in column.to_pylist())
        return "whole numbers" if whole else "text"
    return "text" if kind.startswith("dictionary") else kind


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
        split=_where_split(source, "the file's own" if own_split else ""),
        classes=rows.stated if source.classes is None else source.classes,
        missing=tuple(_unsaid(source, rows.stated, own_split, names=kind == "text")),
    )


def _where_split(source: OwnSource, own: str) -> str:
    if source.test_path is not None:
        return f"rows for testing are those of {source.test_path}; their labels are public"
    if own:
        return f"{own} marks the rows for testing; their labels are public"
    if source.hold_out is HoldOut.PUBLIC:
        return "one row in five is held out, and its label published"
    return "no label is published" if source.hold_out is HoldOut.NONE else ""


def _unsaid(
    source: OwnSource, stated: StatedClasses | None, own_split: bool, *, names: bool
) -> Iterator[Missing]:
    """Settings that are still open; they are never derived from labels."""
    if source.classes is None and stated is None:
        yield Missing(
            key="data.classes",
            value="NAME,NAME,..." if names else "K",
            why="the classes are public, and must not be read from secret labels",
        )
    if not own_split and source.test_path is None and source.hold_out is None:
        yield Missing(
            key="data.hold_out",
            value="none",
            why="no rows are marked for testing; none publishes no label, public "
            "publishes one in five (or data.split_column, or data.test_path)",
        )

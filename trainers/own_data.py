"""The user's own data: a `.npz` of arrays, or a `.parquet` table with a column of labels.

A `.npz` holds `train_features`, `train_labels`, `test_features` and `test_labels`, or `features`
and `labels` that are split here (by `split`, rows of `train` or `test`); it may hold
`num_classes` or `class_names`. Images are uint8 [N, H, W], [N, C, H, W] or [N, H, W, C] with C = 1
or 3; tables are numbers [N, D].

Where there is no split, one row in five is held out. **Labels of testing rows count as public**, as
the set of classes does: name them in the file if that is not what you want read off the labels.
"""

import difflib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_files import DataFileError, DatasetMissing, Splits, held_out
from labeldp.trainers.tabular_files import encode, standardize

_FOUR = ("train_features", "train_labels", "test_features", "test_labels")
_LABEL_COLUMN = "label"
#: Rows that say `train` or `test`, in either kind of file.
_SPLIT = "split"


def read_own(path: str | os.PathLike[str] | None, *, label_column: str | None = None) -> Splits:
    """Return the arrays of a user's file.

    Args:
        path: `.npz` or `.parquet`.
        label_column: Of the `.parquet`; `label` if not given.

    Raises:
        DatasetMissing: There is no such file.
        DataFileError: It can't be read, or does not hold what it should.
        ValueError: Features or labels that can't be used.
    """
    if path is None:
        raise ValueError("name=own needs a path: data.path=FILE.npz or data.path=FILE.parquet")
    file = Path(path).expanduser()
    if not file.is_file():
        raise DatasetMissing(f"{file.absolute()} is not there; check data.path")
    if file.suffix == ".npz":
        if label_column is not None:
            raise ValueError(f"label_column is for .parquet; {file.name} holds labels by key")
        return _read_npz(file)
    if file.suffix == ".parquet":
        return _read_parquet(file, label_column)
    raise DataFileError(f"{file} is no .npz or .parquet; save the data as one of them")


def _read_npz(file: Path) -> Splits:
    arrays = _npz_arrays(file)
    if set(_FOUR) <= set(arrays):
        train, train_labels, test, test_labels = (arrays[key] for key in _FOUR)
    elif {"features", "labels"} <= set(arrays):
        features, labels = arrays["features"], arrays["labels"]
        _one_each(file, features, labels)
        test_rows = _test_rows(file, arrays.get(_SPLIT), len(features))
        train, train_labels = features[~test_rows], labels[~test_rows]
        test, test_labels = features[test_rows], labels[test_rows]
    else:
        raise DataFileError(
            f"{file} holds {', '.join(arrays) or 'nothing'}; it must hold {', '.join(_FOUR)}, or "
            "features and labels"
        )
    _one_each(file, train, train_labels)
    _one_each(file, test, test_labels)
    class_names = None
    if "class_names" in arrays:
        class_names = tuple(str(name) for name in arrays["class_names"].ravel())
    num_classes = len(class_names) if class_names else None
    if "num_classes" in arrays:
        num_classes = _scalar(file, arrays["num_classes"])
    train_features, test_features = _features(file, train, test)
    return Splits(
        train_features=train_features,
        train_labels=train_labels,
        test_features=test_features,
        test_labels=test_labels,
        num_classes=num_classes or _count_classes(file, train_labels, test_labels),
        class_names=class_names,
    )


def _npz_arrays(file: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except Exception as error:  # NumPy and zipfile raise many kinds on damaged files
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataFileError(
            f"{file} ({file.stat().st_size:,} bytes) can't be read ({first}); write it with "
            "numpy.savez, numbers and strings only, no Python objects"
        ) from error


def _features(
    file: Path, train: NDArray[Any], test: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    if train.shape[1:] != test.shape[1:]:
        raise DataFileError(
            f"{file}: a training row has shape {train.shape[1:]} and a testing row "
            f"{test.shape[1:]}; they must agree"
        )
    numbers = all(
        np.issubdtype(part.dtype, np.number) or part.dtype == bool for part in (train, test)
    )
    if train.ndim == 2 and numbers and not np.iscomplexobj(train) and train.shape[1]:
        return standardize(_as_floats(train), _as_floats(test))
    if train.ndim in (3, 4) and train.dtype == test.dtype == np.uint8:
        return _channels_first(file, train), _channels_first(file, test)
    if train.ndim in (3, 4):
        raise DataFileError(
            f"{file}: images are {train.dtype} and {test.dtype}; they must be uint8, 0 to 255 "
            "(for images in 0..1: (255 * images).round().astype(numpy.uint8))"
        )
    raise DataFileError(
        f"{file}: features are {train.dtype} of shape {train.shape}; tables must be real numbers "
        "[N, D], images uint8 [N, H, W] or [N, C, H, W]"
    )


def _as_floats(matrix: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers and truth values as floating-point ones; the others as they are."""
    return matrix if np.issubdtype(matrix.dtype, np.floating) else matrix.astype(np.float64)


def _channels_first(file: Path, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if images.ndim == 3:
        return np.ascontiguousarray(images[:, None])
    if images.shape[1] in (1, 3):
        return np.ascontiguousarray(images)
    if images.shape[3] in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    raise DataFileError(
        f"{file}: images have shape {images.shape}; with 1 or 3 channels that is [N, C, H, W] or "
        "[N, H, W, C]"
    )


def _read_parquet(file: Path, label_column: str | None) -> Splits:
    columns, classes = _parquet_columns(file, label_column or _LABEL_COLUMN)
    labels = columns.pop(label_column or _LABEL_COLUMN)
    split = columns.get(_SPLIT)
    if split is not None and split.dtype.kind == "U" and set(split) <= {"train", "test"}:
        del columns[_SPLIT]
    else:
        split = None
    if not columns:
        raise DataFileError(f"{file} has no column of features besides the labels")
    test_rows = _test_rows(file, split, len(labels))
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
        num_classes=len(classes) if classes else _count_classes(file, train_labels, test_labels),
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


def _test_rows(file: Path, split: NDArray[Any] | None, count: int) -> NDArray[np.bool_]:
    if split is None:
        return held_out(count)
    if split.shape != (count,):
        raise DataFileError(f"{file}: {_SPLIT} has shape {split.shape}; it must be [{count}]")
    unknown = np.flatnonzero(~np.isin(split, ["train", "test"]))
    if len(unknown):
        raise DataFileError(
            f"{file}: {_SPLIT} row {unknown[0]} is {split[unknown[0]]!r}; it must be 'train' or "
            "'test'"
        )
    test: NDArray[np.bool_] = split == "test"
    if test.all() or not test.any():
        raise DataFileError(
            f"{file}: all rows of {_SPLIT} are {str(split[0])!r}; both kinds are needed"
        )
    return test


def _one_each(file: Path, features: NDArray[Any], labels: NDArray[Any]) -> None:
    if features.ndim == 0 or labels.ndim != 1 or len(features) != len(labels):
        raise DataFileError(
            f"{file}: features have shape {features.shape} and labels {labels.shape}; labels must "
            "be [N], one for each of N rows"
        )
    if len(labels) == 0:
        raise DataFileError(f"{file}: there are no rows; training and testing need some each")


def _count_classes(file: Path, *labels: NDArray[Any]) -> int:
    together = np.concatenate(labels)
    if not np.issubdtype(together.dtype, np.integer):
        raise DataFileError(
            f"{file}: labels are of type {together.dtype}; they must be whole numbers 0..K-1 "
            "(convert them with .astype(int) if they are)"
        )
    negative = np.flatnonzero(together < 0)
    if len(negative):
        raise DataFileError(
            f"{file}: label {together[negative[0]]} in row {negative[0]} is negative; labels must "
            "be whole numbers 0..K-1"
        )
    present = np.unique(together)
    gaps = np.flatnonzero(present != np.arange(len(present)))
    if len(gaps):
        raise DataFileError(
            f"{file}: no row has the label {gaps[0]}, but some have {present[-1]}; count classes "
            "from 0 without gaps, or add num_classes (or class_names) to the file"
        )
    return len(present)


def _scalar(file: Path, value: NDArray[Any]) -> int:
    if value.size != 1 or not np.issubdtype(value.dtype, np.integer):
        raise DataFileError(f"{file}: num_classes must be one whole number, not {value!r}")
    return int(value.item())

"""The user's own arrays: an `.npz` of several, or an `.npy` of features and one of labels.

A large `.npy` is not read but mapped: its rows come from the disk as they are needed.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_sets.files import DataFileError
from labeldp.trainers.data_sets.own_rows import SPLIT, OwnRows, StatedClasses, one_label_each
from labeldp.trainers.data_sets.own_source import OwnSource
from labeldp.trainers.regular_files import FileRefused, check_unpacked, open_regular

_FOUR = ("train_features", "train_labels", "test_features", "test_labels")
#: From so many bytes on an `.npy` is mapped.
MAPPED_BYTES = 1 << 28
#: What is mapped may be larger than memory.
_MOST_BYTES = 1 << 62


def read_npz(file: Path, source: OwnSource) -> OwnRows:
    """Return the rows of an `.npz` of `train_features` and so on, or of `features` and `labels`.

    Raises:
        DataFileError: It can't be read, or does not hold what it should.
        FileRefused: It is no regular file, or holds more than this machine's memory.
    """
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
    """Return the rows of two files of one array each; large features are mapped.

    Raises:
        DataFileError: One can't be read, or they don't go together.
        FileRefused: One is no regular file, or the labels are larger than this machine's memory.
    """
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
    """Return the array of an `.npy`.

    Args:
        file: The file.
        mapped: Leave a large matrix of floating-point numbers on disk.

    Raises:
        DataFileError: It can't be read.
        FileRefused: It is no regular file; or it is larger than this machine's memory and not
            mapped.
    """
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
        raise DataFileError(f"{file} is an .npz and no .npy; call it what it is")
    return array


def refuse_columns(file: Path, source: OwnSource) -> None:
    """Refuse names of columns where there are none."""
    for key in ("label_column", "drop"):
        if getattr(source, key):
            raise ValueError(
                f"data.{key} is for tables with names (.csv, .parquet); {file.name} holds arrays"
            )


def _stated(file: Path, arrays: dict[str, NDArray[Any]]) -> StatedClasses | None:
    """Number of classes or their names, as far as the file says."""
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
    """Return the arrays of an `.npz` by name.

    Raises:
        DataFileError: It can't be read.
        FileRefused: It is no regular file, or holds more than this machine's memory.
    """
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
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    # NumPy takes what it does not know for a pickle, and says how to load that unsafely.
    return "it is not in NumPy's format" if "pickled" in line else line

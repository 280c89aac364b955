"""The user's own data: a `.npz` of arrays, or a `.parquet` table with a column of labels.

A `.npz` holds `train_features`, `train_labels`, `test_features` and `test_labels`, or `features`
and `labels` that are split here (by `split`, rows of `train` or `test`), and `num_classes` or
`class_names`. Images are uint8 [N, H, W], [N, C, H, W] or [N, H, W, C] with C = 1 or 3; tables are
numbers [N, D].

**Labels of testing rows count as public**, as the set of classes does. So neither is made up here:
without a split the user says what to hold out (`HoldOut`), and the classes are stated in the file
or by the user, never read off the labels.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data_sets.files import DataFileError, DatasetMissing, Splits
from labeldp.trainers.data_sets.own_parquet import read_parquet
from labeldp.trainers.data_sets.own_rows import (
    SPLIT,
    HoldOut,
    StatedClasses,
    one_label_each,
    refuse_hold_out,
    rows_for_testing,
    stated_classes,
)
from labeldp.trainers.data_sets.tables import Numbers, refuse_not_finite
from labeldp.trainers.regular_files import FileRefused, check_unpacked, open_regular

_FOUR = ("train_features", "train_labels", "test_features", "test_labels")


def read_own(
    path: str | os.PathLike[str] | None,
    *,
    label_column: str | None = None,
    hold_out: HoldOut | None = None,
    classes: StatedClasses | None = None,
) -> Splits:
    """Return the arrays of a user's file.

    Args:
        path: `.npz` or `.parquet`.
        label_column: Of the `.parquet`; `label` if not given.
        hold_out: What becomes of labels for testing where the file brings no split.
        classes: How many there are, or their names in order; not needed where the file says it.

    Raises:
        DatasetMissing: There is no such file.
        DataFileError: It can't be read, or does not hold what it should.
        ValueError: Features or labels that can't be used.
    """
    if path is None:
        raise ValueError("name=own needs a path: data.path=FILE.npz or data.path=FILE.parquet")
    file = Path(path).expanduser()
    if not file.exists():
        raise DatasetMissing(f"{file.absolute()} is not there; check data.path")
    if file.suffix == ".npz":
        if label_column is not None:
            raise ValueError(f"label_column is for .parquet; {file.name} holds labels by key")
        return _read_npz(file, hold_out, classes)
    if file.suffix == ".parquet":
        return read_parquet(file, label_column=label_column, hold_out=hold_out, classes=classes)
    raise DataFileError(f"{file} is no .npz or .parquet; save the data as one of them")


def _read_npz(file: Path, hold_out: HoldOut | None, classes: StatedClasses | None) -> Splits:
    arrays = _npz_arrays(file)
    if set(_FOUR) <= set(arrays):
        refuse_hold_out(file, hold_out)
        train, train_labels, test, test_labels = (arrays[key] for key in _FOUR)
        one_label_each(file, train, train_labels)
        one_label_each(file, test, test_labels)
        num_classes, class_names = stated_classes(file, in_file=_stated(file, arrays), said=classes)
    elif {"features", "labels"} <= set(arrays):
        features, labels = arrays["features"], arrays["labels"]
        # Before the rows are split: here a message can name the row that the file has it in.
        one_label_each(file, features, labels)
        if np.issubdtype(features.dtype, np.floating) and features.ndim == 2:
            refuse_not_finite(features, what=f"{file}: features")
        num_classes, class_names = stated_classes(file, in_file=_stated(file, arrays), said=classes)
        _validate.labels(labels, num_classes=num_classes, name=f"{file}: labels", secret=True)
        test_rows = rows_for_testing(file, arrays.get(SPLIT), len(features), hold_out=hold_out)
        train, train_labels = features[~test_rows], labels[~test_rows]
        test, test_labels = features[test_rows], labels[test_rows]
    else:
        raise DataFileError(
            f"{file} holds {', '.join(arrays) or 'nothing'}; it must hold {', '.join(_FOUR)}, or "
            "features and labels"
        )
    train_features, test_features, fitted = _features(file, train, test)
    return Splits(
        train_features=train_features,
        train_labels=train_labels,
        test_features=test_features,
        test_labels=test_labels,
        num_classes=num_classes,
        class_names=class_names,
        preprocessing=fitted,
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


def _npz_arrays(file: Path) -> dict[str, NDArray[Any]]:
    try:
        # Opened here, since NumPy leaves damaged files open.
        with open_regular(file) as opened, np.load(opened, allow_pickle=False) as archive:
            check_unpacked(file, sum(member.file_size for member in archive.zip.infolist()))
            return {key: archive[key] for key in archive.files}
    except FileRefused:
        raise
    except Exception as error:  # NumPy and zipfile raise many kinds on damaged files
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataFileError(
            f"{file} ({file.stat().st_size:,} bytes) can't be read ({first}); write it with "
            "numpy.savez, numbers and strings only, no Python objects"
        ) from error


def _features(
    file: Path, train: NDArray[Any], test: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], Numbers | None]:
    """Features of both parts; and what prepares a table's rows, while images need nothing."""
    if train.shape[1:] != test.shape[1:]:
        raise DataFileError(
            f"{file}: a training row has shape {train.shape[1:]} and a testing row "
            f"{test.shape[1:]}; they must agree"
        )
    numbers = all(
        np.issubdtype(part.dtype, np.number) or part.dtype == bool for part in (train, test)
    )
    if train.ndim == 2 and numbers and not np.iscomplexobj(train) and train.shape[1]:
        train, test = _as_floats(train), _as_floats(test)
        fitted = Numbers.fit(train)
        return (
            fitted(train, what="training features"),
            fitted(test, what="testing features"),
            fitted,
        )
    if train.ndim in (3, 4) and train.dtype == test.dtype == np.uint8:
        return _channels_first(file, train), _channels_first(file, test), None
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

"""Which rows of the user's own data are for testing, and how many classes their labels have."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_files import DataFileError, held_out

#: What a file calls the rows' `train` or `test`.
SPLIT = "split"


def rows_for_testing(file: Path, split: NDArray[Any] | None, count: int) -> NDArray[np.bool_]:
    """Return which rows are for testing [N].

    Args:
        file: For messages.
        split: `train` or `test` for each row [N]; None holds one row in five out.
        count: N.

    Raises:
        DataFileError: Another word, another length, or not both kinds.
    """
    if split is None:
        return held_out(count)
    if split.shape != (count,):
        raise DataFileError(f"{file}: {SPLIT} has shape {split.shape}; it must be [{count}]")
    unknown = np.flatnonzero(~np.isin(split, ["train", "test"]))
    if len(unknown):
        raise DataFileError(
            f"{file}: {SPLIT} row {unknown[0]} is {split[unknown[0]]!r}; it must be 'train' or "
            "'test'"
        )
    test: NDArray[np.bool_] = split == "test"
    if test.all() or not test.any():
        raise DataFileError(
            f"{file}: all rows of {SPLIT} are {str(split[0])!r}; both kinds are needed"
        )
    return test


def one_label_each(file: Path, features: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse labels that are not one for each of at least one row."""
    if features.ndim == 0 or labels.ndim != 1 or len(features) != len(labels):
        raise DataFileError(
            f"{file}: features have shape {features.shape} and labels {labels.shape}; labels must "
            "be [N], one for each of N rows"
        )
    if len(labels) == 0:
        raise DataFileError(f"{file}: there are no rows; training and testing need some each")


def count_classes(file: Path, **labels: NDArray[Any]) -> int:
    """Return K as the labels show it, where nobody has said.

    Args:
        file: For messages.
        labels: What the file calls them -> labels [N].

    Raises:
        DataFileError: No whole numbers, negative ones, all the same, or none of a class between.
    """
    for name, values in labels.items():
        if not np.issubdtype(values.dtype, np.integer):
            raise DataFileError(
                f"{file}: {name} are of type {values.dtype}; labels must be whole numbers 0..K-1 "
                "(convert them with .astype(int) if they are)"
            )
        negative = np.flatnonzero(values < 0)
        if len(negative):
            raise DataFileError(
                f"{file}: {name}[{negative[0]}] is {values[negative[0]]}; labels must be whole "
                "numbers 0..K-1"
            )
    present = np.unique(np.concatenate(list(labels.values())))
    gaps = np.flatnonzero(present != np.arange(len(present)))
    if len(gaps):
        raise DataFileError(
            f"{file}: no row has the label {gaps[0]}, but some have {present[-1]}; count classes "
            "from 0 without gaps, or add num_classes (or class_names) to a .npz"
        )
    if len(present) == 1:
        raise DataFileError(
            f"{file}: all labels are {present[0]}; there is nothing to learn, and nothing to "
            "protect: check what holds the labels"
        )
    return len(present)

"""What makes arrays no data set, told of arrays and tensors alike; nothing here needs torch.

A data set is refused in the same words where it is loaded (`data`) and where a plan only wants to
know how large it is (`set_size`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Looked at together, so that features in a file need not fit into memory.
_CHUNK_ROWS = 8192


def check_features(features: Any, *, name: str, may_be_empty: bool = False) -> None:
    """Refuse features that are neither images nor a table nor identifiers.

    Args:
        features: Array or tensor [N, ...].
        name: What to call them.
        may_be_empty: Whether there may be no rows.

    Raises:
        ValueError: Another type or shape, nothing in it, or a number that is not finite or no
            identifier; the first bad row is named.
    """
    kind = str(features.dtype).removeprefix("torch."), features.ndim
    if kind not in (("uint8", 4), ("int64", 2), ("float32", 2)):
        raise ValueError(
            f"{name} is {features.dtype} of shape {tuple(features.shape)}; images must be uint8 "
            "[N, C, H, W], tables float32 [N, D], identifiers int64 [N, D]"
        )
    if 0 in features.shape[may_be_empty:]:
        raise ValueError(f"{name} has shape {tuple(features.shape)}; it must not be empty")
    if kind == ("uint8", 4):
        return
    for start in range(0, len(features), _CHUNK_ROWS):
        rows = np.asarray(features[start : start + _CHUNK_ROWS])
        if kind == ("int64", 2):
            for row in np.flatnonzero((rows < 0).any(1))[:1].tolist():
                raise ValueError(
                    f"{name} row {start + row} is {rows[row].tolist()}; identifiers are counted "
                    "from 0"
                )
        elif not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
            raise ValueError(
                f"{name} row {start + row}, column {column} is {float(rows[row, column])}; "
                "features must be finite: drop such rows or fill them in"
            )


def check_alike(train: Any, other: Any, *, name: str, part: str) -> None:
    """Refuse rows of another shape than those to train on.

    Args:
        train: Features [N, ...].
        other: Features [M, ...].
        name: Of the data set.
        part: What the others are, such as `test_features`.

    Raises:
        ValueError: They differ.
    """
    if train.shape[1:] != other.shape[1:]:
        raise ValueError(
            f"{name}: a row of train_features has shape {tuple(train.shape[1:])} and one of "
            f"{part} {tuple(other.shape[1:])}; they must agree"
        )


def check_lengths(features: Any, labels: NDArray[np.int64], *, name: str, part: str) -> None:
    """Refuse other than one label per row.

    Args:
        features: [N, ...].
        labels: [N].
        name: Of the data set.
        part: `train`, `test` or `held_out`.

    Raises:
        ValueError: There are more of either.
    """
    if len(features) != len(labels):
        raise ValueError(
            f"{name}: {part}_features has {len(features)} rows and {part}_labels {len(labels)}; "
            "there must be one label per row"
        )


def check_variety(labels: NDArray[np.int64], *, name: str) -> None:
    """Refuse labels to train on that are all the same.

    Raises:
        ValueError: They are; which they are is not said.
    """
    if (labels == labels[0]).all():
        raise ValueError(
            f"{name}: all {len(labels)} training labels are the same; there is nothing to learn, "
            "and nothing to protect: check which column holds the labels"
        )

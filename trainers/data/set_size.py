"""How large a data set is: all that a plan and its price need to know, read without torch.

>>> arrays = Splits(
...     train_features=np.zeros((4, 2), np.float32), train_labels=np.array([0, 1, 1, 0]),
...     test_features=np.zeros((0, 2), np.float32), test_labels=np.array([], int), num_classes=2,
... )
>>> size_of("mine", arrays, limit=3)
SetSize(num_classes=2, num_labels=3, has_test_split=False, shape=(2,))
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data.files import Splits

_CHUNK_ROWS = 8192


@dataclass(frozen=True, kw_only=True)
class SetSize:
    """What is public of a data set's size.

    Attributes:
        has_test_split: Whether there are public labels to measure accuracy on.
    """

    num_classes: int
    num_labels: int
    has_test_split: bool
    shape: tuple[int, ...]


def size_of(name: str, splits: Splits, *, limit: int | None = None) -> SetSize:
    """Return how large a data set is; what `labelled` refuses is refused."""
    _validate.whole(num_classes=splits.num_classes, minimum=2)
    train, test = splits.train_features, splits.test_features
    check_features(train, name=f"{name}: train_features")
    check_features(test, name=f"{name}: test_features", may_be_empty=True)
    check_alike(train, test, name=name, part="test_features")
    has_test_split = bool(len(test) or len(splits.test_labels))
    for part, features, labels in (
        ("test", test, splits.test_labels),
        ("train", train, splits.train_labels),
    ):
        if part == "train" or has_test_split:
            checked = _validate.labels(
                labels,
                num_classes=splits.num_classes,
                name=f"{name}: {part}_labels",
                secret=part == "train",
            )
            check_lengths(features, checked, name=name, part=part)
    check_variety(np.asarray(splits.train_labels), name=name)
    count = len(splits.train_labels)
    return SetSize(
        num_classes=splits.num_classes,
        num_labels=count if limit is None else min(limit, count),
        has_test_split=has_test_split,
        shape=tuple(train.shape[1:]),
    )


def fingerprint_of(splits: Splits) -> str:
    """Return what `PublicData.fingerprint` is of these arrays."""
    digest = hashlib.sha256(str(splits.num_classes).encode())
    for part in (splits.train_features, splits.test_features):
        digest.update(f"torch.{part.dtype}{tuple(part.shape)}".encode())
        for start in range(0, len(part), _CHUNK_ROWS):
            digest.update(np.ascontiguousarray(part[start : start + _CHUNK_ROWS]).data)
    digest.update(np.asarray(splits.test_labels).astype(np.int64).tobytes())
    return digest.hexdigest()


#: Looked at together, so that features in a file need not fit into memory.
_CHUNK_ROWS = 8192


def check_features(features: Any, *, name: str, may_be_empty: bool = False) -> None:
    """Refuse features that are neither images nor a table nor identifiers.

    Args:
        features: Array or tensor [N, ...].
        name: What to call them.
        may_be_empty: Whether there may be no rows.
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
    """
    if len(features) != len(labels):
        raise ValueError(
            f"{name}: {part}_features has {len(features)} rows and {part}_labels {len(labels)}; "
            "there must be one label per row"
        )


def check_variety(labels: NDArray[np.int64], *, name: str) -> None:
    """Refuse labels to train on that are all the same."""
    if (labels == labels[0]).all():
        raise ValueError(
            f"{name}: all {len(labels)} training labels are the same; there is nothing to learn, "
            "and nothing to protect: check which column holds the labels"
        )

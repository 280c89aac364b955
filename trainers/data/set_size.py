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

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.trainers.data.checks import (
    check_alike,
    check_features,
    check_lengths,
    check_variety,
)
from labeldp.trainers.data.files import Splits

_CHUNK_ROWS = 8192


@dataclass(frozen=True, kw_only=True)
class SetSize:
    """What is public of a data set's size.

    Attributes:
        num_classes: K.
        num_labels: N, training examples, before any are held out.
        has_test_split: Whether there are public labels to measure accuracy on.
        shape: Of an example's features.
    """

    num_classes: int
    num_labels: int
    has_test_split: bool
    shape: tuple[int, ...]


def size_of(name: str, splits: Splits, *, limit: int | None = None) -> SetSize:
    """Return how large a data set is; what `labelled` refuses is refused.

    Args:
        name: Of the data set.
        splits: Its arrays.
        limit: As in `data.load`.

    Raises:
        ValueError: Anything that is no data set; the first bad row is named.
    """
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

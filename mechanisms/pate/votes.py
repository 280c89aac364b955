"""Votes of teachers: counted, and checked before anything is answered or priced.

PATE's proofs rest on one fact: a label belongs to one teacher, and a teacher casts one vote per
query. Another label therefore moves at most one vote of every query. Counts that contradict this
are refused, by row.

>>> count_votes(np.array([[0, 2], [0, 1], [1, 2]], dtype=np.uint8), num_classes=3)
array([[2, 1, 0],
       [0, 1, 2]], dtype=int16)
>>> checked_votes([[3, 1], [2, 1]])
Traceback (most recent call last):
    ...
ValueError: votes row 1 sums to 3, row 0 to 4; every teacher casts exactly one vote per query
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import as_numpy

Floats = NDArray[np.float64]

#: Votes that are counted at once; their counters then fit into a processor's cache.
_CHUNK = 2**18


def count_votes(votes: Any, *, num_classes: int) -> NDArray[np.integer[Any]]:
    """Count votes [T, Q], a class per teacher and query: [Q, K], int16 for up to 32,767 teachers.

    Votes of another shape or type, or outside 0..K-1, raise a ValueError.
    """
    _validate.whole(num_classes=num_classes, minimum=2)
    array = as_numpy(votes)
    if array.ndim != 2 or 0 in array.shape or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"votes are {array.dtype} of shape {array.shape}; they must be whole numbers [T, Q], "
            "one class per teacher and query, with at least one of each"
        )
    teachers, queries = array.shape
    counts = np.empty(
        (queries, num_classes), dtype=np.int16 if teachers <= np.iinfo(np.int16).max else np.int32
    )
    step = max(1, _CHUNK // teachers)
    for start in range(0, queries, step):
        part = array[:, start : start + step]
        if part.min() < 0 or part.max() >= num_classes:
            teacher, query = np.argwhere((part < 0) | (part >= num_classes))[0]
            raise ValueError(
                f"teacher {teacher} votes for class {part[teacher, query]} on query "
                f"{start + query}; with {num_classes} classes votes must lie in "
                f"0..{num_classes - 1}"
            )
        width = part.shape[1]
        counters = part + np.arange(width) * num_classes
        totals = np.bincount(counters.ravel(), minlength=width * num_classes)
        counts[start : start + width] = totals.reshape(width, num_classes)
    return counts


def checked_votes(votes: Any, *, name: str = "votes") -> NDArray[np.integer[Any]]:
    """Return votes of one ensemble as whole numbers [N, K], or raise a ValueError with the row."""
    array = _matrix(votes, name)
    _refuse((array < 0).any(axis=1), array, name, "holds a negative count")
    if not np.issubdtype(array.dtype, np.integer):
        fractional = (array != np.floor(array)).any(axis=1)
        _refuse(fractional, array, name, "holds a fractional count; every vote is whole")
        if array.max() > 2**53:
            raise ValueError(f"{name} holds {array.max()}; counts above 2**53 are not exact")
        array = array.astype(np.int64)
    sums = array.sum(axis=1, dtype=np.int64)
    if sums[0] == 0:
        raise ValueError(f"{name} row 0 holds no vote; at least one teacher must vote")
    bad = np.flatnonzero(sums != sums[0])
    if bad.size:
        raise ValueError(
            f"{name} row {bad[0]} sums to {sums[bad[0]]}, row 0 to {sums[0]}; every teacher casts "
            "exactly one vote per query"
        )
    return array


def checked_counts(counts: Any, *, name: str = "votes") -> NDArray[Any]:
    """Return the counts that a threshold is compared with [N, K].

    Integers must be votes. Floats are votes less a student's guess (Interactive-GNMax), and may be
    fractional and negative.
    """
    array = _matrix(counts, name)
    return checked_votes(array, name=name) if np.issubdtype(array.dtype, np.integer) else array


def checked_mask(answered: Any, queries: int) -> NDArray[np.bool_]:
    """Return whether each query was answered [N], or raise a ValueError."""
    mask = as_numpy(answered)
    if mask.dtype != np.bool_ or mask.shape != (queries,):
        raise ValueError(
            f"answered has type {mask.dtype} and shape {mask.shape}; it must be bool [{queries}], "
            "True where a query was answered (labels != -1)"
        )
    return mask


def whole_maximum(counts: NDArray[Any]) -> Floats:
    """Largest count of every row, to the nearest whole number, halves up [N].

    One vote moves a rounded maximum by at most 1. Rounding halves to even would break that: 0.5 and
    1.5 would go to 0 and 2.
    """
    peak: Floats = counts.max(axis=1).astype(np.float64)
    return peak if np.issubdtype(counts.dtype, np.integer) else np.asarray(np.floor(peak + 0.5))


def _matrix(values: Any, name: str) -> NDArray[Any]:
    array = as_numpy(values)
    kind = array.dtype
    if kind == np.bool_ or not np.issubdtype(kind, np.number) or np.iscomplexobj(array):
        raise ValueError(f"{name} is of type {kind}; it must hold counts of votes")
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}; it must be [N, K], a row per query and a column per "
            "class (a single query is votes[None, :])"
        )
    if array.shape[0] == 0:
        raise ValueError(f"{name} is empty; at least one query is needed")
    if array.shape[1] < 2:
        raise ValueError(f"{name} has {array.shape[1]} class; a vote needs at least two")
    if not np.issubdtype(kind, np.integer):
        _refuse(~np.isfinite(array).all(axis=1), array, name, "holds NaN or infinity")
    return array


def _refuse(bad: Any, array: NDArray[Any], name: str, reason: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        shown = np.array2string(array[row], precision=6, threshold=8)
        raise ValueError(f"{name} row {row} {reason}: {shown}")

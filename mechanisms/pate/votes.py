"""Vote counts: what may be answered and priced, checked in one place.

Everything that PATE proves rests on one fact: a label belongs to one teacher, and a teacher casts
one vote per query. Substituting a label therefore moves at most one vote of every query from one
class to another. Counts that contradict this are refused, by row, before anything is computed.

>>> checked_votes([[3, 1], [2, 1]])
Traceback (most recent call last):
    ...
ValueError: votes row 1 sums to 3, row 0 to 4; every teacher casts exactly one vote per query
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms._arrays import as_numpy


def _matrix(values: Any, name: str) -> NDArray[Any]:
    array = as_numpy(values)
    if array.dtype == np.bool_ or not np.issubdtype(array.dtype, np.number):
        raise ValueError(f"{name} is of type {array.dtype}; it must hold counts of votes")
    if np.iscomplexobj(array):
        raise ValueError(f"{name} is complex; it must hold counts of votes")
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}; it must be [N, K], a row per query and a column per "
            "class (a single query is votes[None, :])"
        )
    if array.shape[0] == 0:
        raise ValueError(f"{name} is empty; at least one query is needed")
    if array.shape[1] < 2:
        raise ValueError(
            f"{name} has {array.shape[1]} class; at least two are needed, or nothing is voted on"
        )
    if not np.issubdtype(array.dtype, np.integer):
        bad = np.flatnonzero(~np.isfinite(array).all(1))
        if bad.size:
            raise ValueError(f"{name} row {bad[0]} holds NaN or infinity: {_show(array[bad[0]])}")
    return array


def _show(row: NDArray[Any]) -> str:
    return np.array2string(row, precision=6, threshold=8)


def _refuse_negative(array: NDArray[Any], name: str) -> None:
    bad = np.flatnonzero((array < 0).any(1))
    if bad.size:
        raise ValueError(
            f"{name} row {bad[0]} holds a negative count, {array[bad[0]].min()}: "
            f"{_show(array[bad[0]])}"
        )


def checked_votes(votes: Any, *, name: str = "votes") -> NDArray[np.integer[Any]]:
    """Return votes as whole numbers [N, K], or say which row cannot be votes of one ensemble.

    Args:
        votes: Counts [N, K], NumPy, torch or nested sequences; floats are fine if they are whole.
        name: What to call them in messages.

    Returns:
        The counts, of the integer type that they came in (int64 if they came as floats).

    Raises:
        ValueError: Wrong shape, no query, fewer than two classes, NaN, a negative or fractional
            count, a row without votes, or rows with different sums.
    """
    array = _matrix(votes, name)
    _refuse_negative(array, name)
    if not np.issubdtype(array.dtype, np.integer):
        bad = np.flatnonzero((array != np.floor(array)).any(1))
        if bad.size:
            raise ValueError(
                f"{name} row {bad[0]} holds a fractional count: {_show(array[bad[0]])}; every "
                "teacher casts one whole vote (only step one of Interactive-GNMax sees fractions)"
            )
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
    """Return the counts that a threshold is compared with [N, K]: votes, or votes less a guess.

    Whole numbers of an integer type must be votes (`checked_votes`); floats are what is left when
    Interactive-GNMax subtracts the student's guess, and may be fractional and negative.

    Raises:
        ValueError: Wrong shape, no query, fewer than two classes, NaN, or integers that are no
            votes.
    """
    array = _matrix(counts, name)
    return checked_votes(array, name=name) if np.issubdtype(array.dtype, np.integer) else array

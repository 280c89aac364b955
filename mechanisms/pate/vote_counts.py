"""From who voted for what to how many voted for what.

A vote is one byte: the number of a class. A teacher can't vote twice for a query, or not at all,
because there is no way to write that down; the accounting rests on it.

>>> count_votes(np.array([[0, 2], [0, 1], [1, 2]], dtype=np.uint8), num_classes=3)
array([[2, 1, 0],
       [0, 1, 2]], dtype=int16)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._arrays import as_numpy

# Votes that are counted at once; their counters then fit into a processor's cache.
_CHUNK = 2**18


def count_votes(votes: Any, *, num_classes: int) -> NDArray[np.integer[Any]]:
    """Count the teachers' votes for each query.

    Args:
        votes: Classes [T, Q] of an integer type: teacher t's vote for query q.
        num_classes: K.

    Returns:
        Counts [Q, K], int16 for up to 32,767 teachers and int32 above.

    Raises:
        ValueError: Votes of another shape or type, none at all, or outside 0..K-1.
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

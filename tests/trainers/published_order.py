"""The splits that PATE-FM was published with, number for number: to compare, not to protect.

Malek et al. 2021 shuffle with Python's generator and seeds that everyone knows. The vault draws its
own partition; these two exist so that published figures can be repeated on the same split.

>>> [len(shard) for shard in published_shards(examples=100, teachers=3)]
[33, 33, 33]
"""

import random

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate


def published_shards(*, examples: int, teachers: int, seed: int = 1337) -> list[NDArray[np.int64]]:
    """Return each teacher's examples: consecutive pieces of a shuffled list, the rest unused.

    Args:
        examples: N.
        teachers: T, at most N.
        seed: As published.

    Raises:
        ValueError: More teachers than examples.
    """
    _validate.whole(minimum=1, teachers=teachers)
    _validate.whole(examples=examples, seed=seed)
    if teachers > examples:
        raise ValueError(f"teachers is {teachers}; {examples} examples can't feed more than that")
    order, size = _shuffled(examples, seed), examples // teachers
    return [order[start : start + size] for start in range(0, size * teachers, size)]


def published_queries(*, examples: int, count: int, seed: int = 1437) -> NDArray[np.int64]:
    """Return the examples that the student may ask about, in the order of asking [count].

    Args:
        examples: N.
        count: At most N; 10,000 as published.
        seed: As published.

    Raises:
        ValueError: More queries than examples.
    """
    _validate.whole(examples=examples, count=count, seed=seed)
    if count > examples:
        raise ValueError(f"count is {count}; there are {examples} examples to ask about")
    return _shuffled(examples, seed)[:count]


def _shuffled(count: int, seed: int) -> NDArray[np.int64]:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return np.array(order, dtype=np.int64)

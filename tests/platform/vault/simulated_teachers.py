"""Teachers for tests of the pool: quick and deterministic."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard

QUERIES, CLASSES = 20, 5


def expected_votes(teachers: int) -> NDArray[np.uint8]:
    """Votes of an undisturbed run [T, Q]."""
    return np.stack([_votes_of(teacher) for teacher in range(teachers)])


def shards_of(teachers: int) -> list[Shard]:
    """A shard of one label for each teacher: its own number, of the five classes."""
    return [
        Shard(indices=np.array([teacher], dtype=np.intp), labels=np.array([teacher % CLASSES]))
        for teacher in range(teachers)
    ]


def simulated(teachers: Sequence[int], shards: Sequence[Shard], data: Any) -> NDArray[np.uint8]:
    """Vote at once."""
    assert data == "public data"
    assert [shard.labels[0] for shard in shards] == [t % CLASSES for t in teachers]
    return np.stack([_votes_of(teacher) for teacher in teachers])


class Unloadable:
    """Can't be taken out of its pickle: an actor that is given it dies as it starts."""

    def __reduce__(self) -> Any:
        """Do the damage."""
        return _refuse, ()

    __call__ = staticmethod(simulated)


def _refuse() -> None:
    raise ImportError("no module named 'wand'")


def _votes_of(teacher: int) -> NDArray[np.uint8]:
    return np.random.default_rng(teacher).integers(CLASSES, size=QUERIES).astype(np.uint8)

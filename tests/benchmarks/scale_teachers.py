"""Teachers that vote at once or after a nap: what is left of an ensemble's time is the pool's own.

A module of its own because every actor of the pool imports it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard

CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class NappingTeachers:
    """Votes that depend on the teacher's number alone.

    Attributes:
        queries: Q, as many as a real ensemble answers, since votes travel.
        seconds: How long a batch takes.
        naps: How long teachers nap on top of it, by number: the stragglers.
    """

    queries: int
    seconds: float = 0.0
    naps: tuple[tuple[int, float], ...] = ()

    def __call__(
        self, teachers: Sequence[int], shards: Sequence[Shard], data: Any
    ) -> NDArray[np.uint8]:
        """Return votes [n, Q] of a batch."""
        nap = self.seconds + sum(seconds for teacher, seconds in self.naps if teacher in teachers)
        if nap:
            time.sleep(nap)
        return np.stack([self.votes_of(teacher) for teacher in teachers])

    def votes_of(self, teacher: int) -> NDArray[np.uint8]:
        """Return the votes [Q] of one teacher."""
        return np.random.default_rng(teacher).integers(CLASSES, size=self.queries, dtype=np.uint8)


def one_label_each(teachers: int) -> list[Shard]:
    """Return a shard of one label for each teacher."""
    return [
        Shard(indices=np.array([teacher], dtype=np.intp), labels=np.array([teacher % CLASSES]))
        for teacher in range(teachers)
    ]

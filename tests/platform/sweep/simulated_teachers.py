"""Teachers for tests of the pool: quick, deterministic, and on demand failing or deadly."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Votes at once, but for some teachers.

    Attributes:
        fails: Raises an error whenever this teacher is in the batch.
        dies: Ends its own process, as an out-of-memory killer would.
        times: How often it does so, counted by files in `notes`; None for always.
        notes: A folder.
        seconds: How long a batch takes.
    """

    fails: int | None = None
    dies: int | None = None
    times: int | None = None
    notes: Path | None = None
    seconds: float = 0.0

    def __call__(
        self, teachers: Sequence[int], shards: Sequence[Shard], data: Any
    ) -> NDArray[np.uint8]:
        """Vote."""
        assert data == "public data"
        assert [shard.labels[0] for shard in shards] == [t % CLASSES for t in teachers]
        if self.seconds:
            time.sleep(self.seconds)
        if self.notes is not None:
            name = f"{'-'.join(map(str, teachers))}.{time.monotonic_ns()}"
            (self.notes / name).touch()
        if self.fails in teachers and self._again(teachers):
            raise RuntimeError("the features of this teacher are bewitched")
        if self.dies in teachers and self._again(teachers):
            os.kill(os.getpid(), signal.SIGKILL)
        return np.stack([_votes_of(teacher) for teacher in teachers])

    def _again(self, teachers: Sequence[int]) -> bool:
        if self.times is None:
            return True
        assert self.notes is not None
        return tries_of(self.notes, teachers) <= self.times


class Unloadable:
    """Can't be taken out of its pickle: an actor that is given it dies as it starts."""

    def __reduce__(self) -> Any:
        """Do the damage."""
        return _refuse, ()

    def __call__(
        self, teachers: Sequence[int], shards: Sequence[Shard], data: Any
    ) -> NDArray[np.uint8]:
        """Never called."""
        raise AssertionError


def tries_of(notes: Path, teachers: Sequence[int]) -> int:
    """How often a batch was begun."""
    return len(list(notes.glob(f"{'-'.join(map(str, teachers))}.*")))


def _refuse() -> None:
    raise ImportError("no module named 'wand'")


def _votes_of(teacher: int) -> NDArray[np.uint8]:
    return np.random.default_rng(teacher).integers(CLASSES, size=QUERIES).astype(np.uint8)

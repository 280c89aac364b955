"""Teachers in parallel: a bounded pool of persistent actors that pull batches of teachers.

Never one actor per teacher. Features go to the actors once, by reference; each finished batch's
votes are journalled at once, so that a killed actor costs the batch it was training, and a killed
driver nothing that was finished.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard
from labeldp.platform.sweep import Resources
from labeldp.platform.vote_store import VoteJournal

#: A batch that has failed so often is given up; the others go on.
TRIES = 3
#: Work sent ahead to each actor, so that it does not wait for the driver between batches.
_AHEAD = 2
#: How long all actors may stay silent at first: starting one imports torch on a busy machine.
_START_SECONDS = 600


class EnsembleIncomplete(RuntimeError):
    """Some teachers could not be trained; the message names them and the error."""


class VoteFunction(Protocol):
    """Trains teachers and lets them vote; runs on an actor.

    Called with the ids of a batch, their shards and the data; returns votes uint8 [n, Q]. The same
    batch gives the same votes, wherever and however often it runs.
    """

    def __call__(
        self, teachers: Sequence[int], shards: Sequence[Shard], data: Any
    ) -> NDArray[np.uint8]:
        """Return the votes of a batch."""


@dataclass(frozen=True, kw_only=True)
class PoolProgress:
    """Where an ensemble's training stands.

    Attributes:
        done: Teachers with votes.
        total: T.
        per_hour: Teachers trained per hour in this run.
        seconds_left: At that pace.
    """

    done: int
    total: int
    per_hour: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class PoolOutcome:
    """What a run of the pool did.

    Attributes:
        trained: Teachers trained now.
        reused: Teachers whose votes were there.
        seconds: Wall time.
    """

    trained: int
    reused: int
    seconds: float


class _Worker:
    """One member of the pool: keeps the data and trains whatever it is sent."""

    def __init__(self, vote: VoteFunction, data: Any, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._vote, self._data = vote, data

    def train(self, teachers: Sequence[int], shards: Sequence[Shard]) -> NDArray[np.uint8]:
        return self._vote(teachers, shards, self._data)


def batches_of(teachers: int, batch: int) -> list[list[int]]:
    """Cut 0..T-1 into batches; always the same ones, since a batch's votes are computed as one."""
    return [list(range(start, min(start + batch, teachers))) for start in range(0, teachers, batch)]


def train_ensemble(
    *,
    vote: VoteFunction,
    data: Any,
    shards: Sequence[Shard],
    batch: int,
    journal: VoteJournal,
    actors: int,
    each: Resources,
    on_progress: Callable[[PoolProgress], None] = lambda progress: None,
    patience: float | None = None,
) -> PoolOutcome:
    """Train the teachers whose votes are missing, and journal their votes.

    Args:
        vote: Trains a batch and returns its votes.
        data: Reference to what `vote` gets as data; each actor fetches it once.
        shards: Of every teacher [T].
        batch: Teachers trained together.
        journal: Where votes are kept, and looked up.
        actors: Size of the pool.
        each: What an actor occupies.
        on_progress: Told after each batch.
        patience: Longest silence in seconds after the first batch, None for no limit: one batch
            may take hours.

    Raises:
        EnsembleIncomplete: Batches failed again and again; the votes of the others are kept.
        TimeoutError: Nothing came back for too long.
    """
    total = len(shards)
    with journal.writing():
        missing = [ids for ids in batches_of(total, batch) if not journal.finished.issuperset(ids)]
        reused = total - sum(map(len, missing))
        pool = _Pool(vote, data, each, size=min(actors, len(missing)))
        started = time.monotonic()
        queue = deque((ids, 0) for ids in missing)
        given_up: list[tuple[list[int], str]] = []
        trained = 0
        try:
            while queue or pool.busy:
                while queue and (actor := pool.free()) is not None:
                    ids, tries = queue.popleft()
                    pool.send(actor, ids, [shards[teacher] for teacher in ids], tries)
                limit = patience if trained else _START_SECONDS
                for ids, tries, votes, error in pool.finished(limit):
                    if votes is not None:
                        journal.append(ids, votes)
                        trained += len(ids)
                        on_progress(_progress(reused, trained, total, started))
                    elif tries + 1 < TRIES:
                        queue.append((ids, tries + 1))
                    else:
                        given_up.append((ids, error))
        finally:
            pool.close()
    if given_up:
        ids, error = given_up[0]
        raise EnsembleIncomplete(
            f"{sum(len(batch) for batch, _ in given_up)} of {total} teachers could not be trained; "
            f"teacher {ids[0]} failed {TRIES} times, the last time with: {error}. The votes of "
            f"{reused + trained} teachers are kept; mend the cause and run again"
        )
    return PoolOutcome(trained=trained, reused=reused, seconds=time.monotonic() - started)


class _Pool:
    """The actors, and what each of them is working on."""

    def __init__(self, vote: VoteFunction, data: Any, each: Resources, *, size: int) -> None:
        remote: Any = ray.remote(_Worker)
        kind = remote.options(num_cpus=each.cpus, num_gpus=each.gpus, max_restarts=0)
        self._make: Callable[[], Any] = lambda: kind.remote(vote, data, max(1, int(each.cpus)))
        self._actors = [self._make() for _ in range(size)]
        self._load = [0] * size
        self._tasks: dict[Any, tuple[int, list[int], int]] = {}

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def free(self) -> int | None:
        """Return an actor that can take a batch, the least busy one."""
        place = min(range(len(self._load)), key=self._load.__getitem__)
        return place if self._load[place] < _AHEAD else None

    def send(self, place: int, ids: list[int], shards: Sequence[Shard], tries: int) -> None:
        task = self._actors[place].train.remote(ids, shards)
        self._tasks[task] = (place, ids, tries)
        self._load[place] += 1

    def finished(
        self, seconds: float | None
    ) -> list[tuple[list[int], int, NDArray[np.uint8] | None, str]]:
        """Wait for at least one batch: (ids, tries so far, votes or None, error)."""
        ready, _ = ray.wait(list(self._tasks), num_returns=1, timeout=seconds, fetch_local=True)
        if not ready:
            raise TimeoutError(
                f"no teacher finished within {seconds:g} s; the cluster may be too full to start "
                "the pool: look at its free resources, and run again (finished votes are kept)"
            )
        results: list[tuple[list[int], int, NDArray[np.uint8] | None, str]] = []
        for task in ready:
            place, ids, tries = self._tasks.pop(task)
            self._load[place] -= 1
            try:
                results.append((ids, tries, ray.get(task), ""))
            except ray.exceptions.RayActorError as error:
                self._replace(place)
                results.append((ids, tries, None, _first_line(error)))
                results.extend(self._lost(place))
            except ray.exceptions.RayTaskError as error:
                results.append((ids, tries, None, _first_line(error.cause or error)))
        return results

    def _lost(self, place: int) -> list[tuple[list[int], int, None, str]]:
        """Batches that waited at a dead actor: none of their own tries is used up."""
        waiting = [task for task, (where, _, _) in self._tasks.items() if where == place]
        self._load[place] = 0
        return [
            (ids, tries - 1, None, "its actor died")
            for _, ids, tries in (self._tasks.pop(task) for task in waiting)
        ]

    def _replace(self, place: int) -> None:
        self._actors[place] = self._make()

    def close(self) -> None:
        """End the actors; what they were doing is lost."""
        for actor in self._actors:
            ray.kill(actor)


def _progress(reused: int, trained: int, total: int, started: float) -> PoolProgress:
    seconds = max(time.monotonic() - started, 1e-9)
    left = total - reused - trained
    return PoolProgress(
        done=reused + trained,
        total=total,
        per_hour=3600 * trained / seconds,
        seconds_left=seconds / trained * left,
    )


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"

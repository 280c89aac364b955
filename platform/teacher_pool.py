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
from labeldp.platform.cluster import CannotFit
from labeldp.platform.sweep import Resources
from labeldp.platform.vote_store import VoteJournal

#: A batch that has failed so often is given up; the others go on.
TRIES = 3
#: Work sent ahead to each actor, so that it does not wait for the driver between batches.
_AHEAD = 2
#: How long it may take until the first actor runs: starting one imports torch on a busy machine.
START_SECONDS = 600


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

    def ready(self) -> None:
        pass

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

    Raises:
        EnsembleIncomplete: Batches failed again and again; the votes of the others are kept.
        CannotFit: No actor could start.
        VoteStoreUnusable: Votes can't be kept.
    """
    total = len(shards)
    with journal.writing():
        missing = [ids for ids in batches_of(total, batch) if not journal.finished.issuperset(ids)]
        reused = total - sum(map(len, missing))
        started = time.monotonic()
        if not missing:
            return PoolOutcome(trained=0, reused=reused, seconds=0.0)
        pool = _Pool(vote, data, each, size=min(actors, len(missing)))
        queue = deque((ids, 0) for ids in missing)
        given_up: list[tuple[list[int], str]] = []
        trained = 0
        try:
            while queue or pool.busy:
                while queue and (actor := pool.free()) is not None:
                    ids, tries = queue.popleft()
                    pool.send(actor, ids, [shards[teacher] for teacher in ids], tries)
                for ids, tries, votes, error in pool.finished():
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


#: A batch that came back: its teachers, tries before this one, votes (None if it failed), error.
_Returned = tuple[list[int], int, NDArray[np.uint8] | None, str]


class _Pool:
    """The actors, and what each of them is working on.

    Work goes to actors that have started only: on a cluster that is too full for all of them, the
    others wait for room and hold no batch back.
    """

    def __init__(self, vote: VoteFunction, data: Any, each: Resources, *, size: int) -> None:
        remote: Any = ray.remote(_Worker)
        kind = remote.options(num_cpus=each.cpus, num_gpus=each.gpus, max_restarts=0)
        self._make: Callable[[], Any] = lambda: kind.remote(vote, data, max(1, int(each.cpus)))
        self._each = each
        self._actors: dict[int, Any] = {}
        self._load: dict[int, int] = {}  # of actors that have started
        self._starting: dict[Any, int] = {}
        self._failed_starts = dict.fromkeys(range(size), 0)
        self._tasks: dict[Any, tuple[int, list[int], int]] = {}
        for place in range(size):
            self._start(place)

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def free(self) -> int | None:
        """Return an actor that can take a batch, the least busy one."""
        place = min(self._load, key=self._load.__getitem__, default=None)
        return place if place is not None and self._load[place] < _AHEAD else None

    def send(self, place: int, ids: list[int], shards: Sequence[Shard], tries: int) -> None:
        task = self._actors[place].train.remote(ids, shards)
        self._tasks[task] = (place, ids, tries)
        self._load[place] += 1

    def finished(self) -> list[_Returned]:
        """Wait until a batch comes back or an actor has started.

        Raises:
            CannotFit: No actor starts.
            EnsembleIncomplete: Actors die as they start, again and again.
        """
        # Silence of an actor at work is no news: one batch may take hours.
        limit = None if self._tasks else START_SECONDS
        waiting = [*self._tasks, *self._starting]
        ready, _ = ray.wait(waiting, num_returns=1, timeout=limit)
        if not ready:
            raise CannotFit(
                f"no teacher actor ({self._each.cpus:g} CPU + {self._each.gpus:g} GPU) started "
                f"within {START_SECONDS:g} s: the cluster is too full; free what it needs, or run "
                "again later (votes that are there are kept)"
            )
        if ready[0] in self._starting:
            self._started(ready[0])
            return []
        return self._returned(ready[0])

    def close(self) -> None:
        """End the actors; what they were doing is lost."""
        for actor in self._actors.values():
            ray.kill(actor)

    def _start(self, place: int) -> None:
        self._load.pop(place, None)
        if place in self._actors:
            ray.kill(self._actors[place])  # one that cannot be reached may still hold its cores
        self._actors[place] = self._make()
        self._starting[self._actors[place].ready.remote()] = place

    def _started(self, ping: Any) -> None:
        place = self._starting.pop(ping)
        try:
            ray.get(ping)
        except ray.exceptions.RayError as error:
            self._failed_starts[place] += 1
            if self._failed_starts[place] == TRIES:
                raise EnsembleIncomplete(
                    f"a teacher actor died {TRIES} times as it started, the last time with: "
                    f"{_first_line(error)}. Votes that were there are kept"
                ) from error
            self._start(place)
        else:
            self._load[place] = self._failed_starts[place] = 0

    def _returned(self, task: Any) -> list[_Returned]:
        place, ids, tries = self._tasks.pop(task)
        try:
            votes = ray.get(task)
        except ray.exceptions.RayTaskError as error:
            self._load[place] -= 1
            return [(ids, tries, None, _first_line(error.cause or error))]
        except ray.exceptions.RayError as error:
            # The batch that was sent first was at work. Those that waited behind it are not to
            # blame: the try that is counted when they go back is taken off beforehand.
            waiting = [other for other, (where, _, _) in self._tasks.items() if where == place]
            innocent = [self._tasks.pop(other) for other in waiting]
            self._start(place)
            return [
                (ids, tries, None, _first_line(error)),
                *((others, before - 1, None, "") for _, others, before in innocent),
            ]
        self._load[place] -= 1
        return [(ids, tries, votes, "")]


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

"""Teachers in parallel: a bounded pool of persistent actors that pull batches of teachers.

Never one actor per teacher. Features go to the actors once, by reference; each finished batch's
votes are journalled at once, so that a killed actor costs the batch it was training, and a killed
driver nothing that was finished.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard
from labeldp.platform.endings import CannotFit, Unfinished
from labeldp.platform.sweep import Resources
from labeldp.platform.trusted.teacher_actor import TeacherActor, VoteFunction
from labeldp.platform.trusted.vote_store import VoteJournal

#: A batch that has failed so often is given up; the others go on.
TRIES = 3
#: Work sent ahead to each actor, so that it does not wait for the driver between batches.
_AHEAD = 2
#: How long it may take until the first actor runs: starting one imports torch on a busy machine.
START_SECONDS = 600


class EnsembleIncomplete(Unfinished):
    """Some teachers could not be trained; the message names them and the error."""


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


def batches_of(teachers: int, batch: int) -> list[list[int]]:
    """Cut 0..T-1 into batches; always the same ones, since a batch's votes are computed as one."""
    return [list(range(start, min(start + batch, teachers))) for start in range(0, teachers, batch)]


@dataclass(frozen=True, kw_only=True)
class TeacherWork:
    """The teachers of an ensemble, and how they come to their votes.

    Attributes:
        vote: Trains a batch and returns its votes.
        data: Reference to what `vote` gets as data; each actor fetches it once.
        shards: Of every teacher [T].
        batch: Teachers trained together.
    """

    vote: VoteFunction
    data: Any
    shards: Sequence[Shard] = field(repr=False)
    batch: int


@dataclass(frozen=True, kw_only=True)
class PoolSize:
    """How many actors work at once, and what each of them occupies."""

    actors: int
    each: Resources


def train_ensemble(
    work: TeacherWork,
    *,
    journal: VoteJournal,
    pool: PoolSize,
    on_progress: Callable[[PoolProgress], None] = lambda progress: None,
) -> PoolOutcome:
    """Train the teachers whose votes are missing, and journal their votes.

    Args:
        work: All teachers.
        journal: Where votes are kept, and looked up.
        pool: Who trains them.
        on_progress: Told after each batch.

    Raises:
        EnsembleIncomplete: Batches failed again and again; the votes of the others are kept.
        CannotFit: No actor could start.
        VoteStoreUnusable: Votes can't be kept.
    """
    total = len(work.shards)
    with journal.writing():
        batches = batches_of(total, work.batch)
        missing = [ids for ids in batches if not journal.finished.issuperset(ids)]
        reused = total - sum(map(len, missing))
        started = time.monotonic()
        if not missing:
            return PoolOutcome(trained=0, reused=reused, seconds=0.0)
        given_up: list[_Batch] = []
        trained = 0
        with closing(_tried(missing, work, pool)) as ended:
            for batch, votes in ended:
                if votes is None:
                    given_up.append(batch)
                    continue
                journal.append(batch.ids, votes)
                trained += len(batch.ids)
                on_progress(_progress(reused, trained, total, started))
    if given_up:
        first = given_up[0]
        raise EnsembleIncomplete(
            f"{sum(len(batch.ids) for batch in given_up)} of {total} teachers could not be "
            f"trained; teacher {first.ids[0]} failed {TRIES} times, the last time with: "
            f"{first.error}. The votes of {reused + trained} teachers are kept; mend the cause and "
            "run again"
        )
    return PoolOutcome(trained=trained, reused=reused, seconds=time.monotonic() - started)


def _tried(
    missing: Sequence[list[int]], work: TeacherWork, size: PoolSize
) -> "Generator[tuple[_Batch, NDArray[np.uint8] | None], None, None]":
    """Train batches on a pool; yields each with its votes, or without when it is given up."""
    pool = _Pool(work.vote, work.data, size.each, size=min(size.actors, len(missing)))
    queue = deque(_Batch(ids=ids) for ids in missing)
    try:
        while queue or pool.busy:
            while queue and (place := pool.free(queue[0])) is not None:
                batch = queue.popleft()
                pool.send(place, batch, [work.shards[teacher] for teacher in batch.ids])
            for batch, votes in pool.finished():
                if votes is None and batch.tries < TRIES:
                    queue.append(batch)
                else:
                    yield batch, votes
    finally:
        pool.close()


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """Teachers that are trained together.

    Attributes:
        ids: Their numbers.
        tries: How often it has failed.
        alone: Whether it must be the only one at its actor. Which of several was at work when an
            actor died can't be told; from then on each of them is tried by itself.
        error: Of the last try.
    """

    ids: list[int]
    tries: int = 0
    alone: bool = False
    error: str = ""

    @property
    def load(self) -> int:
        """How much of what an actor holds it takes."""
        return _AHEAD if self.alone else 1


class _Pool:
    """The actors, and what each of them is working on.

    Work goes to actors that have started only: on a cluster that is too full for all of them, the
    others wait for room and hold no batch back.
    """

    def __init__(self, vote: VoteFunction, data: Any, each: Resources, *, size: int) -> None:
        remote: Any = ray.remote(TeacherActor)
        kind = remote.options(num_cpus=each.cpus, num_gpus=each.gpus, max_restarts=0)
        self._make: Callable[[], Any] = lambda: kind.remote(vote, data, max(1, int(each.cpus)))
        self._each = each
        self._actors: dict[int, Any] = {}
        self._load: dict[int, int] = {}  # of actors that have started
        self._starting: dict[Any, int] = {}
        self._failed_starts = dict.fromkeys(range(size), 0)
        self._tasks: dict[Any, tuple[int, _Batch]] = {}
        for place in range(size):
            self._start(place)

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def free(self, batch: _Batch) -> int | None:
        """Return an actor that can take a batch, the least busy one."""
        place = min(self._load, key=self._load.__getitem__, default=None)
        fits = place is not None and self._load[place] + batch.load <= _AHEAD
        return place if fits else None

    def send(self, place: int, batch: _Batch, shards: Sequence[Shard]) -> None:
        task = self._actors[place].train.remote(batch.ids, shards)
        self._tasks[task] = (place, batch)
        self._load[place] += batch.load

    def finished(self) -> list[tuple[_Batch, NDArray[np.uint8] | None]]:
        """Wait until a batch comes back, with votes or without, or until an actor has started.

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

    def _returned(self, task: Any) -> list[tuple[_Batch, NDArray[np.uint8] | None]]:
        place, batch = self._tasks.pop(task)
        try:
            votes = ray.get(task)
        except ray.exceptions.RayTaskError as error:
            self._load[place] -= batch.load
            text = _first_line(error.cause or error)
            return [(replace(batch, tries=batch.tries + 1, error=text), None)]
        except ray.exceptions.RayError as error:
            others = [other for other, (where, _) in self._tasks.items() if where == place]
            lost = [batch, *(self._tasks.pop(other)[1] for other in others)]
            self._start(place)
            if others:
                return [(replace(each, alone=True), None) for each in lost]
            failed = replace(batch, tries=batch.tries + 1, alone=True, error=_first_line(error))
            return [(failed, None)]
        self._load[place] -= batch.load
        return [(batch, votes)]


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

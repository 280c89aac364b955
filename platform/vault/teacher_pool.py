"""Teachers in parallel: a bounded pool of persistent actors that pull batches of teachers.

There is never one actor per teacher. Features go to the actors once, by reference. The votes of
each finished batch are journaled at once, so a killed actor costs the batch that it was training,
and a killed driver costs nothing that was finished.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard
from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.sweep.cluster import Capacity, known_nodes
from labeldp.platform.sweep.sweep import (
    CannotFit,
    PlannedTrial,
    Resources,
    Unfinished,
    ensembles_of,
)
from labeldp.platform.vault.label_home import LabelHome
from labeldp.platform.vault.teacher_actor import TeacherActor, VoteFunction
from labeldp.platform.vault.vote_store import VoteJournal
from labeldp.trainers.methods.teachers import TeacherVotes

#: Actors that are requested where an autoscaler adds machines, up to its own cap. Those beyond the
#: cap wait and end with the last batch; a driver could not keep more than these at work.
GROWN_ACTORS = 1_000
#: A batch that has failed this often is given up; the others go on.
TRIES = 3
#: A batch that has lost this many machines is given up too. Spot machines are taken away, which
#: says nothing about the batch; a batch that ends every machine must end some day itself.
MACHINES = 10
#: Batches at an actor whose batches are short, so that it does not wait for the driver in between.
_AHEAD = 2
#: Longer batches are not sent ahead: that gains nothing, and one that waits behind a straggler, or
#: dies with the batch before it, loses much.
AHEAD_SECONDS = 1.0
#: Until the first actor runs: starting one imports torch on a busy machine.
START_SECONDS = 600
#: Progress is printed at most this often.
_TELL_SECONDS = 10.0

#: A batch with its votes [n, Q], or without any where it failed.
_Result = tuple["Batch", NDArray[np.uint8] | None]


class EnsembleIncomplete(Unfinished):
    """Some teachers could not be trained; the message names them and the error."""


@dataclass(frozen=True, kw_only=True)
class TeacherWork:
    """The teachers of an ensemble."""

    vote: VoteFunction  # trains a batch and returns its votes
    data: Any  # reference to what `vote` gets as data; each actor fetches it once
    shards: Sequence[Shard] = field(repr=False)  # of every teacher [T]
    batch: int  # teachers trained together


@dataclass(frozen=True, kw_only=True)
class PoolOutcome:
    """How many teachers were trained, how many had voted before, and the wall time."""

    trained: int = 0
    reused: int = 0
    seconds: float = 0.0


def train_missing(
    trials: Sequence[PlannedTrial],
    *,
    home: LabelHome,
    authority: bytes,
    data: Any,
    each: Resources,
    available: Capacity,
    progress: SweepProgress,
) -> PoolOutcome:
    """Train what is missing of every ensemble of the trials that are going to run.

    The home requires the driver's token, `authority`, for shards. `data` refers to the public data,
    and `each` are the resources of one actor, which the driver has found to fit.

    Raises:
        CannotFit: The cluster is too full to start one actor.
        EnsembleIncomplete: Teachers that failed again and again.
    """
    trained, reused, seconds = 0, 0, 0.0
    for ensemble, performance in ensembles_of(trials).items():
        outcome = train_ensemble(
            TeacherWork(
                vote=TeacherVotes(config=ensemble, performance=performance),
                data=data,
                shards=home.shards(authority, ensemble),
                batch=ensemble.batch,
            ),
            journal=home.ensemble_file(ensemble).journal(),
            actors=pool_size(each, available),
            each=each,
            say=progress.say,
        )
        progress.say(
            f"ensemble of {ensemble.teachers} {ensemble.kind} teachers: {outcome.trained} trained "
            f"in {outcome.seconds:.1f} s, {outcome.reused} reused"
        )
        trained += outcome.trained
        reused += outcome.reused
        seconds += outcome.seconds
    return PoolOutcome(trained=trained, reused=reused, seconds=seconds)


def pool_size(each: Resources, available: Capacity) -> int:
    """Return how many actors the nodes hold at once, or may hold when the cluster has grown.

    An autoscaler adds machines for actors that wait for room, as many as its own cap allows; one
    that begins without any would stay at a single machine if a single actor waited.
    """
    if available.grows:
        return GROWN_ACTORS
    held = 0
    for cpus, gpus in available.largest:
        shares = [has / needed for has, needed in ((cpus, each.cpus), (gpus, each.gpus)) if needed]
        held += int(min(shares, default=cpus) + 1e-9)
    return max(1, held)


def batches_of(teachers: int, batch: int) -> list[list[int]]:
    """Cut 0..T-1 into batches; always the same ones, since a batch's votes are computed as one."""
    return [list(range(start, min(start + batch, teachers))) for start in range(0, teachers, batch)]


def train_ensemble(
    work: TeacherWork,
    *,
    journal: VoteJournal,
    actors: int,
    each: Resources,
    say: Callable[[str], None] = lambda line: None,
) -> PoolOutcome:
    """Train the teachers whose votes are missing from the journal, and journal their votes.

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
        if not missing:
            return PoolOutcome(reused=reused)
        started = told = monotonic()
        given_up: list[Batch] = []
        trained = 0
        pool = _Pool(work, each, size=min(actors, len(missing)))
        with closing(_tried(missing, pool)) as ended:
            for batch, votes in ended:
                if votes is None:
                    given_up.append(batch)
                    continue
                journal.append(batch.ids, votes)
                trained += len(batch.ids)
                now = monotonic()
                if now - told >= _TELL_SECONDS and now > started:
                    told, pace = now, trained / (now - started)
                    left = total - reused - trained
                    say(
                        f"teachers: {total - left}/{total}, {3600 * pace:,.0f} per hour, "
                        f"about {left / pace:.0f} s left"
                    )
    if given_up:
        first = given_up[0]
        raise EnsembleIncomplete(
            f"{sum(len(batch.ids) for batch in given_up)} of {total} teachers could not be "
            f"trained; teacher {first.ids[0]} failed {first.tries + first.machines} times, the "
            f"last time with: {first.error}. The votes of {reused + trained} teachers are kept; "
            "mend the cause and run again"
        )
    return PoolOutcome(trained=trained, reused=reused, seconds=monotonic() - started)


def _tried(missing: Sequence[list[int]], pool: "_Pool") -> Generator[_Result, None, None]:
    """Train batches on a pool; yields each with its votes, or without when it is given up."""
    queue = deque(Batch(ids=ids) for ids in missing)
    try:
        while queue or pool.busy:
            while queue and (place := pool.free(queue[0])) is not None:
                pool.send(place, queue.popleft())
            if not queue:
                pool.let_go()
            for batch, votes in pool.finished():
                if votes is None and not batch.hopeless:
                    queue.append(batch)
                else:
                    yield batch, votes
    finally:
        pool.close()


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Teachers that are trained together.

    Attributes:
        machines: How many went away under it.
        alone: Whether it must be the only one at its actor. When an actor dies with several, the
            one at work is unknown; from then on each of them is tried by itself.
    """

    ids: list[int]
    tries: int = 0
    machines: int = 0
    alone: bool = False
    error: str = ""

    @property
    def load(self) -> int:
        """How much of what an actor holds it takes."""
        return _AHEAD if self.alone else 1

    @property
    def hopeless(self) -> bool:
        """Whether it is given up."""
        return self.tries >= TRIES or self.machines >= MACHINES


@dataclass(kw_only=True)
class _Member:
    """An actor: `load` is None until it has started, `since` is when its batch began."""

    actor: Any
    failed_starts: int = 0
    load: int | None = None
    node: str = ""
    since: float = 0.0


class _Pool:
    """The actors, and the batches at each of them.

    Work goes to actors that have started only: on a cluster that is too full for all of them, or
    that grows while they wait, the others hold no batch back.
    """

    def __init__(self, work: TeacherWork, each: Resources, *, size: int) -> None:
        remote: Any = ray.remote(TeacherActor)
        kind = remote.options(num_cpus=each.cpus, num_gpus=each.gpus, max_restarts=0)
        threads = max(1, int(each.cpus))
        self._make: Callable[[], Any] = lambda: kind.remote(work.vote, work.data, threads)
        self._shards, self._each = work.shards, each
        self._members: dict[int, _Member] = {}
        self._starting: dict[Any, int] = {}
        self._tasks: dict[Any, tuple[int, Batch]] = {}
        self._short = False
        for place in range(size):
            self._start(place)

    @property
    def busy(self) -> bool:
        """Whether any batch is at an actor."""
        return bool(self._tasks)

    def free(self, batch: Batch) -> int | None:
        """Return the least busy actor if it can take a batch."""
        loads = {p: each.load for p, each in self._members.items() if each.load is not None}
        place = min(loads, key=loads.__getitem__, default=None)
        if place is None:
            return None
        fits = not loads[place] or (self._short and loads[place] + batch.load <= _AHEAD)
        return place if fits else None

    def send(self, place: int, batch: Batch) -> None:
        """Send a batch to an actor that is free for it."""
        member = self._members[place]
        assert member.load is not None, "work for an actor that has not started"
        shards = [self._shards[teacher] for teacher in batch.ids]
        self._tasks[member.actor.train.remote(batch.ids, shards)] = (place, batch)
        if not member.load:
            member.since = monotonic()
        member.load += batch.load

    def let_go(self) -> None:
        """End the actors that have nothing to do, and those that wait for room: no work is left.

        Others can use what they occupied, and an autoscaler's idle machine goes away. A batch that
        fails from here on has the actor that it was at, or a new one.
        """
        self._starting.clear()
        for place, member in list(self._members.items()):
            if not member.load:
                ray.kill(self._members.pop(place).actor)

    def finished(self) -> list[_Result]:
        """Wait until a batch comes back, with votes or without, or until an actor has started.

        All that have come back meanwhile are returned with it: with a thousand actors, one question
        for each would be a thousand questions about all.
        """
        # An actor at work may be silent: one batch may take hours.
        limit = None if self._tasks else START_SECONDS
        waiting = [*self._tasks, *self._starting]
        ready, _ = ray.wait(waiting, num_returns=1, timeout=limit)
        if not ready:
            raise CannotFit(
                f"no teacher actor ({self._each.cpus:g} CPU + {self._each.gpus:g} GPU) started "
                f"within {START_SECONDS:g} s: the cluster is too full; free what it needs, or run "
                "again later (votes that are there are kept)"
            )
        if len(waiting) > 1:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        ended: list[_Result] = []
        for each in ready:
            if each in self._starting:
                self._started(each)
            elif each in self._tasks:  # it may have gone with another one of its actor
                ended.extend(self._returned(each))
        return ended

    def close(self) -> None:
        """End the actors; what they were doing is lost."""
        for member in self._members.values():
            ray.kill(member.actor)

    def _start(self, place: int, *, failed: int = 0) -> None:
        if place in self._members:
            # One that does not respond may still hold its cores.
            ray.kill(self._members[place].actor)
        self._members[place] = _Member(actor=self._make(), failed_starts=failed)
        self._starting[self._members[place].actor.ready.remote()] = place

    def _started(self, ping: Any) -> None:
        place = self._starting.pop(ping)
        member = self._members[place]
        try:
            member.node = ray.get(ping)
        except ray.exceptions.RayError as error:
            failed = member.failed_starts + 1
            if failed == TRIES:
                raise EnsembleIncomplete(
                    f"a teacher actor died {TRIES} times as it started, the last time with: "
                    f"{_first_line(error)}. Votes that were there are kept"
                ) from error
            self._start(place, failed=failed)
        else:
            member.load = member.failed_starts = 0

    def _returned(self, task: Any) -> list[_Result]:
        place, batch = self._tasks.pop(task)
        try:
            votes = ray.get(task)
        except ray.exceptions.RayTaskError as error:
            self._one_less(place, batch)
            text = _first_line(error.cause or error)
            return [(replace(batch, tries=batch.tries + 1, error=text), None)]
        except ray.exceptions.RayError as error:
            return [(each, None) for each in self._lost(place, batch, _first_line(error))]
        self._one_less(place, batch)
        return [(batch, votes)]

    def _one_less(self, place: int, batch: Batch) -> None:
        member, now = self._members[place], monotonic()
        assert member.load is not None
        self._short = now - member.since < AHEAD_SECONDS
        member.since = now
        member.load -= batch.load

    def _lost(self, place: int, batch: Batch, error: str) -> list[Batch]:
        others = [other for other, (where, _) in self._tasks.items() if where == place]
        lost = [batch, *(self._tasks.pop(other)[1] for other in others)]
        node = self._members[place].node
        went = not any(each["Alive"] for each in known_nodes() if each["NodeID"] == node)
        self._start(place)
        if went:
            return [replace(each, machines=each.machines + 1, error=error) for each in lost]
        if others:
            return [replace(each, alone=True) for each in lost]
        return [replace(batch, tries=batch.tries + 1, alone=True, error=error)]


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"

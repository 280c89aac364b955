"""The actors of a pool: which of them can take a batch, what each holds, who died with what.

Work goes to actors that have started only: on a cluster that is too full for all of them, or that
grows while they wait, the others hold no batch back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard
from labeldp.platform.sweep.cluster import known_nodes
from labeldp.platform.sweep.sweep import CannotFit, Resources, Unfinished
from labeldp.platform.vault.teacher_actor import TeacherActor, VoteFunction

#: A batch that has failed so often is given up; the others go on.
TRIES = 3
#: So is one that has lost so many machines under it. Spot machines are taken away, and that says
#: nothing of the batch; one that ends every machine must end some day itself.
MACHINES = 10
#: Work at an actor whose batches are short, so that it does not wait for the driver between them.
_AHEAD = 2
#: Batches that take longer are not sent ahead: nothing is won, and one that waits behind a
#: straggler, or dies with the batch before it, loses much.
AHEAD_SECONDS = 1.0
#: How long it may take until the first actor runs: starting one imports torch on a busy machine.
START_SECONDS = 600


class EnsembleIncomplete(Unfinished):
    """Some teachers could not be trained; the message names them and the error."""


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
class Batch:
    """Teachers that are trained together.

    Attributes:
        ids: Their numbers.
        tries: How often it has failed.
        machines: How many went away under it.
        alone: Whether it must be the only one at its actor. Which of several was at work when an
            actor died can't be told; from then on each of them is tried by itself.
        error: Of the last try.
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
    """An actor that is starting or has started.

    Attributes:
        actor: Its handle.
        failed_starts: Of this place, one after the other.
        load: Of batches; None until it has started.
        node: Where it has started.
        since: When it began with the batch that it trains.
    """

    actor: Any
    failed_starts: int = 0
    load: int | None = None
    node: str = ""
    since: float = 0.0


class PoolMembers:
    """The actors, and what each of them is working on."""

    def __init__(self, work: TeacherWork, each: Resources, *, size: int) -> None:
        """Start `size` actors, each of which occupies `each`."""
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
        """Return an actor that can take a batch, the least busy one."""
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

        What they occupy is others', and an autoscaler's machine that stands idle goes away. A batch
        that fails from here on has the actor that it was at, or a new one.
        """
        self._starting.clear()
        for place, member in list(self._members.items()):
            if not member.load:
                ray.kill(self._members.pop(place).actor)

    def finished(self) -> list[tuple[Batch, NDArray[np.uint8] | None]]:
        """Wait until a batch comes back, with votes or without, or until an actor has started.

        All that have come back meanwhile are returned with it: of a thousand actors, asking for
        each by itself would ask a thousand times about all.

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
        if len(waiting) > 1:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        ended: list[tuple[Batch, NDArray[np.uint8] | None]] = []
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
        """Start the actor of a place, instead of the one that was there."""
        if place in self._members:
            # One that can't be reached may still hold its cores.
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

    def _returned(self, task: Any) -> list[tuple[Batch, NDArray[np.uint8] | None]]:
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
        """Take a batch off its actor, and learn how long batches take."""
        member, now = self._members[place], monotonic()
        assert member.load is not None
        self._short = now - member.since < AHEAD_SECONDS
        member.since = now
        member.load -= batch.load

    def _lost(self, place: int, batch: Batch, error: str) -> list[Batch]:
        """Return the batches that an actor held as it died, and start another one in its place."""
        others = [other for other, (where, _) in self._tasks.items() if where == place]
        lost = [batch, *(self._tasks.pop(other)[1] for other in others)]
        went = not _is_alive(self._members[place].node)
        self._start(place)
        if went:
            return [replace(each, machines=each.machines + 1, error=error) for each in lost]
        if others:
            return [replace(each, alone=True) for each in lost]
        return [replace(batch, tries=batch.tries + 1, alone=True, error=error)]


def _is_alive(node: str) -> bool:
    """Whether a machine is still part of the cluster."""
    return any(each["Alive"] for each in known_nodes() if each["NodeID"] == node)


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"

"""Teachers in parallel: a bounded pool of persistent actors that pull batches of teachers.

There is never one actor per teacher. Features go to the actors once, by reference. The votes of
each finished batch are journaled at once, so a killed actor costs the batch that it was training,
and a killed driver costs nothing that was finished.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard
from labeldp.platform.cluster import Capacity, known_nodes
from labeldp.platform.settings.sweep import CannotFit, Resources, Unfinished
from labeldp.platform.vault.teacher_actor import TeacherActor, VoteFunction
from labeldp.platform.vault.vote_store import VoteJournal

#: Actors that are requested where an autoscaler adds machines, up to its own cap. Those beyond the
#: cap wait and end with the last batch; a driver could not keep more than these at work.
GROWN_ACTORS = 1_000
#: A batch that has failed this often is given up; the others go on.
TRIES = 3
#: A batch that has lost this many machines is given up too. Spot machines are taken away, which
#: proves nothing about the batch; a batch that ends every machine must end some day itself.
MACHINES = 10
#: Until the first actor runs: starting one imports torch on a busy machine.
START_SECONDS = 600
#: Progress is printed at most this often.
_TELL_SECONDS = 10.0


class EnsembleIncomplete(Unfinished):
    """Some teachers could not be trained; the message names them and the error."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Teachers that are trained together, and how many `machines` went away under them."""

    ids: list[int]
    tries: int = 0
    machines: int = 0
    error: str = ""


#: A batch with its votes [n, Q], or without any where it failed.
_Result = tuple[Batch, NDArray[np.uint8] | None]


def pool_size(each: Resources, available: Capacity) -> int:
    """Return how many actors the nodes hold at once, or may hold when the cluster has grown.

    An autoscaler adds machines for actors that wait for room, as many as its own cap allows; one
    that begins without any would stay at a single machine if a single actor waited.
    """
    if available.grows:
        return GROWN_ACTORS
    held = 0
    for cpus, gpus in available.nodes:
        shares = [has / needed for has, needed in ((cpus, each.cpus), (gpus, each.gpus)) if needed]
        held += int(min(shares, default=cpus) + 1e-9)
    return max(1, held)


def train_ensemble(
    vote: VoteFunction,
    *,
    data: Any,
    shards: Sequence[Shard],
    batch: int,
    journal: VoteJournal,
    actors: int,
    each: Resources,
    until: float = math.inf,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Train the teachers whose votes are missing from the journal, and journal their votes.

    `vote` trains `batch` teachers at a time, always the same ones, since a batch's votes are
    computed as one. Returns how many were trained. At the time `until`, of the monotonic clock,
    actors end; batches that they had not finished are lost.

    Raises:
        EnsembleIncomplete: Batches failed again and again; the votes of the others are kept.
        CannotFit: No actor could start.
        ValueError: Votes can't be kept.
    """
    total = len(shards)
    with journal.writing():
        batches = [list(range(total))[start : start + batch] for start in range(0, total, batch)]
        finished = journal.finished
        missing = [ids for ids in batches if not finished.issuperset(ids)]
        if not missing:
            return 0
        left = sum(map(len, missing))
        reused, trained = total - left, 0
        started = told = monotonic()
        queue, given_up = deque(Batch(ids=ids) for ids in missing), list[Batch]()
        pool = _Pool(vote, data, shards, each, size=min(actors, len(missing)))
        try:
            while (queue or pool.tasks) and monotonic() < until:
                while queue and (place := pool.idle()) is not None:
                    pool.send(place, queue.popleft())
                if not queue:
                    pool.let_go()
                for done, votes in pool.finished(until):
                    if votes is None:
                        again = done.tries < TRIES and done.machines < MACHINES
                        (queue if again else given_up).append(done)
                        continue
                    journal.append(done.ids, votes)
                    trained += len(done.ids)
                    now = monotonic()
                    if now - told >= _TELL_SECONDS:
                        told, pace = now, trained / (now - started)
                        say(
                            f"teachers: {reused + trained}/{total}, {3600 * pace:,.0f} per hour, "
                            f"about {(left - trained) / pace:.0f} s left"
                        )
        finally:
            pool.close()
    if given_up:
        first = given_up[0]
        raise EnsembleIncomplete(
            f"{left - trained} of {total} teachers could not be trained; teacher {first.ids[0]} "
            f"failed {first.tries + first.machines} times, the last time with: {first.error}. The "
            f"votes of {reused + trained} teachers are kept; fix the cause and run again"
        )
    return trained


@dataclass(kw_only=True)
class _Member:
    """An actor, and whether it has started and has nothing to do."""

    actor: Any
    failed_starts: int = 0
    idle: bool = False
    node: str = ""


class _Pool:
    """The actors, and the batch at each of them.

    Work goes to actors that have started only: on a cluster that is too full for all of them, or
    that grows while they wait, the others hold no batch back.
    """

    def __init__(
        self,
        vote: VoteFunction,
        data: Any,
        shards: Sequence[Shard],
        each: Resources,
        *,
        size: int,
    ) -> None:
        remote: Any = ray.remote(TeacherActor)
        kind = remote.options(num_cpus=each.cpus, num_gpus=each.gpus, max_restarts=0)
        threads = max(1, int(each.cpus))
        self._make: Callable[[], Any] = lambda: kind.remote(vote, data, threads)
        self._shards, self._each = shards, each
        self._members: dict[int, _Member] = {}
        self._starting: dict[Any, int] = {}
        self.tasks: dict[Any, tuple[int, Batch]] = {}
        for place in range(size):
            self._start(place)

    def idle(self) -> int | None:
        """Return an actor that can take a batch."""
        return next((place for place, each in self._members.items() if each.idle), None)

    def send(self, place: int, batch: Batch) -> None:
        """Send a batch to an idle actor."""
        member = self._members[place]
        shards = [self._shards[teacher] for teacher in batch.ids]
        self.tasks[member.actor.train.remote(batch.ids, shards)] = (place, batch)
        member.idle = False

    def let_go(self) -> None:
        """End the actors that have nothing to do, and those that wait for room: no work is left.

        Others can use what they occupied, and an autoscaler's idle machine goes away. A batch that
        fails from here on has the actor that it was at, or a new one.
        """
        self._starting.clear()
        busy = {place for place, _ in self.tasks.values()}
        for place in self._members.keys() - busy:
            ray.kill(self._members.pop(place).actor)

    def finished(self, until: float) -> list[_Result]:
        """Wait until a batch comes back, with votes or without, or until an actor has started.

        Nothing is returned at the time `until`.

        All that have come back meanwhile are returned with it: with a thousand actors, one question
        for each would be a thousand questions about all.
        """
        # An actor at work may be silent: one batch may take hours.
        limit = min(math.inf if self.tasks else START_SECONDS, left := until - monotonic())
        waiting = [*self.tasks, *self._starting]
        seconds = max(0.0, limit) if limit < math.inf else None
        ready, _ = ray.wait(waiting, num_returns=1, timeout=seconds)
        if not ready and limit == left:
            return []
        if not ready:
            raise CannotFit(
                f"no teacher actor ({self._each.cpus:g} CPU + {self._each.gpus:g} GPU) started "
                f"within {START_SECONDS:g} s: the cluster is too full; free resources, or run "
                "again later (finished votes are kept)"
            )
        if len(waiting) > 1:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        for ping in ready:
            if ping in self._starting:
                self._started(ping)
        return [self._returned(task) for task in ready if task in self.tasks]

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
                    f"{_first_line(error)}. Finished votes are kept"
                ) from error
            self._start(place, failed=failed)
        else:
            member.idle, member.failed_starts = True, 0

    def _returned(self, task: Any) -> _Result:
        place, batch = self.tasks.pop(task)
        member = self._members[place]
        try:
            votes = ray.get(task)
        except ray.exceptions.RayTaskError as error:
            member.idle, text = True, _first_line(error.cause or error)
            return replace(batch, tries=batch.tries + 1, error=text), None
        except ray.exceptions.RayError as error:
            alive = {node["NodeID"] for node in known_nodes() if node["Alive"]}
            text = _first_line(error)
            self._start(place)
            if member.node not in alive:
                return replace(batch, machines=batch.machines + 1, error=text), None
            return replace(batch, tries=batch.tries + 1, error=text), None
        member.idle = True
        return batch, votes


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"

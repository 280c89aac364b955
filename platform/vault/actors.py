"""Actors of the room that sees true labels: a sweep's home, and a bounded pool of teachers.

The home is one actor on the driver's node, behind a proxy with a time limit. Teachers are trained
in batches that persistent actors pull: there is never one actor per teacher. Features go to the
actors once, by reference. The votes of each finished batch are journaled at once, so a killed actor
costs the batch that it was training, and a killed driver costs nothing that was finished.
"""

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, cast

import numpy as np
import ray
from numpy.typing import NDArray
from ray import ObjectRef

from labeldp.mechanisms.vault import Shard
from labeldp.platform.cluster import Capacity, beside_driver, capacity, place
from labeldp.platform.settings.sweep import CannotFit, Resources, Unfinished
from labeldp.platform.vault.label_home import LabelHome, SecretLabels
from labeldp.platform.vault.vault_store import VoteJournal
from labeldp.platform.vault.witness import STATE, state_folder
from labeldp.trainers.performance import NO_MEMORY

#: A release of 50,000 labels takes well under a second; this is for machines that are swamped.
TIME_LIMIT_SECONDS = 300
#: How often a home whose process died is made again. It comes back from its store: what was charged
#: stays charged, what was drawn is read and not drawn again, and the request under way is repeated.
#: That is safe, since a release and its charge are kept together or not at all.
DEATHS_ALLOWED = 5
#: Actors that are requested where an autoscaler adds machines, up to its own cap. Those beyond the
#: cap wait and end with the last batch; a driver could not keep more than these at work.
GROWN_ACTORS = 1_000
#: A batch that has failed this often is given up; the others go on.
TRIES = 3
#: A batch under which a process or a machine has died more often is given up too. Spot machines are
#: taken away, which proves nothing about the batch; one that ends every machine must end itself.
DEATHS = 10
#: Until the first actor runs: starting one imports torch on a busy machine.
START_SECONDS = 900
#: Progress is printed at most this often.
_TELL_SECONDS = 10.0

#: (numbers of n teachers, their shards, public data) -> votes [n, Q]. On machines of one kind the
#: same batch gives the same votes, wherever and however often it runs.
VoteFunction = Callable[[Sequence[int], Sequence[Shard], Any], NDArray[np.uint8]]


class TeacherActor:
    """Keeps the public data, and trains the batches that it is sent, one after the other."""

    def __init__(self, vote: VoteFunction, data: object, threads: int) -> None:
        """Take what all batches need; `data` is public, `threads` are torch's, if it is loaded."""
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(threads)
        self._vote = vote
        self._data = data

    def ready(self) -> None:
        """Return once the actor has started."""

    def train(self, teachers: Sequence[int], shards: Sequence[Shard]) -> NDArray[np.uint8]:
        """Return the votes of a batch [n, Q]."""
        return self._vote(teachers, shards, self._data)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Teachers that are trained together, and how often that has failed."""

    ids: list[int]
    tries: int = 0
    error: str = ""


#: A batch with its votes [n, Q], or without any where it failed.
_Result = tuple[Batch, NDArray[np.uint8] | None]


def pool_size(resources: Resources, available: Capacity) -> int:
    """Return how many actors the nodes hold at once, or may hold when the cluster has grown.

    An autoscaler adds machines for actors that wait for room, as many as its own cap allows; one
    that begins without any would stay at a single machine if a single actor waited.
    """
    if available.grows:
        return GROWN_ACTORS
    held = 0
    for cpus, gpus in available.nodes:
        shares = (cpus / resources.cpu, gpus / resources.gpu if resources.gpu else math.inf)
        held += int(min(shares) + 1e-9)
    return max(1, held)


def train_ensemble(
    vote: VoteFunction,
    *,
    data: object,
    shards: Sequence[Shard],
    batch: int,
    journal: VoteJournal,
    actors: int,
    resources: Resources,
    until: float = math.inf,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Train the teachers whose votes the journal lacks, keep these there, and return how many.

    Args:
        vote: Trains teachers and returns their votes.
        data: Public data, for `vote`.
        shards: Labels of each teacher.
        batch: Number of teachers that are trained at a time, always the same ones: their votes are
            computed as one.
        journal: Keeps votes.
        actors: Number of actors to start.
        resources: Resources of an actor.
        until: Time of the monotonic clock at which actors end; batches that they had not finished
            are lost.
        say: Gets lines on progress.

    Raises:
        Unfinished: Batches failed again and again, or an actor as it started; finished votes are
            kept.
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
        reused = total - left
        trained = 0
        started = told = monotonic()
        queue = deque(Batch(ids=ids) for ids in missing)
        given_up = list[Batch]()
        pool = _Pool(vote, data, shards, resources, size=min(actors, len(missing)))
        try:
            while (queue or pool.tasks) and monotonic() < until:
                pool.send(queue)
                if not queue:
                    pool.let_go()
                for done, votes in pool.finished(until):
                    if votes is None:
                        (queue if done.tries < TRIES else given_up).append(done)
                        continue
                    journal.append(done.ids, votes)
                    trained += len(done.ids)
                    now = monotonic()
                    if now - told >= _TELL_SECONDS:
                        told = now
                        pace = trained / (now - started)
                        say(
                            f"teachers: {reused + trained}/{total}, {3600 * pace:,.0f} per hour, "
                            f"about {(left - trained) / pace:.0f} s left"
                        )
        finally:
            pool.close()
    if given_up:
        first = given_up[0]
        no_memory = any(words in first.error for words in NO_MEMORY)
        if 0 < resources.gpu < 1 and no_memory:
            more = replace(resources, gpu=min(1.0, 2 * resources.gpu))
            say(
                f"{left - trained} teachers were out of memory with {resources.gpu:g} of a GPU "
                f"each; they start again with {more.gpu:g}"
            )
            own: dict[str, Any] = {"data": data, "shards": shards, "batch": batch, "until": until}
            own |= {"journal": journal, "actors": max(1, actors // 2), "resources": more}
            return trained + train_ensemble(vote, **own, say=say)
        raise Unfinished(
            f"{left - trained} of {total} teachers could not be trained; teacher {first.ids[0]} "
            f"failed {first.tries} times, the last time with: {first.error}. The votes of "
            f"{reused + trained} teachers are kept; fix the cause and run again"
        )
    return trained


class _Pool:
    """The actors, and the batch at each of them; Ray starts one again whose process has died.

    Work goes to actors that have started only: on a cluster that is too full for all of them, or
    that grows while they wait, the others hold no batch back.
    """

    def __init__(
        self,
        vote: VoteFunction,
        data: object,
        shards: Sequence[Shard],
        resources: Resources,
        *,
        size: int,
    ) -> None:
        remote: Any = ray.remote(TeacherActor)
        kind = remote.options(
            num_cpus=resources.cpu,
            num_gpus=resources.gpu,
            max_restarts=-1,
            max_task_retries=DEATHS,
        )
        self._shards = shards
        self._resources = resources
        actors = [kind.remote(vote, data, max(1, int(resources.cpu))) for _ in range(size)]
        self._starting = {actor.ready.remote(): actor for actor in actors}
        self._idle = list[Any]()
        self.tasks: dict[Any, tuple[Any, Batch]] = {}

    def send(self, queue: deque[Batch]) -> None:
        """Send batches to the actors that have nothing to do."""
        while queue and self._idle:
            actor = self._idle.pop()
            batch = queue.popleft()
            shards = [self._shards[teacher] for teacher in batch.ids]
            self.tasks[actor.train.remote(batch.ids, shards)] = (actor, batch)

    def let_go(self) -> None:
        """End the actors that have nothing to do, and those that wait for room: no work is left.

        Others can use what they occupied, and an autoscaler's idle machine goes away. A batch that
        fails from here on has the actor that it was at.
        """
        for actor in (*self._idle, *self._starting.values()):
            ray.kill(actor)
        self._idle.clear()
        self._starting.clear()

    def finished(self, until: float) -> list[_Result]:
        """Wait for a batch, with votes or without, or for an actor to start, until a time.

        All that have come back meanwhile are returned with it: with a thousand actors, one question
        for each would be a thousand questions about all.
        """
        needed = self._resources
        left = max(0.0, until - monotonic())
        seconds = min(START_SECONDS, left)
        waiting = [*self.tasks, *self._starting]
        ready, _ = ray.wait(waiting, num_returns=1, timeout=seconds)
        if not ready and seconds == left:
            return []
        if not ready and self.tasks:
            # An actor at work may be silent: one batch may take hours. But one that Ray starts
            # again needs a machine, and the last that could hold it may be gone.
            place(needed, capacity(), gpu_required=needed.gpu > 0, what="a teacher actor")
            return []
        if not ready:
            raise CannotFit(
                f"no teacher actor ({needed.cpu:g} CPU + {needed.gpu:g} GPU) started "
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
        self.let_go()
        for actor, _ in self.tasks.values():
            ray.kill(actor)

    def _started(self, ping: ObjectRef[None]) -> None:
        actor = self._starting.pop(ping)
        self._idle.append(actor)
        try:
            ray.get(ping)
        except ray.exceptions.RayError as error:
            raise Unfinished(
                f"a teacher actor died as it started: {_one_line(error)}. Finished votes are kept"
            ) from error

    def _returned(self, task: ObjectRef[NDArray[np.uint8]]) -> _Result:
        actor, batch = self.tasks.pop(task)
        self._idle.append(actor)
        try:
            return batch, ray.get(task)
        except ray.exceptions.RayTaskError as error:
            text = _one_line(error.cause or error)
            return replace(batch, tries=batch.tries + 1, error=text), None
        except ray.exceptions.RayError as error:
            return replace(batch, tries=batch.tries + 1 + DEATHS, error=_one_line(error)), None


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


class HomeProxy:
    """Stands for a `LabelHome` in an actor: every call of one, which may raise `Unfinished`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a HomeProxy has no {name!r}")
        return lambda *arguments: ask(self._actor.call.remote(name, arguments))

    def end(self) -> None:
        """End the actor; releases and ledger stay in their store."""
        ray.kill(self._actor)


class HomeActor:
    """A home made at its first call: an actor that raises while it is made can't report why."""

    def __init__(self, labels: SecretLabels, state: str = "", **settings: Any) -> None:
        if state:  # the driver's state folder; another user may have started the cluster
            os.environ[STATE] = state
        self._labels = labels
        self._settings = settings
        self._home: LabelHome | None = None

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Return what the home returns."""
        if name.startswith("_"):
            raise AttributeError(f"a home has no {name!r}")
        if self._home is None:
            self._home = LabelHome(self._labels, **self._settings)
        return getattr(self._home, name)(*arguments)


def start_home(labels: SecretLabels, **settings: Any) -> LabelHome:
    """Start the home beside the driver, where its store is; arguments as for `LabelHome`.

    Ray keeps the arguments, so that it can be made again if its process dies. Returns its proxy.
    """
    actor = beside_driver(HomeActor, max_restarts=DEATHS_ALLOWED, max_task_retries=DEATHS_ALLOWED)
    held_out = None if labels.held_out is None else _small(labels.held_out, labels.num_classes)
    small = replace(labels, training=_small(labels.training, labels.num_classes), held_out=held_out)
    home = cast(LabelHome, HomeProxy(actor.remote(small, state=str(state_folder()), **settings)))
    home.num_labels()  # a refusal of the vault is raised here, before any trial
    return home


def _small(labels: NDArray[np.integer[Any]], num_classes: int) -> NDArray[np.integer[Any]]:
    """Return labels in one byte each where they fit.

    So few travel within the request that makes the actor, and need no place in Ray's object store,
    which a home that is made again would depend on.
    """
    small = labels.astype(np.min_scalar_type(num_classes - 1))
    return small if np.array_equal(small, labels) else labels  # for the vault to refuse


def ask(reference: Any) -> Any:
    """Wait for a home's answer, but not for ever; then raise `Unfinished`."""
    try:
        return ray.get(reference, timeout=TIME_LIMIT_SECONDS)
    except ray.exceptions.GetTimeoutError as error:
        raise Unfinished(
            f"the label vault did not answer within {TIME_LIMIT_SECONDS} s; the driver's node is "
            "overloaded or gone: look at its log, and run again with --resume auto"
        ) from error
    except ray.exceptions.RayActorError as error:
        why = " ".join(str(error).split())[-300:]
        raise Unfinished(
            f"the label vault's process died more than {DEATHS_ALLOWED} times, or its node is gone "
            f"({why}); what was released is kept: check the memory and the disk of the driver's "
            "node, and run again with --resume auto"
        ) from None
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, ValueError) else error) from None

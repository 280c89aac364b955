"""Ray on a clock of its own: actors that take as long as a test says, and die when it says."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from labeldp.platform.vault import teacher_pool
from tests.platform.sweep.simulated_teachers import expected_votes

#: Votes of as many teachers as a test has.
_VOTES = expected_votes(1_000)


@dataclass(eq=False)
class Reference:
    """What a call returns."""

    at: float
    value: Any


@dataclass(eq=False)
class Actor:
    """One member of a pool."""

    number: int
    dies: float
    starts: float
    busy_until: float = 0.0
    ended: float | None = None
    batches: list[tuple[float, list[int]]] = field(default_factory=list)


class VirtualRay:
    """Stands in for the module `ray` in `teacher_pool`."""

    exceptions = ray.exceptions

    def __init__(
        self,
        seconds: Callable[[Sequence[int]], float],
        *,
        starts: Callable[[int], float] = lambda number: 0.0,
        dies: Callable[[int], float] = lambda number: float("inf"),
        machines_die: bool = False,
        fails: Iterable[Sequence[int]] = (),
    ) -> None:
        """Prepare one."""
        self.now, self.waits = 0.0, 0
        self.actors: list[Actor] = []
        self.lines: list[str] = []
        self._seconds, self._starts, self._dies = seconds, starts, dies
        self._machines_die, self._fails = machines_die, [list(each) for each in fails]

    def remote(self, kind: type) -> Any:
        return SimpleNamespace(options=lambda **given: SimpleNamespace(remote=self._made))

    def wait(
        self, waiting: Sequence[Reference], *, num_returns: int, timeout: float | None
    ) -> tuple[list[Reference], list[Reference]]:
        assert 1 <= num_returns <= len(waiting) == len(set(map(id, waiting)))
        self.waits += 1
        if timeout != 0:
            self.now = max(self.now, min(each.at for each in waiting))
        ready = [each for each in waiting if each.at <= self.now][:num_returns]
        return ready, [each for each in waiting if each not in ready]

    def get(self, reference: Reference) -> Any:
        assert reference.at <= self.now
        if isinstance(reference.value, Exception):
            raise reference.value
        return reference.value

    def kill(self, actor: Any) -> None:
        if actor.state.ended is None:
            actor.state.ended = min(self.now, actor.state.dies)

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": str(actor.number), "Alive": not self._machines_die or actor.dies > self.now}
            for actor in self.actors
        ]

    def _made(self, *given: object) -> Any:
        number = len(self.actors)
        begins = self.now + self._starts(number)
        state = Actor(number=number, dies=begins + self._dies(number), starts=begins)
        self.actors.append(state)
        return SimpleNamespace(
            state=state,
            ready=SimpleNamespace(remote=lambda: Reference(begins, str(number))),
            train=SimpleNamespace(remote=lambda ids, shards: self._train(state, ids)),
        )

    def _train(self, actor: Actor, ids: list[int]) -> Reference:
        assert actor.ended is None and actor.starts <= self.now
        actor.batches.append((self.now, ids))
        actor.busy_until = max(self.now, actor.busy_until) + self._seconds(ids)
        if actor.busy_until > actor.dies:
            return Reference(max(self.now, actor.dies), ray.exceptions.ActorDiedError())
        if ids in self._fails:
            self._fails.remove(ids)
            make: Any = ray.exceptions.RayTaskError
            return Reference(actor.busy_until, make("train", "trace", RuntimeError("bewitched")))
        return Reference(actor.busy_until, np.stack([_VOTES[teacher] for teacher in ids]))


def put_in_place(virtual: VirtualRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pool's members work on a virtual clock."""
    monkeypatch.setattr(teacher_pool, "ray", virtual)
    monkeypatch.setattr(teacher_pool, "known_nodes", virtual.nodes)
    monkeypatch.setattr(teacher_pool, "monotonic", lambda: virtual.now)

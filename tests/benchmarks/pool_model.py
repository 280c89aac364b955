"""A pool of workers that train batches of teachers, as events: who waits, who dies, what it costs.

The rules are those of `platform/trusted/teacher_pool.py`: batches in order, each sent to the worker
that holds least, up to `ahead` of them at one worker; what a dead worker held is tried again, alone
at its worker, and given up after three deaths that were its own. What the pool may do beside them
(`Policy`) is there to see what it buys.
"""

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

_BLOCK = 4096


@dataclass(frozen=True, kw_only=True)
class TaskTimes:
    """How long a batch of teachers takes.

    Attributes:
        fixed: Seconds of a batch, whatever its size.
        each: Seconds more for each of its teachers.
        spread: Measured times over their mean; a batch takes one of them by chance.
        stragglers: Share of runs that take longer for no reason of their own.
        slower: How many times longer.
    """

    fixed: float = 0.0
    each: float = 1.0
    spread: tuple[float, ...] = field(default=(1.0,), repr=False)
    stragglers: float = 0.0
    slower: float = 1.0

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: Times that no batch takes.
        """
        if min(self.fixed, self.each) < 0 or self.fixed + self.each <= 0 or self.slower < 1:
            raise ValueError(
                f"a batch takes {self.fixed} + {self.each} seconds for each teacher, and "
                f"{self.slower} times that when it straggles; give positive times, and 1 or more"
            )
        if not 0 <= self.stragglers <= 1 or not self.spread or min(self.spread) <= 0:
            raise ValueError(
                f"a share of stragglers is in 0..1, not {self.stragglers}, and a spread has "
                "positive times over their mean"
            )

    def factors(self, size: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw what `size` runs take, over what they take on average."""
        drawn = generator.choice(np.asarray(self.spread), size=size)
        return np.where(generator.random(size) < self.stragglers, self.slower * drawn, drawn)


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Where teachers are trained.

    Attributes:
        workers: W, a GPU each.
        deaths_per_hour: Of a worker that works for ever; spot machines are taken away.
        replaced_after: Seconds until there is another one.
        driver: Seconds of the driver's processor for each batch, one after the other.
    """

    workers: int
    deaths_per_hour: float = 0.0
    replaced_after: float = 180.0
    driver: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: A rate or a time below 0, or no worker.
        """
        if self.workers < 1 or min(self.deaths_per_hour, self.replaced_after, self.driver) < 0:
            raise ValueError(
                f"{self.workers} workers with {self.deaths_per_hour} deaths per hour, replaced "
                f"after {self.replaced_after} s, {self.driver} s of driver; take one or more "
                "workers, and no number below 0"
            )


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What the pool does.

    Attributes:
        ahead: Batches at a worker, the one that it trains among them.
        copy_after: A batch that has run for so many times the mean gets a copy on a worker that has
            nothing to do; None for never.
        release: Whether a worker that has nothing left to do is let go.
        tries: Deaths of its own after which a batch is given up; None for never.
    """

    ahead: int = 1
    copy_after: float | None = None
    release: bool = True
    tries: int | None = None


@dataclass(frozen=True, kw_only=True)
class PoolRun:
    """What came of it; times in seconds.

    Attributes:
        makespan: Until the last teacher voted.
        useful: Worked on batches that counted.
        lost: Worked on batches that died.
        copied: Worked on copies, or on batches whose copy was first.
        paid: That machines were held.
        tail: From when the first worker found nothing to start, until the end.
        given_up: Batches.
        deaths: Of workers that were at work.
    """

    makespan: float
    useful: float
    lost: float
    copied: float
    paid: float
    tail: float
    given_up: int
    deaths: int

    @property
    def utilization(self) -> float:
        """Share of what was paid that went into votes."""
        return self.useful / self.paid

    @property
    def gpu_hours(self) -> float:
        """That were paid."""
        return self.paid / 3600


class _Kind(Enum):
    END = auto()
    DEATH = auto()
    BACK = auto()
    LOOK = auto()


@dataclass(slots=True, eq=False)
class _Batch:
    seconds: float
    tries: int = 0
    alone: bool = False
    done: bool = False
    started: float = math.nan
    runs: int = 0


@dataclass(slots=True, eq=False)
class _Worker:
    held: deque[_Batch] = field(default_factory=deque)
    began: float = 0.0  # the batch that it trains
    since: float = 0.0  # paid from here
    dies: float = math.inf
    life: int = 0  # events of an earlier one are void


def simulate(
    teachers: int, batch: int, *, times: TaskTimes, machines: Machines, policy: Policy, seed: int
) -> PoolRun:
    """Train `teachers` in batches of `batch`.

    Args:
        teachers: T.
        batch: Teachers of a call; the last call may have fewer.
        times: Of batches.
        machines: That train them.
        policy: Of the pool.
        seed: Of all that is drawn.

    Raises:
        ValueError: No teachers, or none in a batch.
    """
    if teachers < 1 or batch < 1:
        raise ValueError(f"{teachers} teachers in batches of {batch}; take 1 or more of both")
    sizes = [min(batch, teachers - start) for start in range(0, teachers, batch)]
    seconds = [times.fixed + times.each * size for size in sizes]
    chance = _Chance(times, machines.deaths_per_hour / 3600, np.random.default_rng(seed))
    return _Simulation(seconds, machines=machines, policy=policy, chance=chance).run()


class _Chance:
    """What is drawn: factors of runs, a block at a time, and lives of workers."""

    def __init__(self, times: TaskTimes, rate: float, generator: np.random.Generator) -> None:
        self._times, self._rate, self._generator = times, rate, generator
        self._factors: list[float] = []

    def factor(self) -> float:
        if not self._factors:
            self._factors = self._times.factors(_BLOCK, self._generator).tolist()
        return self._factors.pop()

    def life(self) -> float:
        return float(self._generator.exponential(1 / self._rate)) if self._rate else math.inf


class _Simulation:
    """Events in order of time.

    A worker is idle, at work, or away; one that holds something may hold more, up to `ahead`.
    """

    def __init__(
        self, seconds: Sequence[float], *, machines: Machines, policy: Policy, chance: _Chance
    ) -> None:
        self._machines, self._policy, self._chance = machines, policy, chance
        self._queue = deque(_Batch(seconds=each) for each in seconds)
        self._left = len(seconds)
        self._mean = sum(seconds) / len(seconds)
        self._workers = [_Worker(dies=chance.life()) for _ in range(machines.workers)]
        self._idle = deque(range(machines.workers))
        self._has_room: deque[int] = deque()  # at work, and may hold more
        self._running: dict[int, _Batch] = {}
        self._uncopied: deque[_Batch] = deque()  # in the order in which they were started
        self._events: list[tuple[float, int, _Kind, int, int]] = []
        self._count = 0
        self._now = self._driver_free = 0.0
        self._first_idle = math.inf
        self._useful = self._lost = self._copied = self._paid = 0.0
        self._given_up = self._deaths = 0

    def run(self) -> PoolRun:
        self._hand_out()
        while self._left:
            self._now, _, kind, number, life = heapq.heappop(self._events)
            if self._workers[number].life == life:
                if kind is _Kind.END:
                    self._ended(number)
                elif kind is _Kind.DEATH:
                    self._died(number)
                elif kind is _Kind.BACK:
                    self._idle.appendleft(number)
                self._hand_out()
        for number in self._running:
            self._copied += max(0.0, self._now - self._workers[number].began)
        for number in (*self._running, *self._idle):
            self._paid += self._now - self._workers[number].since
        return PoolRun(
            makespan=self._now,
            useful=self._useful,
            lost=self._lost,
            copied=self._copied,
            paid=self._paid,
            tail=max(0.0, self._now - self._first_idle),
            given_up=self._given_up,
            deaths=self._deaths,
        )

    def _hand_out(self) -> None:
        """Send what there is to who can take it, the least busy first."""
        while self._queue:
            if self._idle:
                number = self._idle.popleft()
                if not self._died_idle(number):
                    self._send(number, self._queue.popleft())
            elif self._has_room and not self._queue[0].alone:
                number = self._has_room.popleft()
                held = self._workers[number].held
                if held and not held[0].alone and len(held) < self._policy.ahead:
                    self._send(number, self._queue.popleft())
            else:
                return
        if self._idle:
            self._first_idle = min(self._first_idle, self._now)
            self._nothing_left()

    def _send(self, number: int, batch: _Batch) -> None:
        worker = self._workers[number]
        self._driver_free = max(self._driver_free, self._now) + self._machines.driver
        worker.held.append(batch)
        if len(worker.held) == 1:
            self._start(number, at=self._driver_free)
        if len(worker.held) < self._policy.ahead:
            self._has_room.append(number)

    def _start(self, number: int, *, at: float) -> None:
        worker = self._workers[number]
        batch = worker.held[0]
        worker.began = at
        batch.runs += 1
        if batch.runs == 1 and self._policy.copy_after is not None:
            batch.started = at
            self._uncopied.append(batch)
        self._running[number] = batch
        end = at + batch.seconds * self._chance.factor()
        # Who died before the driver came to it is found out when the batch would have begun.
        died = worker.dies < end
        when = max(at, worker.dies) if died else end
        self._push(when, _Kind.DEATH if died else _Kind.END, number)

    def _ended(self, number: int) -> None:
        worker = self._workers[number]
        batch = worker.held.popleft()
        del self._running[number]
        if batch.done:
            self._copied += self._now - worker.began
        else:
            batch.done = True
            self._useful += self._now - worker.began
            self._left -= 1
        if worker.held:
            self._start(number, at=self._now)
            self._has_room.append(number)
        else:
            self._idle.appendleft(number)

    def _died(self, number: int) -> None:
        worker = self._workers[number]
        batch = self._running.pop(number)
        self._deaths += 1
        self._lost += self._now - worker.began
        batch.runs -= 1
        batch.tries += len(worker.held) == 1  # of several, it can't be told which one it was
        for each in worker.held:
            each.alone = True
            if each.done or each.runs:
                continue
            if each.tries == self._policy.tries:
                self._given_up += 1
                self._left -= 1
            else:
                self._queue.append(each)
        worker.held.clear()
        self._away(number, at=self._now)

    def _died_idle(self, number: int) -> bool:
        """Whether an idle worker has died in the meantime: it is found out when it is needed."""
        dies = self._workers[number].dies
        if dies > self._now:
            return False
        self._away(number, at=dies)
        return True

    def _away(self, number: int, *, at: float) -> None:
        """End a worker's life; the next one begins when its machine is replaced."""
        worker = self._workers[number]
        self._paid += at - worker.since
        worker.life += 1
        worker.since = max(self._now, at + self._machines.replaced_after)
        worker.dies = worker.since + self._chance.life()
        self._push(worker.since, _Kind.BACK, number)

    def _nothing_left(self) -> None:
        """For idle workers: copy what has run longest, wait until it has, or let them go."""
        limit = self._policy.copy_after
        while self._idle and limit is not None:
            while self._uncopied and (self._uncopied[0].done or self._uncopied[0].runs != 1):
                self._uncopied.popleft()
            if not self._uncopied:
                break
            due = self._uncopied[0].started + limit * self._mean
            if due > self._now:
                self._push(due, _Kind.LOOK, self._idle[0])
                return
            number = self._idle.popleft()
            if not self._died_idle(number):
                self._workers[number].held.append(self._uncopied.popleft())
                self._start(number, at=self._now)
        while self._policy.release and self._idle:
            self._paid += self._now - self._workers[self._idle.popleft()].since

    def _push(self, time: float, kind: _Kind, number: int) -> None:
        self._count += 1
        life = self._workers[number].life
        heapq.heappush(self._events, (time, self._count, kind, number, life))

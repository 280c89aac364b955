"""watch: time in which no trial runs is waiting; time in which one trains is not."""

import re
from types import SimpleNamespace

import pytest

from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.sweep import watch
from labeldp.platform.sweep.cluster import CannotFit, Capacity
from labeldp.platform.sweep.sweep import Resources


class Clock:
    """Time as the test tells it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Said(SweepProgress):
    """What the sweep's progress was told."""

    def __init__(self) -> None:
        super().__init__(total=1, skipped=0)
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


RUNNING, PENDING = SimpleNamespace(status="RUNNING"), SimpleNamespace(status="PENDING")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    one_core = Capacity(nodes=1, cpus=1.0, gpus=0.0, largest=((1.0, 0.0),), grows=False)
    monkeypatch.setattr(watch, "time", clock)
    monkeypatch.setattr(watch, "capacity", lambda: one_core)
    return clock


def a_watch() -> tuple[watch.PlaceWatch, Said]:
    said = Said()
    return watch.PlaceWatch(each=Resources(cpus=2, gpus=0), progress=said), said


def test_a_step_that_waits_for_a_long_epoch_is_no_waiting_for_a_place(clock: Clock) -> None:
    watching, said = a_watch()
    for number in range(50):
        clock.now += 600
        # Tune reports a trial's end before it starts the next: for a moment, none runs.
        watching.on_step_end(number, [PENDING])
        clock.now += 1
        watching.on_step_end(number, [RUNNING, PENDING])
    assert said.lines == []


def test_waiting_is_said_once_and_ends(clock: Clock) -> None:
    watching, said = a_watch()
    watching.on_step_end(0, [PENDING])
    clock.now += watch.TELL_SECONDS + 1
    watching.on_step_end(1, [PENDING])
    watching.on_step_end(2, [PENDING])
    (line,) = said.lines
    assert re.search(r"trials wait for a place: each takes 2 CPU .* 1 CPU \+ 0 GPU", line)
    clock.now += watch.WAIT_SECONDS
    with pytest.raises(CannotFit, match=r"no trial got a place for 931 s.*add a node"):
        watching.on_step_end(3, [PENDING])


def test_a_trial_that_got_a_place_starts_the_clock_again(clock: Clock) -> None:
    watching, said = a_watch()
    for trial in (PENDING, RUNNING, PENDING):
        watching.on_step_end(0, [trial])
        clock.now += watch.WAIT_SECONDS - 1
    watching.on_step_end(0, [PENDING])
    assert len(said.lines) == 1

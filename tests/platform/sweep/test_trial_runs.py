"""trial_runs: searches, early stops, waiting, and errors that end Tune. Sweeps run elsewhere."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.tune.error import TuneError

from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.records.results import ResultsFolderError
from labeldp.platform.sweep import trial_runs
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.cluster import Capacity
from labeldp.platform.sweep.configuration import AshaStop
from labeldp.platform.sweep.search import Suggested
from labeldp.platform.sweep.sweep import CannotFit, Resources
from labeldp.platform.sweep.trial import EarlyStops, StopBoard
from labeldp.platform.sweep.trial_runs import AshaByGroup, HandOut, _fit
from tests.faults.without_cluster import Here
from tests.platform.sweep.examples import a_record


def run(error: Exception | None, *, recorder: Any = None, hand_out: Any = None) -> None:
    """Fit with a tuner that ends so, beside what broke in the driver."""

    def fit() -> None:
        if error is not None:
            raise error

    tuner: Any = SimpleNamespace(fit=fit)
    folder = SimpleNamespace(path=Path("/results/small"))
    beside: Any = SimpleNamespace(folder=folder, broken=recorder)
    handing_out: Any = None if hand_out is None else SimpleNamespace(broken=hand_out)
    _fit(tuner, beside, handing_out)


def test_a_full_disk_is_said_with_the_folder_and_the_way_on() -> None:
    with pytest.raises(ResultsFolderError, match=r"/results/small can't be .*\(no space\).*resume"):
        run(OSError("no space"))


def test_what_broke_in_the_driver_is_raised_and_not_its_text_in_tune() -> None:
    lost, refused = RuntimeError("the vault is gone"), ValueError("no such setting")
    with pytest.raises(RuntimeError, match="the vault is gone") as caught:
        run(TuneError("the vault is gone"), recorder=lost, hand_out=refused)
    assert caught.value is lost
    with pytest.raises(ValueError, match="no such setting"):
        run(TuneError("no such setting"), hand_out=refused)


class Book:
    """Two trials, or an error."""

    def __init__(self, *left: Any) -> None:
        self._left = list(left)

    def next(self, records: dict[str, Any]) -> Suggested | None:
        found = self._left.pop(0)
        if isinstance(found, Exception):
            raise found
        assert found is None or isinstance(found, Suggested)
        return found


def hand_out(*left: Any) -> HandOut:
    return HandOut(Book(*left), records=dict)  # type: ignore[arg-type]


def test_what_broke_a_search_is_kept() -> None:
    given = hand_out(ValueError("out of range"))
    with pytest.raises(ValueError, match="out of range"):
        given.suggest("x")
    assert isinstance(given.broken, ValueError)


@contextmanager
def scheduler(
    monkeypatch: pytest.MonkeyPatch, by: ChooseBy = ChooseBy.TEST
) -> Iterator[tuple[AshaByGroup, EarlyStops]]:
    """One of two trials goes on; the first letter of a hash is its group."""
    monkeypatch.setattr(ray, "get", lambda reference, **limits: reference)
    rule = AshaStop(grace_epochs=2, keep_one_in=2)
    stops = EarlyStops(rule=rule, by=by, actor=Here(StopBoard()))
    yield AshaByGroup(stops, group_of=lambda each: each[0], most_epochs=30), stops


def told(judge: AshaByGroup, digest: str, epoch: int, accuracy: float) -> None:
    result: dict[str, Any] = {"rung/epoch": epoch, "rung/accuracy": accuracy}
    trial = SimpleNamespace(config={"hash": digest}, trial_id=f"of Tune's {digest}")
    assert judge.on_trial_result(None, trial, result) == "CONTINUE"


def test_the_worse_half_is_stopped_within_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    with scheduler(monkeypatch) as (judge, board):
        told(judge, "a1", 2, 0.5)
        told(judge, "a2", 2, 0.6)
        told(judge, "a3", 2, 0.4)
        told(judge, "b1", 2, 0.1)
        stopped = [name for name in ("a1", "a2", "a3", "b1") if board.stopped(name)]
        assert stopped == ["a3"]


def test_trials_of_an_earlier_start_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's curve has .9 after its second epoch, and no estimate."""
    for by, stopped in ((ChooseBy.TEST, True), (ChooseBy.ESTIMATED, False)):
        with scheduler(monkeypatch, by) as (judge, board):
            for name in ("a1", "b1"):
                judge.recall(a_record(name))
            told(judge, "a2", 2, 0.5)
            assert board.stopped("a2") is stopped and not board.stopped("a1")


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
    monkeypatch.setattr(trial_runs, "time", clock)
    monkeypatch.setattr(trial_runs, "capacity", lambda: one_core)
    return clock


def a_watch() -> tuple[trial_runs.PlaceWatch, Said]:
    said = Said()
    return trial_runs.PlaceWatch(each=Resources(cpus=2, gpus=0), progress=said), said


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
    clock.now += trial_runs.TELL_SECONDS + 1
    watching.on_step_end(1, [PENDING])
    watching.on_step_end(2, [PENDING])
    (line,) = said.lines
    assert re.search(r"trials wait for a place: each takes 2 CPU .* 1 CPU \+ 0 GPU", line)
    clock.now += trial_runs.WAIT_SECONDS
    with pytest.raises(CannotFit, match=r"no trial got a place for 931 s.*add a node"):
        watching.on_step_end(3, [PENDING])

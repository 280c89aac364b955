"""early_stops: who is compared with whom, and who is put on the board."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.early_stops import AshaByGroup, BoardHandle, StopBoard, rung_metric
from labeldp.platform.sweep.search_settings import AshaStop
from tests.faults.without_cluster import Here
from tests.platform.sweep.examples import a_record


@contextmanager
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[AshaByGroup, BoardHandle]]:
    """One of two trials goes on; the first letter of a hash is its group."""
    monkeypatch.setattr(ray, "get", lambda reference, **limits: reference)
    board = BoardHandle(Here(StopBoard()))
    stop = AshaStop(grace_epochs=2, keep_one_in=2)
    yield AshaByGroup(stop, board=board, group_of=lambda each: each[0], most_epochs=30), board


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


def test_results_between_rungs_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with scheduler(monkeypatch) as (judge, board):
        told(judge, "a1", 2, 0.5)
        trial = SimpleNamespace(config={"hash": "a2"})
        assert judge.on_trial_result(None, trial, {"epochs": []}) == "CONTINUE"
        assert not board.stopped("a2")


def test_trials_of_an_earlier_start_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's curve has .9 after its second epoch."""
    with scheduler(monkeypatch) as (judge, board):
        for name in ("a1", "b1"):
            judge.recall(a_record(name), by=ChooseBy.TEST)
        judge.recall(a_record("c1"), by=ChooseBy.ESTIMATED)  # has no estimate there
        for name in ("a2", "c2"):
            told(judge, name, 2, 0.5)
        assert board.stopped("a2") and not board.stopped("c2")


def test_the_accuracy_of_a_rung_has_the_name_of_the_curve_it_is_in() -> None:
    assert rung_metric(ChooseBy.TEST) == "val_accuracy"
    assert rung_metric(ChooseBy.ESTIMATED) == "accuracy_estimated"

"""trial_runs: early stops, waiting, and errors that end Tune. Sweeps run elsewhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.tune.error import TuneError

from labeldp.platform.records.checkpoints import Keeper
from labeldp.platform.records.results import ResultsFolderError
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import AshaStop
from labeldp.platform.sweep.trial import EarlyStops
from labeldp.platform.sweep.trial_runs import AshaByGroup, HandOut, _fit
from tests.faults.without_cluster import Here
from tests.platform.sweep.examples import a_record


def failing(error: Exception) -> Any:
    def fail(*given: object) -> None:
        raise error

    return fail


def recorder(broken: Exception | None = None) -> Any:
    return SimpleNamespace(folder=SimpleNamespace(path=Path("/results/small")), broken=broken)


def test_a_full_disk_is_reported_with_the_folder_and_the_fix() -> None:
    tuner: Any = SimpleNamespace(fit=failing(OSError("no space")))
    with pytest.raises(ResultsFolderError, match=r"/results/small can't be .*\(no space\).*resume"):
        _fit(tuner, recorder(), None)


def test_the_error_that_broke_the_driver_is_raised_and_not_its_text_in_tune() -> None:
    lost, refused = RuntimeError("the vault is gone"), ValueError("no such setting")
    tuner: Any = SimpleNamespace(fit=failing(TuneError("a text")))
    book: Any = SimpleNamespace(next=failing(refused))
    hand_out = HandOut(book, records=dict)
    with pytest.raises(ValueError, match="no such setting"):
        hand_out.suggest("x")
    for broken, raised in ((lost, lost), (None, refused)):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            _fit(tuner, recorder(broken), hand_out)
        assert caught.value is raised


def scheduler(
    monkeypatch: pytest.MonkeyPatch, by: ChooseBy = ChooseBy.TEST
) -> tuple[AshaByGroup, EarlyStops]:
    """One of two trials continues; the first letter of a hash is its group."""
    monkeypatch.setattr(ray, "get", lambda reference, **limits: reference)
    rule = AshaStop(grace_epochs=2, keep_one_in=2)
    stops = EarlyStops(rule=rule, by=by, keeper=Here(Keeper("", "")))
    return AshaByGroup(stops, group_of=lambda each: each[0], most_epochs=30), stops


def tell(judge: AshaByGroup, digest: str, accuracy: float) -> None:
    result: dict[str, Any] = {"rung/epoch": 2, "rung/accuracy": accuracy}
    trial = SimpleNamespace(config={"hash": digest}, trial_id=f"of Tune's {digest}")
    assert judge.on_trial_result(None, trial, result) == "CONTINUE"


def test_the_worse_half_is_stopped_within_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    judge, board = scheduler(monkeypatch)
    for digest, accuracy in (("a1", 0.5), ("a2", 0.6), ("a3", 0.4), ("b1", 0.1)):
        tell(judge, digest, accuracy)
    assert [name for name in ("a1", "a2", "a3", "b1") if board.stopped(name)] == ["a3"]


@pytest.mark.parametrize(("by", "stopped"), [(ChooseBy.TEST, True), (ChooseBy.ESTIMATED, False)])
def test_trials_of_an_earlier_start_are_compared_with(
    by: ChooseBy, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example's curve has .9 after its second epoch, and no estimate."""
    judge, board = scheduler(monkeypatch, by)
    judge.recall(a_record("a1"))
    judge.recall(a_record("b1"))
    tell(judge, "a2", 0.5)
    assert board.stopped("a2") is stopped and not board.stopped("a1")

"""What is said and refused of users' own small files before anything is released."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.platform.cli.sweep_plan import plan_of
from labeldp.platform.sweep import beforehand
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.sweep_check import check
from labeldp.trainers.performance import Precision
from tests.platform.sweep.test_sweep_check import options, small


def own_file(folder: Path, *, classes: int) -> dict[str, Any]:
    """A file of 300 rows, 30 of which are held out, and the keys that name it."""
    path = folder / "mine.npz"
    features = np.random.default_rng(0).normal(size=(300, 4))
    np.savez(path, features=features, labels=np.arange(300) % classes)
    named = {"data.name": "own", "data.path": str(path), "data.classes": str(classes)}
    return {**named, "data.hold_out": "none"}


def test_a_users_own_file_is_priced_and_spoiled_by_its_size(tmp_path: Path) -> None:
    checked = check(small(), options(tmp_path, overrides=own_file(tmp_path, classes=3)))
    assert checked.audit.spoiled == 0 and checked.held_out == 30
    # Free is what the cheapest trial pays, and what makes the counts of use is more.
    assert checked.count_epsilon == 0.5
    assert {trial.config.evaluation.epsilon for trial in checked.trials} == {0.5}
    dropped, priced = checked.notes
    assert "the 20 wrong labels that sweep 'small'" in dropped
    assert "epsilon 0.5 for each of 4 counts" in priced
    # With the key that the folder then keeps, another grid asks at the same price.
    checked.folder.identify(count_epsilon=checked.count_epsilon)
    wider = {**own_file(tmp_path, classes=3), "trainer.epsilon": [0.2, 0.5]}
    assert check(small(), options(tmp_path, overrides=wider)).count_epsilon == 0.5


def test_wrong_labels_among_two_classes_are_refused_and_none_are_planted(tmp_path: Path) -> None:
    own = own_file(tmp_path, classes=2)
    assert check(small(), options(tmp_path, overrides=own)).audit.spoiled == 0
    with pytest.raises(ValueError, match=r"audit\.canaries is 30, and there are 2 classes"):
        check(small(), options(tmp_path, overrides={**own, "audit.canaries": 30}))
    coins = check(small(), options(tmp_path, overrides={**own, "audit.coin_canaries": 30}))
    assert (coins.audit.canaries, coins.audit.coin_canaries) == (0, 30)


def test_a_choice_that_noise_would_make_is_refused_before_it_is_paid(tmp_path: Path) -> None:
    own = {**own_file(tmp_path, classes=3), "evaluation.epsilon": 0.1}
    with pytest.raises(ValueError, match=r"noise is too large.*evaluation\.epsilon; 0\.5 would do"):
        check(small(), options(tmp_path, overrides=own, choose_by=ChooseBy.ESTIMATED))
    unasked = check(small(), options(tmp_path, overrides=own))  # who wants no choice may look
    assert "too much to choose a trial by" in unasked.notes[-1]


@pytest.mark.parametrize(
    ("lacks", "settings", "noted"),
    [
        (True, {"performance.precision": Precision.BF16}, True),
        (True, {"performance.precision": Precision.AUTO}, False),
        (True, {}, False),
        (False, {"performance.precision": Precision.BF16}, False),
    ],
)
def test_bf16_without_units_is_told_beforehand(
    lacks: bool,
    settings: dict[str, Any],
    noted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(beforehand, "lacks_bf16_units", lambda: lacks)
    asked = options(tmp_path, overrides=settings)
    planned = plan_of(small(), asked).notes
    assert planned == list(check(small(), asked).notes)
    assert [note.startswith("performance.precision is bf16") for note in planned] == [True] * noted
    assert all("performance.precision=auto" in note for note in planned)
    assert not plan_of(small(), replace(asked, address="head:6379")).notes, "who knows?"

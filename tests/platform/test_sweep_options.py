"""sweep_options: limits that are no limits are refused, and so are more trials than allowed."""

from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.sweep_options import SweepOptions, prepare
from tests.platform.examples import a_sweep


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_trials": 0}, "max_trials"),
        ({"max_minutes": 0.0}, "max_minutes"),
        ({"max_minutes": float("nan")}, "max_minutes"),
    ],
)
def test_limits_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SweepOptions(results=Path(), **settings)


def test_more_trials_than_allowed_are_refused(tmp_path: Path) -> None:
    _, trials = prepare(a_sweep(), SweepOptions(results=tmp_path))
    enough = SweepOptions(results=tmp_path, max_trials=len(trials))
    assert prepare(a_sweep(), enough)[1] == trials
    with pytest.raises(ValueError, match=f"has {len(trials)} trials, more than the 1 that"):
        prepare(a_sweep(), SweepOptions(results=tmp_path, max_trials=1))


def test_overrides_are_in_the_plan(tmp_path: Path) -> None:
    options = SweepOptions(results=tmp_path, overrides={"trainer.epochs": 7})
    assert {trial.config.trainer.epochs for trial in prepare(a_sweep(), options)[1]} == {7}

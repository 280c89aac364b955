"""planning: what the verb says, for a configuration, a sweep and a file."""

from dataclasses import asdict
from pathlib import Path

import pytest

import labeldp
from labeldp.platform.sweep.configuration import TrialConfig
from tests.platform.cli.asked import answer
from tests.platform.sweep.examples import a_sweep

QUICKSTART = Path(__file__).resolve().parents[3] / "sweeps" / "quickstart.py"


def test_a_plan_is_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    found = labeldp.plan(QUICKSTART, overrides={"trainer.epsilon": [1.0, 2.0]}, smoke=True)
    verbs = answer(capsys, "plan", str(QUICKSTART), "--smoke", "trainer.epsilon=[1.0,2.0]")
    assert asdict(found) == verbs and found.fits


def test_trials_and_sweeps_are_planned_as_they_are() -> None:
    one = labeldp.plan(TrialConfig(), overrides={"trainer.epsilon": 3.0})
    assert (one.trials, one.epsilon_total, one.releases) == (1, 3.0, 1)
    assert labeldp.plan(a_sweep()).trials == 5
    with pytest.raises(ValueError, match=r"trainer\.epsilon"):
        labeldp.plan(TrialConfig(), overrides={"trainer.epsilo": 3.0})

"""planned_minutes: what records of this machine say comes before what is estimated."""

import os
import platform as machine
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.studies.comparison import comparison
from labeldp.platform.sweep.configuration import flatten
from labeldp.platform.sweep.data_size import DataSize
from labeldp.platform.sweep.planned_minutes import planned_minutes
from labeldp.platform.sweep.sweep import PlannedTrial, plan_trials, resized
from tests.platform.sweep.examples import a_record

SIZE = DataSize(
    num_classes=10, num_labels=60_000, held_out=0, has_test_split=True, shape=(1, 28, 28)
)
#: Processor seconds of a trial on `REFERENCE`.
MEASURED = {"ALIBI": 18.4, "moment labels": 25.5, "PATE with probes": 0.1}


@pytest.fixture(scope="module")
def trials() -> list[PlannedTrial]:
    sweep = comparison("compare", dataset="fashion_mnist")
    sweep = resized(sweep, sweep.presets["once"])
    return plan_trials(sweep, {"trainer.epsilon": [1, 2]})


def test_every_line_of_a_comparison_is_estimated_pate_too(
    trials: list[PlannedTrial], tmp_path: Path
) -> None:
    found = planned_minutes(trials, SIZE, results=tmp_path)
    of_line = dict(zip((trial.variant for trial in trials), found.trials, strict=True))
    assert found.known == 0 and "estimated" in found.source
    # Measured, in processor seconds: 18.4, 25.5 and .1; features 50.9, directions 8.5, teachers .3.
    for line, seconds in MEASURED.items():
        assert of_line[line] == pytest.approx(seconds / 60, rel=0.2, abs=0.005)
    three = [trial for trial in trials if trial.variant in MEASURED]
    shared = planned_minutes(three, SIZE, results=tmp_path).shared
    assert shared == pytest.approx((50.9 + 8.5 + 0.3) / 60, rel=0.1)
    half = replace(SIZE, num_labels=30_000)
    halved = planned_minutes(trials, half, results=tmp_path).trials[4]
    assert halved == pytest.approx((found.trials[4] or 0) / 2, rel=0.01)
    unknown = planned_minutes(trials, None, results=tmp_path)
    assert unknown.total is None and "before a first trial" in unknown.source


def test_a_record_of_this_machine_tells_of_trials_with_other_seeds_and_noise(
    trials: list[PlannedTrial], tmp_path: Path
) -> None:
    first, second = (trial for trial in trials if trial.variant == "ALIBI")
    here = {"system": machine.platform(), "cores": str(os.cpu_count())}
    kept = replace(a_record(), variant="ALIBI", config=flatten(first.config), environment=here)
    kept = replace(kept, metrics={**kept.metrics, "processor_seconds": 90.0})
    ResultsFolder(tmp_path / "results", sweep="compare").keep(kept)
    found = planned_minutes(trials, SIZE, results=tmp_path / "results")
    assert found.known == 2 and "measured on this machine" in found.source
    assert found.trials[trials.index(second)] == 1.5
    elsewhere = replace(kept, environment={**here, "system": "another"})
    ResultsFolder(tmp_path / "results", sweep="compare").keep(elsewhere)
    assert planned_minutes(trials, SIZE, results=tmp_path / "results").known == 0

"""planned_minutes: what records of this machine tell of planned trials."""

import os
import platform as machine
from dataclasses import replace
from pathlib import Path

from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep.configuration import flatten
from labeldp.platform.sweep.planned_minutes import planned_minutes
from labeldp.platform.sweep.sweep import plan_trials
from tests.platform.sweep.examples import a_record, a_sweep


def test_a_record_of_this_machine_tells_of_trials_with_other_seeds_and_noise(
    tmp_path: Path,
) -> None:
    trials = plan_trials(a_sweep())
    here = {"system": machine.platform(), "cores": str(os.cpu_count())}
    kept = replace(a_record(), config=flatten(trials[0].config), environment=here)
    kept = replace(kept, metrics={**kept.metrics, "processor_seconds": 90.0})
    folder = ResultsFolder(tmp_path, sweep="small")
    folder.keep(kept)
    assert planned_minutes(trials, results=tmp_path) == [1.5, 1.5, None, None, None]
    folder.keep(replace(kept, environment={**here, "system": "another"}))
    assert planned_minutes(trials, results=tmp_path) == [None] * 5

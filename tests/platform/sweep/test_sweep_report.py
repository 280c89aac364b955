"""sweep_report: how trials ended, and a report on all trials of a folder."""

import csv
from pathlib import Path

from labeldp.platform.sweep.configuration import TrialConfig, with_changes
from labeldp.platform.sweep.driver import run_sweep
from labeldp.platform.sweep.sweep import SweepOptions
from tests.faults.without_cluster import without_cluster
from tests.platform.sweep.examples import a_sweep


def test_a_report_holds_all_trials_of_the_folder_whatever_this_command_ran(tmp_path: Path) -> None:
    """`--only AGIBI` after `--only ALIBI`: both lines are in the table and on the page."""
    changes = {"trainer.epochs": 1, "audit.canaries": 20, "data.limit": 200}
    sweep = a_sweep(base=with_changes(TrialConfig(), changes))
    for line in ("ALIBI", "AGIBI"):
        with without_cluster():
            outcome = run_sweep(sweep, SweepOptions(results=tmp_path, only=(line,), quiet=True))
        assert (outcome.trials, outcome.finished, outcome.left) == (2, 2, 0)
    rows = list(csv.DictReader((tmp_path / "pareto.csv").read_text().splitlines()))
    assert sorted(row["variant"] for row in rows) == ["AGIBI"] * 2 + ["ALIBI"] * 2
    assert "4 trials finished, 0 failed" in Path(outcome.report).read_text()
    assert outcome.tracked and "The 4 private trials together" in outcome.cost

"""sweep_report: how trials ended. Whole sweeps are run elsewhere."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.report.ledger import read_folder
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.sweep_report import _counts, report
from tests.platform.report.folders import a_folder
from tests.platform.sweep.examples import a_record


def sweep(*now: TrialRecord, skipped: tuple[TrialRecord, ...] = (), total: int) -> Any:
    return SimpleNamespace(
        plan=SimpleNamespace(total=total),
        recorder=SimpleNamespace(records={record.hash: record for record in now}),
        skipped={record.hash: record for record in skipped},
    )


def test_trials_are_counted_by_how_they_ended() -> None:
    over = TrialRecord(
        hash="c", variant="ALIBI", config={}, point={}, finished=False, over_budget=True
    )
    # What a reason happens to say decides nothing.
    failed = a_record("b", finished=False, reason="BudgetExceeded: said by somebody else")
    found = _counts(sweep(a_record("a"), failed, over, skipped=(a_record("d"),), total=6))
    assert found == {
        "trials": 6,
        "finished": 1,
        "failed": 2,
        "skipped": 1,
        "over_budget": 1,
        "left": 2,
    }


def test_a_report_holds_all_trials_of_the_folder_whatever_this_command_ran(tmp_path: Path) -> None:
    """`--only AGIBI` after `--only ALIBI`: both lines are in the table, the page and the front."""
    (key,) = a_folder(tmp_path, readers=0)
    folder = ResultsFolder(tmp_path, sweep="small")
    before = a_record("0a", variant="ALIBI", release_keys=(key,), epsilon=2.0, accuracy=0.9)
    now = a_record("1a", variant="AGIBI", release_keys=(key,), epsilon=2.0, accuracy=0.8)
    for record in (before, now):
        folder.keep(record)
    closed: list[dict[str, Any]] = []
    tracker = SimpleNamespace(
        uri="http://tracking.example",
        experiment_id="1",
        parent_run_id="parent",
        run_id=lambda digest: f"run of {digest}",
        close_parent=lambda **facts: closed.append(facts),
    )
    data = SimpleNamespace(public=SimpleNamespace(provenance=before.features_from))
    plan = SimpleNamespace(
        delta=1e-5,
        choose_by=ChooseBy.TEST,
        total=1,
        size=SimpleNamespace(num_labels=60),
        sweep=SimpleNamespace(name="small"),
        audit=SimpleNamespace(spoiled=0),
    )
    recorder = SimpleNamespace(
        folder=folder,
        records={"1a": now},
        tracker=tracker,
        replay=lambda records: set(records) == {"1a"},
    )
    lines = [line.charge for line in read_folder(tmp_path).lines]
    home = SimpleNamespace(ledger=lambda: lines)
    opened: Any = SimpleNamespace(plan=plan, data=data, recorder=recorder, skipped={}, home=home)
    outcome = report(opened)
    rows = list(csv.DictReader((tmp_path / "pareto.csv").read_text().splitlines()))
    assert sorted(row["variant"] for row in rows) == ["AGIBI", "ALIBI"]
    assert "2 trials finished, 0 failed" in Path(outcome.report).read_text()
    assert [row["run_id"] for row in outcome.pareto] == ["run of 0a"]
    assert (outcome.trials, outcome.finished, outcome.left) == (1, 1, 0)
    assert outcome.tracked and closed[0]["metrics"]["finished"] == 1
    assert "The 2 private trials together" in outcome.cost

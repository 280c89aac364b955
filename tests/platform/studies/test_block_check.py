"""block_check: evidence pooled over runs, against the attack on all canaries; runs end to end."""

import csv
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.auditing.memorization import memorization_interval_from_pairs
from labeldp.mechanisms.ledger import Budget
from labeldp.platform.cli import sweep_command
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.studies import block_check
from labeldp.platform.studies.block_check import TOGETHER, compare, run_blocks, table
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.overrides import load_sweep
from labeldp.platform.sweep.sweep import Sweep, SweepOptions
from labeldp.platform.sweep.sweep_report import SweepOutcome
from labeldp.platform.vault.audits import AttackEvidence, evidence_path
from tests.faults.without_cluster import without_cluster
from tests.platform.sweep.examples import a_record, a_sweep, an_outcome
from tests.source_tree import ROOT

PARTS = [TOGETHER, "block-0", "block-1"]
LEDGER = ("releases", "epsilon_releases", "epsilon_selection", "epsilon_total", "delta")


def leave_trial(
    root: Path, part: str, *, own: NDArray[Any], others: NDArray[Any], finished: bool = True
) -> None:
    folder = ResultsFolder(root / part, sweep=f"small_{part}")
    record = a_record(f"of-{part}", point={"trainer.epsilon": 2.0}, finished=finished)
    folder.keep(record)
    evidence = AttackEvidence(own=own, others=others, coin_margins=np.empty(0))
    evidence.write(evidence_path(folder.path, record.hash))


def a_tree(root: Path, **last: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """All canaries in one run, and the same in two halves."""
    generator = np.random.default_rng(0)
    own, others = 0.3 + 0.6 * generator.random(100), 0.4 * generator.random((100, 8))
    leave_trial(root, TOGETHER, own=own, others=others)
    leave_trial(root, "block-0", own=own[:50], others=others[:50])
    leave_trial(root, "block-1", own=own[50:], others=others[50:], **last)
    return own, others


def test_pooling_the_halves_gives_what_the_whole_gave(tmp_path: Path) -> None:
    own, others = a_tree(tmp_path)
    (row,) = compare(tmp_path, sweep="small", parts=PARTS, confidence=0.95)
    direct = memorization_interval_from_pairs(own, others, 0.95)
    for name, interval in (("paper", direct.paper), ("corrected", direct.corrected)):
        assert row[f"{name}_low"] == row[f"{name}_blocks_low"] == interval.epsilon_low > 0
        assert row[f"{name}_high"] == row[f"{name}_blocks_high"] == interval.epsilon_high
    assert (row["canaries"], row["blocks"], row["agree"]) == (100, 2, True)
    text = table([row])
    assert "1 x 100" in text and "2 x 50" in text


def test_a_trial_that_failed_in_one_block_has_no_row(tmp_path: Path) -> None:
    a_tree(tmp_path, finished=False)
    assert compare(tmp_path, sweep="small", parts=PARTS, confidence=0.95) == []
    assert "No trial finished" in table([])


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        ({"audit.canaries": 15}, "audit.canaries is 15.*multiple of 10"),
        ({"audit.canary_block": 2}, "audit.canary_block is set"),
    ],
)
def test_canaries_that_cannot_be_shared(
    overrides: dict[str, Any], word: str, tmp_path: Path
) -> None:
    options = SweepOptions(results=tmp_path / "out", overrides=overrides)
    with pytest.raises(ConfigurationError, match=word):
        run_blocks(a_sweep(), options, blocks=10)
    assert not (tmp_path / "out").exists()


def test_runs_share_budgets_and_time_and_their_counts_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Sweep, SweepOptions]] = []

    def note(sweep: Sweep, options: SweepOptions) -> SweepOutcome:
        asked.append((sweep, options))
        return an_outcome(
            finished=1,
            failed=1,
            skipped=1,
            over_budget=1,
            left=2,
            ledger=dict.fromkeys(LEDGER, 1.0),
        )

    monkeypatch.setattr(block_check, "run_sweep", note)
    monkeypatch.setattr(block_check, "connected", lambda address: nullcontext())
    times = iter([0.0, 30.0, 90.0, 150.0])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(block_check, "time", clock)
    sweep = a_sweep(budget=Budget(epsilon=6.0, delta=3e-5))
    options = SweepOptions(results=tmp_path / "out", max_epsilon_total=3.0, max_minutes=2.0)
    found = run_blocks(sweep, options, blocks=2)
    for part, given in asked:
        assert part.budget == Budget(epsilon=2.0, delta=1e-5)
        assert given.max_epsilon_total == 1.0
    assert [given.max_minutes for _, given in asked] == [1.5, 0.5, 1e-3]
    assert (found.trials, found.finished, found.over_budget, found.left) == (15, 3, 3, 6)
    assert found.ledger == dict.fromkeys(LEDGER, 3.0)


def test_the_sweep_runs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """sweeps/memorization.py at its smoke size, two blocks, one trial each, in this process."""
    monkeypatch.setattr(block_check, "connected", nullcontext)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    whole = load_sweep(str(ROOT / "sweeps" / "memorization.py"))
    sweep = replace(whole, variants=[v for v in whole.variants if v.name == "ALIBI"])
    runner: Callable[..., Any] = partial(run_blocks, blocks=2)
    arguments = ["--smoke", "--json", "--results", str(tmp_path / "out")]
    arguments += ["audit.canaries=40", "trainer.epochs=2"]
    with without_cluster():
        assert sweep_command.run(sweep, arguments, runner=runner) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["experiment"] == "memorization"
    assert (found["trials"], found["finished"], found["failed"], found["skipped"]) == (3, 3, 0, 0)
    assert found["ledger"]["releases"] == 3 and found["ledger"]["epsilon_total"] == 3 * 8.0
    (row,) = found["rows"]
    assert (row["variant"], row["canaries"], row["blocks"]) == ("ALIBI", 40, 2)
    assert row["paper_low"] <= row["paper_high"]
    with open(tmp_path / "out" / "blocks.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 1
    assert "1 x 40" in Path(found["report"]).read_text()
    for part in PARTS:
        folder = tmp_path / "out" / part
        (record,) = ResultsFolder(folder, sweep=f"memorization_{part}").records().values()
        # every audit of every trial of a sweep
        assert {"private/epsilon_one_run", "private/epsilon_f_dp"} <= set(record.metrics)
        assert (folder / "private" / "audits.html").exists()
        assert AttackEvidence.read(evidence_path(folder, record.hash)) is not None

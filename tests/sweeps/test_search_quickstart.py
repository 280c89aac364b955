"""A search under Tune itself; `tests/platform/sweep/test_search.py` has more without Ray."""

from pathlib import Path

import pytest

from labeldp.platform.records.results import ResultsFolder
from tests.faults.sweep_runs import Driver

pytestmark = [pytest.mark.ray_cluster, pytest.mark.timeout(600)]

SWEEP_FILE = Path(__file__).resolve().parents[2] / "sweeps" / "search_quickstart.py"


def test_every_trial_ends_as_a_whole_record_at_the_price_of_the_dearest_way(tmp_path: Path) -> None:
    settings = ("trainer.epochs=6", "evaluation.epsilon=8.0")
    command = ("--smoke", "--trials", "6", "--stop", "asha", "--quiet", *settings)
    with Driver(tmp_path / "results", *command, sweep=SWEEP_FILE) as driver:
        outcome = driver.finish(seconds=500)
        assert "accuracy" not in driver.log, "--quiet says nothing of trials that finish"
    assert (outcome["trials"], outcome["finished"], outcome["left"]) == (6, 6, 0)
    results = ResultsFolder(tmp_path / "results", sweep="search_quickstart")
    found = list(results.records().values())
    assert len(found) == 6
    for record in found:
        assert len(record.curves) == (record.stopped_early or 6)
        assert "epsilon_m_low" in record.metrics and "accuracy_estimated" in record.metrics
        assert "accuracy_estimated" in record.curves[0], "its rung after the first epoch"
    # Some trial was behind: rates from 1e-4 to 1 are a wide range, and counts of 8 are exact.
    assert any(record.stopped_early for record in found)
    # Six trials could have asked at the epochs 1 and 4, and at their ends: 18 counts of 8.
    ledger = outcome["ledger"]
    assert ledger["epsilon_total"] == 144.0
    assert ledger["epsilon_releases"] + ledger["epsilon_selection"] == 144.0
    assert ledger["epsilon_selection"] > 0

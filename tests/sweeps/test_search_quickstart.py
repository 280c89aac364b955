"""A search under Tune itself: one start of Ray; what is lost of it is run again without one."""

from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.sweep.configuration import AshaStop, OptunaSearch
from labeldp.platform.sweep.driver import run_sweep
from labeldp.platform.sweep.overrides import load_sweep
from labeldp.platform.sweep.sweep import SweepOptions
from tests.faults.sweep_runs import Driver
from tests.faults.without_cluster import without_cluster

pytestmark = [pytest.mark.ray_cluster, pytest.mark.timeout(600)]

SWEEP_FILE = Path(__file__).resolve().parents[2] / "sweeps" / "search_quickstart.py"
SETTINGS: dict[str, Any] = {"trainer.epochs": 6, "evaluation.epsilon": 8.0}


def records(results: Path) -> dict[str, TrialRecord]:
    return ResultsFolder(results, sweep="search_quickstart").records()


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    results = tmp_path_factory.mktemp("search") / "results"
    settings = [f"{key}={value}" for key, value in SETTINGS.items()]
    command = ("--smoke", "--trials", "6", "--stop", "asha", "--quiet", *settings)
    with Driver(results, *command, sweep=SWEEP_FILE) as driver:
        found = driver.finish(seconds=500)
        assert "accuracy" not in driver.log, "--quiet says nothing of trials that finish"
    return found


def test_every_trial_ends_as_a_whole_record(outcome: dict[str, Any]) -> None:
    assert (outcome["trials"], outcome["finished"], outcome["left"]) == (6, 6, 0)
    found = list(records(Path(outcome["results_dir"])).values())
    assert len(found) == 6
    for record in found:
        assert len(record.curves) == (record.stopped_early or 6)
        assert "epsilon_m_low" in record.metrics and "accuracy_estimated" in record.metrics
        assert "accuracy_estimated" in record.curves[0], "its rung after the first epoch"
    # Some trial was behind: rates from 1e-4 to 1 are a wide range, and counts of 8 are exact.
    assert any(record.stopped_early for record in found)


def test_the_price_is_that_of_the_dearest_way(outcome: dict[str, Any]) -> None:
    """Six trials could have asked at the epochs 1 and 4, and at their ends: 18 counts of 8."""
    ledger = outcome["ledger"]
    assert ledger["epsilon_total"] == 144.0
    assert ledger["epsilon_releases"] + ledger["epsilon_selection"] == 144.0
    assert ledger["epsilon_selection"] > 0


def test_a_lost_record_is_run_again_and_no_other(outcome: dict[str, Any]) -> None:
    results = Path(outcome["results_dir"])
    before = records(results)
    lost = max((results / "trials").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    lost.unlink()
    with without_cluster():
        again = run_sweep(
            load_sweep(str(SWEEP_FILE)),
            SweepOptions(
                results=results,
                overrides=SETTINGS,
                smoke=True,
                quiet=True,
                search=OptunaSearch(trials=6),
                stop=AshaStop(),
            ),
        )
    assert (again.trials, again.skipped, again.finished, again.left) == (6, 5, 1, 0)
    after = records(results)
    assert set(after) == set(before)
    assert dict(after[lost.stem].point) == dict(before[lost.stem].point)

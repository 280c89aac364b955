"""SIGKILL of the driver in the middle of a sweep, and a second driver on the same folder."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.small_sweep import EPOCHS, RELEASES, SWEEP, TRIALS
from tests.faults.sweep_runs import Driver, Ending, check_tracking, records, run_here


@pytest.mark.ray_cluster
def test_a_sweep_whose_driver_was_killed_ends_as_in_peace(
    cluster: Any, undisturbed: Ending, tmp_path: Path
) -> None:
    results, there = tmp_path / "results", ("--address", cluster.address)
    with Driver(results, *there) as driver:
        driver.wait_for_records(2)
        code, said = run_here(SWEEP, "--results", str(results))
        driver.kill()
    # A second driver is refused while the first one lives.
    assert code == 2 and "Traceback" not in said
    assert "in use by process" in said and "--results" in said
    before = {record["hash"]: record for record in records(results)}
    with Driver(results, *there, "--resume", "must") as driver:
        outcome = driver.finish()
    # What was finished is not run again, and no release is paid for twice.
    assert outcome["skipped"] == len(before) >= 2
    assert outcome["finished"] == TRIALS - outcome["skipped"]
    after = {record["hash"]: record for record in records(results)}
    assert {digest: after[digest] for digest in before} == before
    assert Ending.of(results) == undisturbed
    assert len(undisturbed.trials) == TRIALS
    assert all(len(curves) == EPOCHS for *_, curves in undisturbed.trials.values())
    assert outcome["ledger"]["releases"] == RELEASES == len(undisturbed.releases)
    # ALIBI at 1 and 4, AGIBI at 2: every label is in all three.
    assert outcome["ledger"]["epsilon_total"] == pytest.approx(7.0)
    check_tracking(results)

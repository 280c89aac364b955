"""SIGKILL of an actor, then of the driver, in the middle of an ensemble."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow.tracking import MlflowClient

from labeldp.platform.vault.vault_store import VoteJournal
from tests.faults import ensemble_sweep
from tests.faults.ensemble_sweep import TEACHERS
from tests.faults.processes import alive, titled, wait_until
from tests.faults.small_sweep import EPOCHS, RELEASES, SWEEP, TRIALS
from tests.faults.sweep_runs import (
    TIME_LIMIT_SECONDS,
    Driver,
    Ending,
    check_tracking,
    records,
    run_here,
)


def journal_of(results: Path) -> VoteJournal | None:
    """Return the one journal of votes beside these results, as it is now."""
    for folder in (results.parent / "votes").glob("*/"):
        return VoteJournal(folder, teachers=TEACHERS, queries=100, classes=10)
    return None


def finished(results: Path) -> set[int]:
    journal = journal_of(results)
    return set() if journal is None else journal.finished


# A busy machine takes minutes for three starts of Ray; a quiet one, half of one.
@pytest.mark.fault
@pytest.mark.ray_cluster
@pytest.mark.timeout(900)
def test_an_ensemble_whose_actor_and_driver_were_killed_ends_as_in_peace(
    cluster: Any, tmp_path: Path
) -> None:
    sweep, results, peace = (
        Path(ensemble_sweep.__file__),
        tmp_path / "killed" / "results",
        tmp_path / "peace" / "results",
    )

    def wait_for(teachers: int) -> None:
        wait_until(
            lambda: len(finished(results)) >= teachers,
            what=f"{teachers} teachers vote",
            seconds=TIME_LIMIT_SECONDS,
        )

    with Driver(results, sweep=sweep) as driver:
        wait_for(3)
        actor = titled(driver.processes(), "ray::TeacherActor")[0]
        actor.kill()
        wait_for(len(finished(results)) + 3)  # the death of an actor stops nothing
        driver.kill()
        processes = driver.processes()
    assert not any(map(alive, [actor, *processes]))
    before = finished(results)
    assert 6 <= len(before) < TEACHERS, "the driver was not killed in the middle"
    with Driver(results, "--resume", "must", sweep=sweep) as driver:
        outcome = driver.finish()
        log = driver.log
    # Only unfinished teachers are trained again.
    client = MlflowClient(tracking_uri=outcome["tracking_uri"])
    metrics = client.get_run(outcome["parent_run_id"]).data.metrics
    trained = TEACHERS - len(before)
    assert (metrics["teachers_reused"], metrics["teachers_trained"]) == (len(before), trained)
    assert outcome["finished"] == ensemble_sweep.TRIALS
    assert f"{trained} trained in" in log and f"{len(before)} reused" in log

    code, said = run_here(
        ensemble_sweep.SWEEP, "--results", str(peace), "--address", cluster.address
    )
    assert code == 0, said
    journal, other = journal_of(results), journal_of(peace)
    assert journal is not None and other is not None
    np.testing.assert_array_equal(journal.votes(), other.votes())
    assert Ending.of(results) == Ending.of(peace)

    second = results.with_name("second")
    with journal.writing():  # as a driver holds it while it trains
        code, said = run_here(
            ensemble_sweep.SWEEP, "--results", str(second), "--address", cluster.address
        )
    assert code == 2, said
    assert "another process is training the ensemble" in said and "Traceback" not in said


# SIGKILL of the driver in the middle of a sweep, and a second driver on the same folder.


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

"""SIGKILL of the driver in the middle of a sweep, and a second driver on the same folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.cli.command import ExitCode
from tests.faults.processes import wait_until
from tests.faults.small_sweep import EPOCHS, RELEASES, SWEEP, TRIALS
from tests.faults.sweep_runs import Driver, Ending, check_tracking, records, run_here

pytestmark = pytest.mark.ray_cluster


@dataclass(frozen=True)
class Story:
    """A sweep whose driver was killed, and that was run again."""

    results: Path
    refused: tuple[int, str]
    finished_before: dict[str, Any]
    outcome: dict[str, Any]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    results = tmp_path_factory.mktemp("killed") / "results"
    with Driver(results) as driver:
        driver.wait_for_records(2)
        refused = run_here(SWEEP, "--results", str(results))
        driver.kill()
    before = {record["hash"]: record for record in records(results)}
    with Driver(results, "--resume", "must") as driver:
        outcome = driver.finish()
    return Story(results, refused, before, outcome)


def test_what_was_finished_is_not_run_again(story: Story) -> None:
    assert story.outcome["skipped"] == len(story.finished_before) >= 2
    assert story.outcome["finished"] == TRIALS - story.outcome["skipped"]
    after = {record["hash"]: record for record in records(story.results)}
    assert len(after) == TRIALS
    for digest, record in story.finished_before.items():
        assert after[digest] == record


def test_the_end_is_that_of_an_undisturbed_sweep(story: Story, undisturbed: Ending) -> None:
    assert Ending.of(story.results) == undisturbed
    assert len(undisturbed.trials) == TRIALS
    assert all(len(curves) == EPOCHS for *_, curves in undisturbed.trials.values())


def test_no_release_was_paid_for_twice(story: Story, undisturbed: Ending) -> None:
    assert story.outcome["ledger"]["releases"] == RELEASES == len(undisturbed.releases)
    # ALIBI at 1 and 4, AGIBI at 2: every label is in all three.
    assert story.outcome["ledger"]["epsilon_total"] == pytest.approx(7.0)


def test_tracking_has_every_trial_once(story: Story) -> None:
    check_tracking(story.results)


def test_a_second_driver_is_refused_while_the_first_lives(story: Story) -> None:
    code, said = story.refused
    assert code == 2
    assert "in use by process" in said and "--results" in said and "Traceback" not in said


def test_a_driver_that_is_asked_to_end_ends_cleanly(tmp_path: Path) -> None:
    with Driver(tmp_path / "results", "seed=[0,1,2]") as driver:
        driver.wait_for_records(1)
        driver.terminate()
        assert driver.ended(seconds=60) == ExitCode.INTERRUPTED
        wait_until(
            lambda: not any(process.alive for process in driver.seen),
            what="all that it started ends",
            seconds=30,
        )
        assert "interrupted; finished trials are kept" in driver.log
        assert "Traceback" not in driver.log
    assert 1 <= len(records(tmp_path / "results")) < 3 * TRIALS
    identity = json.loads((tmp_path / "results" / "sweep.json").read_text())
    assert identity["parent_run_id"]

"""SIGKILL of an actor, then of the driver, in the middle of an ensemble."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow.tracking import MlflowClient
from numpy.typing import NDArray

from labeldp.platform.vault.vote_store import VoteJournal
from tests.faults import ensemble_sweep
from tests.faults.ensemble_sweep import SWEEP, TEACHERS, TRIALS
from tests.faults.processes import Process, titled, wait_until
from tests.faults.sweep_runs import TIME_LIMIT_SECONDS, Driver, Ending, run_here

# A busy machine takes minutes for three starts of Ray; a quiet one, half of one.
pytestmark = [pytest.mark.fault, pytest.mark.ray_cluster, pytest.mark.timeout(900)]

SWEEP_FILE = Path(ensemble_sweep.__file__)


@dataclass(frozen=True)
class Story:
    """An ensemble whose actor and driver were killed, and that was run again."""

    results: Path
    finished_before: set[int]
    processes: list[Process]
    killed_actor: Process
    after_the_actor: set[int]
    outcome: dict[str, Any]
    log: str


def journal_of(results: Path) -> VoteJournal | None:
    """Return the one journal of votes beside these results, as it is now."""
    for path in (results.parent / "votes").glob("*.votes"):
        with open(path, "rb") as file:
            head = file.read(4096).splitlines()
        if len(head) > 1:
            facts = json.loads(head[1])
            facts.pop("version")
            return VoteJournal(path, **facts)
    return None


def finished(results: Path) -> set[int]:
    journal = journal_of(results)
    return set() if journal is None else journal.finished


def votes_of(results: Path) -> NDArray[np.uint8]:
    journal = journal_of(results)
    assert journal is not None
    return journal.votes()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    results = tmp_path_factory.mktemp("killed") / "results"

    def wait_for(teachers: int) -> None:
        wait_until(
            lambda: len(finished(results)) >= teachers,
            what=f"{teachers} teachers vote",
            seconds=TIME_LIMIT_SECONDS,
        )

    with Driver(results, sweep=SWEEP_FILE) as driver:
        wait_for(3)
        actor = titled(driver.processes(), "ray::TeacherActor")[0]
        actor.end()
        reached = finished(results)
        wait_for(len(reached) + 3)
        before = finished(results)
        driver.kill()
        processes = driver.processes()
    before |= finished(results)
    with Driver(results, "--resume", "must", sweep=SWEEP_FILE) as driver:
        outcome = driver.finish()
        return Story(
            results=results,
            finished_before=before,
            processes=processes,
            killed_actor=actor,
            after_the_actor=reached,
            outcome=outcome,
            log=driver.log,
        )


def test_only_unfinished_teachers_are_trained_again(story: Story) -> None:
    assert 6 <= len(story.finished_before) < TEACHERS, "the driver was not killed in the middle"
    client = MlflowClient(tracking_uri=story.outcome["tracking_uri"])
    metrics = client.get_run(story.outcome["parent_run_id"]).data.metrics
    assert metrics["teachers_reused"] == len(story.finished_before)
    assert metrics["teachers_trained"] == TEACHERS - len(story.finished_before)
    assert story.outcome["finished"] == TRIALS
    said = f"{TEACHERS - len(story.finished_before)} trained in"
    assert said in story.log and f"{len(story.finished_before)} reused" in story.log


def test_votes_and_answers_are_those_of_an_undisturbed_run(
    story: Story, cluster: Any, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    code, said = run_here(SWEEP, "--results", str(results), "--address", cluster.address)
    assert code == 0, said
    np.testing.assert_array_equal(votes_of(story.results), votes_of(results))
    assert Ending.of(story.results) == Ending.of(results)


def test_the_death_of_an_actor_stops_nothing(story: Story) -> None:
    assert len(story.finished_before) >= len(story.after_the_actor) + 3


def test_nothing_is_left_running(story: Story) -> None:
    assert not story.killed_actor.alive
    assert not [process for process in story.processes if process.alive]


def test_a_second_driver_on_the_same_ensemble_is_refused(story: Story, cluster: Any) -> None:
    journal = journal_of(story.results)
    assert journal is not None
    second = story.results.with_name("second")
    with journal.writing():  # as a driver holds it while it trains
        code, said = run_here(SWEEP, "--results", str(second), "--address", cluster.address)
    assert code == 2, said
    assert "another process is training the ensemble" in said and "Traceback" not in said

"""Sweeps that may not go on: over budget, out of time, too large, diverging, on no cluster."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray

from labeldp.platform.settings.configuration import with_changes
from labeldp.platform.settings.sweep import Grid, Resources, Sweep
from labeldp.platform.sweep import open_sweep, plan
from tests.faults.ensemble_sweep import SWEEP as ENSEMBLE
from tests.faults.small_sweep import SWEEP
from tests.faults.sweep_runs import Ending, records, run_here
from tests.faults.without_cluster import without_cluster

pytestmark = pytest.mark.ray_cluster

QUICK = Sweep(
    name="quick",
    base=with_changes(SWEEP.base, {"trainer.epochs": 1}),
    space={"trainer.epsilon": Grid(1.0, 2.0)},
)


@pytest.fixture
def here() -> Iterator[None]:
    with without_cluster():
        yield


@pytest.mark.usefixtures("here")
def test_releases_that_add_up_to_more_than_the_budget(tmp_path: Path) -> None:
    command = ["--results", str(tmp_path), "--max-epsilon-total"]
    # Both at once: refused before anything starts.
    code, said = run_here(QUICK, *command, "2.5")
    assert code == 4 and "the budget is epsilon 2.5" in said and "would make it 3" in said
    assert list(tmp_path.iterdir()) == []
    # One after the other: the second start counts what the first has spent.
    code, said = run_here(QUICK, *command, "2.5", "trainer.epsilon=1.0")
    assert code == 0, said
    code, said = run_here(QUICK, *command, "2.5", "trainer.epsilon=2.0")
    assert code == 4, said
    assert "1 is spent and this would make it 3" in said
    assert len(Ending.of(tmp_path).releases) == len(records(tmp_path)) == 1
    # With more to spend, only the refused trial runs.
    code, said = run_here(QUICK, *command, "3", "--json")
    assert code == 0, said
    outcome = json.loads(said.splitlines()[-1])
    assert (outcome["finished"], outcome["skipped"], outcome["over_budget"]) == (1, 1, 0)
    assert outcome["ledger"]["epsilon_total"] == 3.0


@pytest.mark.usefixtures("here")
def test_the_vault_refuses_what_a_plan_did_not_foresee(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "check_budget", lambda *plan, **facts: None)
    monkeypatch.setattr(open_sweep, "check_what_is_left", lambda *plan, **facts: None)
    command = ["--results", str(tmp_path), "--json", "--max-epsilon-total", "2.5"]
    code, said = run_here(QUICK, *command)
    assert code == 4, said
    outcome = json.loads(said.splitlines()[-1])
    assert (outcome["finished"], outcome["failed"], outcome["over_budget"]) == (1, 1, 1)
    assert outcome["ledger"]["epsilon_total"] in (1.0, 2.0)
    (failed,) = [record for record in records(tmp_path) if not record["finished"]]
    assert failed["over_budget"] and "the budget is epsilon 2.5" in failed["reason"]


def test_a_sweep_that_runs_out_of_time_can_be_run_again(cluster: Any, tmp_path: Path) -> None:
    command = ["--results", str(tmp_path), "--address", cluster.address]
    code, said = run_here(QUICK, *command, "--max-minutes", "0.001")
    assert code == 1, said
    assert "2 trials are left; run the same command again" in said
    assert records(tmp_path) == []


def test_an_actor_that_fits_nowhere_is_refused(cluster: Any, tmp_path: Path) -> None:
    sweep = replace(ENSEMBLE, teacher=Resources(cpu=1000))
    results = tmp_path / "results"
    code, said = run_here(sweep, "--results", str(results), "--address", cluster.address)
    assert code == 3, said
    assert "an actor that trains teachers needs 1000 CPU + 0 GPU on one node" in said
    assert "the nodes have" in said and not records(results)


def test_teachers_that_cannot_be_trained_are_named(cluster: Any, tmp_path: Path) -> None:
    results = tmp_path / "results"
    code, said = run_here(
        ENSEMBLE,
        *("--results", str(results), "--address", cluster.address),
        *("trainer.ensemble.teachers=3", "trainer.threshold=2", "trainer.answers=10"),
        "trainer.ensemble.network.learning_rate=1e30",
    )
    assert code == 1 and "Traceback" not in said, said
    assert "3 of 3 teachers could not be trained; teacher" in said
    assert "failed 3 times, the last time with: TrainingDiverged" in said
    assert not records(results)


def test_an_address_where_nothing_is(tmp_path: Path) -> None:
    started = time.monotonic()
    code, said = run_here(QUICK, "--results", str(tmp_path), "--address", "127.0.0.1:9")
    assert code == 2
    assert "the Ray cluster at 127.0.0.1:9 can't be used" in said and "Traceback" not in said
    assert time.monotonic() - started < 60


def test_a_cluster_of_another_version_of_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**settings: Any) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.59.0\n"
            "    Python: 3.12.1\nThis process on node 192.0.2.1 was started with:\n"
            "    Ray: 2.60.0\n    Python: 3.11.9\n"
        )

    monkeypatch.setattr(ray, "init", init)
    code, said = run_here(QUICK, "--results", str(tmp_path), "--address", "auto")
    assert code == 2
    assert "2.59.0" in said and "2.60.0" in said and "the same versions" in said

"""Ensembles that can't be: refused before anything starts, or given up with a name and a reason."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.settings.sweep import Resources
from tests.faults.ensemble_sweep import SWEEP
from tests.faults.sweep_runs import records, run_here


@pytest.mark.ray_cluster
def test_an_actor_that_fits_nowhere_is_refused(cluster: Any, tmp_path: Path) -> None:
    sweep = replace(SWEEP, teacher=Resources(cpu=1000))
    results = tmp_path / "results"
    code, said = run_here(sweep, "--results", str(results), "--address", cluster.address)
    assert code == 3, said
    assert "an actor that trains teachers needs 1000 CPU + 0 GPU on one node" in said
    assert "the nodes have" in said and not records(results)


@pytest.mark.ray_cluster
def test_teachers_that_cannot_be_trained_are_named(cluster: Any, tmp_path: Path) -> None:
    results = tmp_path / "results"
    code, said = run_here(
        SWEEP,
        *("--results", str(results), "--address", cluster.address),
        *("trainer.ensemble.teachers=3", "trainer.threshold=2", "trainer.answers=10"),
        "trainer.ensemble.network.learning_rate=1e30",
    )
    assert code == 1 and "Traceback" not in said, said
    assert "3 of 3 teachers could not be trained; teacher" in said
    assert "failed 3 times, the last time with: TrainingDiverged" in said
    assert not records(results)

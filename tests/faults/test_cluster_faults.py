"""On a cluster: whole nodes and the tracking server die."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.records import recorder
from labeldp.platform.sweep import trial_runs
from labeldp.platform.sweep.sweep import Resources
from tests.faults.mischief import Mischief
from tests.faults.small_sweep import SWEEP, TRIALS
from tests.faults.sweep_runs import Ending, check_tracking, records, run_here
from tests.faults.tracking_server import TrackingServer

pytestmark = [pytest.mark.fault, pytest.mark.ray_cluster]


def test_nodes_and_the_tracking_server_may_die(
    cluster: Any, undisturbed: Ending, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = replace(SWEEP, resources=Resources(cpus=1, gpus=1))
    results = tmp_path / "results"
    command = ["--results", str(results), "--address", cluster.address]
    monkeypatch.setattr(recorder, "RETRY_SECONDS", 1.0)
    monkeypatch.setattr(trial_runs, "TELL_SECONDS", 2.0)
    with TrackingServer(tmp_path) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        first, second = (cluster.add_node(num_cpus=1, num_gpus=1) for _ in range(2))
        acts = [
            (1, server.kill),
            (2, lambda: cluster.remove_node(first, allow_graceful=False)),
            (3, server.start),
            (4, lambda: cluster.remove_node(second, allow_graceful=False)),
            (4, lambda: monkeypatch.setattr(trial_runs, "WAIT_SECONDS", 6.0)),
        ]
        with Mischief(results, acts):
            code, said = run_here(sweep, *command)
        # The node that could hold a trial is gone: that ends, and says what is missing.
        assert code == 3, said
        assert "tracking does not answer" in said
        assert "trials wait for a place" in said
        assert "no trial got a place" in said and "1 CPU + 1 GPU" in said
        finished = len(records(results))
        assert 4 <= finished < TRIALS

        monkeypatch.undo()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        third = cluster.add_node(num_cpus=1, num_gpus=1)
        code, said = run_here(sweep, *command, "--resume", "must")
        cluster.remove_node(third)
        assert code == 0, said
        assert f"({finished} finished before)" in said
        assert Ending.of(results) == undisturbed
        check_tracking(results)

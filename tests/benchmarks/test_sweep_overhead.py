"""What the platform adds to 200 trivial trials on two simulated nodes and a tracking server.

A trial of the reference machine (two quiet cores) takes a few hundredths of a second; all else is
Ray's, Tune's and ours: start, results, records, tracking.
"""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

from tests.benchmarks.trivial_sweep import TRIALS
from tests.faults.sweep_runs import Driver, check_tracking, records
from tests.faults.tracking_server import TrackingServer

pytestmark = [pytest.mark.benchmark, pytest.mark.ray_cluster]

SWEEP = Path(__file__).with_name("trivial_sweep.py")


def _peak_until_its_end(driver: Driver) -> int:
    """Most memory that the driver ever held, its report included, in bytes."""
    memory = driver.memory()
    while driver.lives:
        # Between its end and our next look its status has no memory any more, or is gone.
        with contextlib.suppress(OSError, StopIteration):
            memory = max(memory, driver.memory())
        time.sleep(0.05)
    return memory


def test_two_hundred_trials_on_two_nodes(tmp_path: Path) -> None:
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        with TrackingServer(tmp_path) as server:
            results = tmp_path / "results"
            with Driver(
                results,
                "--address",
                cluster.address,
                sweep=SWEEP,
                environment={"MLFLOW_TRACKING_URI": server.uri},
            ) as driver:
                driver.wait_for_records(1)
                computed = -driver.cpu_seconds()
                driver.wait_for_records(TRIALS - 1)
                computed += driver.cpu_seconds()
                memory = _peak_until_its_end(driver)
                outcome = driver.finish(seconds=600)
            requests = server.log.count('HTTP/1.1"')
            check_tracking(results)
    finally:
        cluster.shutdown()
    assert outcome["finished"] == TRIALS and outcome["tracked"]

    ended = sorted(path.stat().st_mtime for path in (results / "trials").glob("*.json"))
    pace = (ended[-1] - ended[0]) / (TRIALS - 1)
    own = sum(record["seconds"] for record in records(results)) / TRIALS / 2  # two at a time
    figures = {
        "seconds_per_trial": round(pace, 3),
        "overhead_per_trial": round(pace - own, 3),
        "driver_computes_per_trial": round(computed / (TRIALS - 2), 3),
        "driver_megabytes": memory // 2**20,
        "tracking_requests_per_trial": round(requests / TRIALS, 1),
        "tracking_requests_per_second": round(requests / (ended[-1] - ended[0]), 1),
    }
    print(json.dumps(figures))
    assert pace - own < 0.5, figures
    assert memory < 2**30, figures

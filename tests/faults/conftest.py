"""What the fault tests share: a cluster, and the small sweep's end when nothing happens to it."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from filelock import FileLock

from tests.faults.sweep_runs import TIME_LIMIT_SECONDS, Driver, Ending


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ending:
    """Run the small sweep once, in peace; processes that share the tests share it too."""
    mine = tmp_path_factory.getbasetemp()
    together = mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine
    results = together / "undisturbed" / "results"
    with FileLock(together / "undisturbed.lock", timeout=TIME_LIMIT_SECONDS):
        if not (results / "report.html").exists():
            with Driver(results) as driver:
                driver.finish()
    return Ending.of(results)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Start a cluster of one node with two cores; tests add nodes with GPUs that are not there."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "num_gpus": 0, "include_dashboard": False}
    started: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield started
    finally:
        started.shutdown()

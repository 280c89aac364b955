"""What the fault tests share: a cluster, and the small sweep's end when nothing happens to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.sweep_runs import Driver, Ending


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ending:
    """Run the small sweep once, in peace."""
    results = tmp_path_factory.mktemp("undisturbed") / "results"
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

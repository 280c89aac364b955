"""What the fault tests share: a cluster, and the small sweep's end when nothing happens to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.small_sweep import SWEEP
from tests.faults.sweep_runs import Ending, run_here
from tests.faults.without_cluster import without_cluster


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ending:
    """Run the small sweep once, in peace, in this process."""
    results = tmp_path_factory.mktemp("undisturbed") / "results"
    with without_cluster():
        code, said = run_here(SWEEP, "--results", str(results))
    assert code == 0, said
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

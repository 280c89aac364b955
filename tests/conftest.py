"""A cluster for all tests that need a real one, and which process runs which file."""

from collections.abc import Iterator
from typing import Any

import pytest


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each file to one process, and all files on the cluster to the same one.

    Files that start Ray run first: left to the end, the longest would run alone.
    """
    on_cluster = {item.path for item in items if "cluster" in getattr(item, "fixturenames", ())}
    with_ray = {item.path for item in items if item.get_closest_marker("ray_cluster")}
    items.sort(key=lambda item: (item.path not in on_cluster, item.path not in with_ray))
    if config.getoption("dist", "no") == "loadgroup":
        for item in items:
            group = "cluster" if item.path in on_cluster else str(item.path)
            item.add_marker(pytest.mark.xdist_group(group))

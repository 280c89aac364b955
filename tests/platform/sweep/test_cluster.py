"""cluster: where a trial fits, and a private cluster's start. No Ray is started here.

What a private cluster leaves open to others is seen in tests/faults/test_private_cluster.py.
"""

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray._private import parameter

from labeldp.platform.sweep import cluster
from labeldp.platform.sweep.cluster import place
from labeldp.platform.sweep.sweep import CannotFit, Resources
from tests.platform.sweep.examples import a_cluster


def test_a_share_of_a_gpu_is_dropped_without_gpus_unless_required() -> None:
    wanted = Resources(cpus=2, gpus=0.5)
    assert place(wanted, a_cluster((2, 0)), gpu_required=False) == Resources(cpus=2, gpus=0)
    assert place(wanted, a_cluster((2, 1)), gpu_required=False) == wanted
    # An autoscaler may bring one: better wait for it than train for days without.
    assert place(wanted, a_cluster((2, 0), grows=True), gpu_required=False) == wanted
    placed = place(Resources(cpus=1), a_cluster((4, 1)), gpu_required=True)
    assert placed == Resources(cpus=1, gpus=1)


@pytest.mark.parametrize(
    ("wanted", "sizes", "gpu_required"),
    [
        (Resources(cpus=5), [(4.0, 0.0), (4.0, 0.0)], False),  # eight cores, but not on one node
        (Resources(cpus=1), [(4.0, 0.0)], True),
        (Resources(cpus=8, gpus=1), [(8.0, 0.0), (2.0, 1.0)], False),
        (Resources(cpus=1), [], False),
    ],
)
def test_a_trial_larger_than_every_node_is_refused(
    wanted: Resources, sizes: list[tuple[float, float]], gpu_required: bool
) -> None:
    with pytest.raises(CannotFit) as caught:
        place(wanted, a_cluster(*sizes), gpu_required=gpu_required)
    for word in (f"{wanted.cpus:g} CPU", "on one node", "ask for less, or add a node"):
        assert word in str(caught.value)
    place(wanted, a_cluster(*sizes, grows=True), gpu_required=gpu_required)


def test_the_options_that_ray_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ray's own bound labels of 100,000 rows would not travel with the request."""
    given: dict[str, Any] = {}

    def init(**options: Any) -> None:
        given.update(options, agent=parameter.RayParams().dashboard_agent_listen_port)

    node = SimpleNamespace(node_ip_address="127.0.0.1")
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray._private.worker, "_global_node", node)
    cluster.start_private()
    assert given["_system_config"]["max_direct_call_object_size"] >= 4_000_000
    assert given["agent"] == 0  # any free port, and not the one that `ray start` needs
    assert parameter.RayParams().dashboard_agent_listen_port == 52365

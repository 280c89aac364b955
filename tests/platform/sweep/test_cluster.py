"""cluster: where a trial fits, and that a place which can never come is refused at once."""

import pytest

from labeldp.platform.records.tracking_address import TrackingUnusable
from labeldp.platform.sweep.cluster import CannotFit, Capacity, ClusterUnusable, connected, place
from labeldp.platform.sweep.open_sweep import check_one_writer
from labeldp.platform.sweep.sweep import Resources


def capacity(*sizes: tuple[float, float], grows: bool = False) -> Capacity:
    return Capacity(
        nodes=len(sizes),
        cpus=sum(cpus for cpus, _ in sizes),
        gpus=sum(gpus for _, gpus in sizes),
        largest=sizes,
        grows=grows,
    )


def test_a_share_of_a_gpu_is_dropped_where_there_is_none() -> None:
    wanted = Resources(cpus=2, gpus=0.5)
    assert place(wanted, capacity((2, 0)), gpu_required=False) == Resources(cpus=2, gpus=0)
    assert place(wanted, capacity((2, 1)), gpu_required=False) == wanted
    # An autoscaler may bring one: better wait for it than train for days without.
    assert place(wanted, capacity((2, 0), grows=True), gpu_required=False) == wanted


def test_a_configuration_that_insists_on_a_gpu_gets_one() -> None:
    placed = place(Resources(cpus=1), capacity((4, 1)), gpu_required=True)
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
def test_what_no_node_can_hold_is_refused(
    wanted: Resources, sizes: list[tuple[float, float]], gpu_required: bool
) -> None:
    with pytest.raises(CannotFit) as caught:
        place(wanted, capacity(*sizes), gpu_required=gpu_required)
    for word in (f"{wanted.cpus:g} CPU", "on one node", "ask for less, or add a node"):
        assert word in str(caught.value)
    place(wanted, capacity(*sizes, grows=True), gpu_required=gpu_required)


def test_a_store_in_a_file_serves_one_node() -> None:
    check_one_writer("sqlite:////x/mlflow.db", capacity((2, 0)))
    check_one_writer("http://127.0.0.1:5000", capacity((2, 0), (2, 0)))
    with pytest.raises(TrackingUnusable, match=r"2 nodes; start a server .*MLFLOW_TRACKING_URI"):
        check_one_writer("sqlite:////x/mlflow.db", capacity((2, 0), (2, 0)))


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ClusterUnusable, match=r"at nonsense can't be used .*--address"):
        with connected("nonsense"):
            pass

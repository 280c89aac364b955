"""Before the trials: how large a pool is, who is told of progress."""

import io
from dataclasses import replace

import pytest

from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.sweep.cluster import Capacity
from labeldp.platform.sweep.sweep import Resources
from labeldp.platform.vault import ensembles
from labeldp.platform.vault.teacher_pool import PoolProgress, pool_size


def a_cluster(*nodes: tuple[float, float]) -> Capacity:
    return Capacity(
        nodes=len(nodes),
        cpus=sum(cpus for cpus, _ in nodes),
        gpus=sum(gpus for _, gpus in nodes),
        largest=nodes,
        grows=False,
    )


@pytest.mark.parametrize(
    ("each", "cluster", "actors"),
    [
        (Resources(cpus=1), a_cluster((2, 0)), 2),
        (Resources(cpus=0.5), a_cluster((2, 0)), 4),
        # Three cores in two places hold two actors of two cores, not three.
        (Resources(cpus=2), a_cluster((3, 0), (3, 0)), 2),
        (Resources(cpus=1, gpus=0.25), a_cluster((16, 1)), 4),
        (Resources(cpus=4, gpus=0.25), a_cluster((8, 1), (8, 0)), 2),
        (Resources(cpus=0.1), a_cluster((0.3, 0)), 3),
        # One that does not fit now is asked for all the same: a node may come back.
        (Resources(cpus=1, gpus=1), a_cluster((2, 0)), 1),
        (Resources(cpus=0), a_cluster((2, 0)), 2),
    ],
)
def test_a_pool_is_as_large_as_the_nodes_hold(
    each: Resources, cluster: Capacity, actors: int
) -> None:
    assert pool_size(each, cluster) == actors


def test_a_cluster_that_grows_is_asked_for_more_than_it_has() -> None:
    empty = replace(a_cluster((0, 0)), grows=True)
    assert pool_size(Resources(cpus=1, gpus=1), empty) == ensembles.GROWN_ACTORS


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("labeldp.platform.vault.ensembles.time.monotonic", lambda: clock[0])
    said = io.StringIO()
    tell = ensembles._Teller(SweepProgress(total=1, skipped=0, stream=said))
    for second in range(25):
        clock[0] = float(second)
        tell(PoolProgress(done=second, total=100, per_hour=3600.0, seconds_left=100.0 - second))
    lines = said.getvalue().splitlines()
    assert lines == [
        "teachers: 10/100, 3,600 per hour, about 90 s left",
        "teachers: 20/100, 3,600 per hour, about 80 s left",
    ]

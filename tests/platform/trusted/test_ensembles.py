"""Before the trials: which ensembles there are, how large a pool is, who is told of progress."""

import io

import pytest

from labeldp.platform.cluster import Capacity
from labeldp.platform.configuration import TrialConfig
from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.space import Grid
from labeldp.platform.sweep import Resources, Sweep, plan_trials
from labeldp.platform.trusted import ensembles
from labeldp.platform.trusted.ensembles import ensembles_of, pool_size
from labeldp.platform.trusted.teacher_pool import PoolProgress
from labeldp.trainers.pate.pate_fm import PateConfig


def a_cluster(*nodes: tuple[float, float]) -> Capacity:
    return Capacity(
        nodes=len(nodes),
        cpus=sum(cpus for cpus, _ in nodes),
        gpus=sum(gpus for _, gpus in nodes),
        largest=nodes,
        grows=False,
    )


def test_settings_of_the_noise_share_an_ensemble() -> None:
    sweep = Sweep(
        name="noise",
        base=TrialConfig(method="pate", trainer=PateConfig()),
        space={
            "trainer.sigma1": Grid(50.0, 100.0),
            "trainer.threshold": Grid(100.0, 150.0),
            "trainer.answers": Grid(300, 500),
            "trainer.ensemble.teachers": Grid(100, 250),
        },
    )
    trials = plan_trials(sweep)
    assert len(trials) == 16
    assert sorted(each.teachers for each in ensembles_of(trials)) == [100, 250]


def test_other_methods_have_no_ensemble() -> None:
    assert ensembles_of(plan_trials(Sweep(name="alibi", base=TrialConfig()))) == {}


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
        # A cluster that may grow begins with one.
        (Resources(cpus=1, gpus=1), a_cluster((2, 0)), 1),
        (Resources(cpus=0), a_cluster((2, 0)), 2),
    ],
)
def test_a_pool_is_as_large_as_the_nodes_hold(
    each: Resources, cluster: Capacity, actors: int
) -> None:
    assert pool_size(each, cluster) == actors


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("labeldp.platform.trusted.ensembles.time.monotonic", lambda: clock[0])
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

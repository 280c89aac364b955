"""open_sweep: who may write one file, whose coins are secret. Whole sweeps are run elsewhere."""

import pytest

from labeldp.platform.cluster import Capacity
from labeldp.platform.configuration import TrialConfig, with_changes
from labeldp.platform.open_sweep import _coin_seed, check_one_writer
from labeldp.platform.records.tracking_address import TrackingUnusable
from labeldp.platform.sweep import PlannedTrial


def cluster(nodes: int) -> Capacity:
    size = (4.0, 0.0)
    return Capacity(nodes=nodes, cpus=4.0 * nodes, gpus=0.0, largest=(size,) * nodes, grows=False)


@pytest.mark.parametrize(
    ("uri", "nodes", "refused"),
    [
        ("sqlite:////results/mlflow.db", 1, False),
        ("sqlite:////results/mlflow.db", 2, True),
        ("http://127.0.0.1:5000", 2, False),
    ],
)
def test_one_file_is_written_by_one_machine(uri: str, nodes: int, refused: bool) -> None:
    if not refused:
        check_one_writer(uri, cluster(nodes))
        return
    with pytest.raises(TrackingUnusable, match=r"mlflow\.db is one file.*has 2 nodes.*a server"):
        check_one_writer(uri, cluster(nodes))


def trials(*seeds: int | None) -> list[PlannedTrial]:
    return [
        PlannedTrial(
            variant="ALIBI", config=with_changes(TrialConfig(), {"noise.seed": seed}), point={}
        )
        for seed in seeds
    ]


def test_coins_are_a_secret_unless_all_noise_is_seeded() -> None:
    assert _coin_seed(trials(7, None, 3)) is None
    assert _coin_seed(trials(7, 3, 5)) == 3
    assert _coin_seed(trials(0, 2)) == 0

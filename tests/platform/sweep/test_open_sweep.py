"""open_sweep: who may write one file, whose coins are secret. Whole sweeps are run elsewhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labeldp.platform.records.tracking_address import TrackingUnusable
from labeldp.platform.sweep.cluster import Capacity
from labeldp.platform.sweep.configuration import TrialConfig, with_changes
from labeldp.platform.sweep.open_sweep import _coin_seed, _sizes, check_one_writer
from labeldp.platform.sweep.sweep import PlannedTrial
from labeldp.platform.sweep.sweep_options import SweepOptions
from tests.platform.sweep.examples import a_sweep


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


@pytest.mark.parametrize(
    ("preset", "total", "address", "cores"),
    [("home", 1, None, 4), ("home", 2, None, 1), (None, 1, None, 1), ("home", 1, "head:6379", 1)],
)
def test_the_one_trial_of_a_preset_takes_this_whole_machine(
    preset: str | None,
    total: int,
    address: str | None,
    cores: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    planned: Any = SimpleNamespace(
        trials=trials(0),
        total=total,
        sweep=a_sweep(),
        options=SweepOptions(results=tmp_path, preset=preset, address=address),
    )
    assert _sizes(planned, cluster(1)).trial.cpus == cores

"""open_sweep: who may write one file, whose coins are secret. Whole sweeps are run elsewhere."""

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labeldp.platform.records.tracking_address import TrackingUnusable
from labeldp.platform.sweep.cluster import Capacity
from labeldp.platform.sweep.configuration import TrialConfig, with_changes
from labeldp.platform.sweep.open_sweep import _coin_seed, _sizes, check_one_writer, load, meanwhile
from labeldp.platform.sweep.sweep import PlannedTrial, SweepOptions
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


def test_results_and_errors_come_when_asked_for() -> None:
    def fail() -> int:
        raise KeyError("of the thread")

    assert meanwhile(lambda: 3).result(timeout=10) == 3
    failed = meanwhile(fail)
    with pytest.raises(KeyError, match="of the thread"):
        failed.result(timeout=10)


def test_modules_are_loaded_up_to_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    load("json", "labeldp.no_such_module", "this")
    assert "this" not in sys.modules


def test_what_is_begun_after_something_waits_for_its_end() -> None:
    """Two threads that import the same packages at once may see them half made."""
    gate, order = threading.Event(), list[str]()

    def first() -> None:
        gate.wait(10)
        order.append("first")
        raise ValueError("it may fail")

    begun = meanwhile(first)
    after = meanwhile(lambda: order.append("second"), after=[begun])
    assert not after.done()
    gate.set()
    after.result(timeout=10)
    assert order == ["first", "second"]

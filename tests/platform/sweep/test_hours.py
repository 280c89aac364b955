"""Hours of a sweep: work over a rate, measured here or counted for another device."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.settings.configuration import TrialConfig, with_changes
from labeldp.platform.settings.sweep import PlannedTrial, plan_trials
from labeldp.platform.sweep import cost as module
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.sweep.cost import planned_hours
from labeldp.trainers.data.splits import DataSize

CIFAR = DataSize(
    num_classes=10, num_labels=50_000, has_test_split=True, shape=(3, 32, 32), num_test=10_000
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABELDP_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def one(changes: dict[str, Any], name: str = "line") -> PlannedTrial:
    return PlannedTrial(variant=name, config=with_changes(TrialConfig(), changes), point={})


def test_the_papers_sweeps_are_counted_for_a_gpu() -> None:
    # WRN-28-4: .84e9 multiplications an image, learned in three passes of two operations each.
    images = 200 * (50_000 + 10_000 / 3)
    expected = 3 * images / 36_830 / 3600
    found = planned_hours(plan_trials(load_sweep("alibi_cifar10")), CIFAR)
    assert found is not None and not found.measured
    assert len(found.lines) >= 3
    assert [*found.lines.values()] == pytest.approx([expected] * len(found.lines), rel=0.02)


def test_lines_of_equal_votes_pay_for_their_teachers_once() -> None:
    found = planned_hours(plan_trials(load_sweep("pate_fm_cifar10")), CIFAR)
    assert found is not None
    teachers = 800 * 40 * (781 * 960 + 10_000 / 3) / 36_830 / 3600
    assert found.lines["medium"] - found.lines["low"] == pytest.approx(teachers, rel=0.02)
    assert found.lines["high"] - found.lines["low"] == pytest.approx(teachers / 4, rel=0.02)


def test_a_rate_is_measured_once_and_kept(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = {"data.name": "mnist", "trainer.model": "small_cnn", "trainer.epochs": 10}
    size = replace(CIFAR, shape=(1, 28, 28))
    trials = [one(images), one({**images, "trainer.epsilon": 2.0, "trainer.epochs": 20}, "other")]
    found = planned_hours(trials, size, on_gpu=False)
    assert found is not None and found.measured and "threads of" in found.device
    assert found.lines["other"] == pytest.approx(2 * found.lines["line"])
    ((rate,),) = [
        [*rates.values()] for rates in json.loads((state / "rates.json").read_text()).values()
    ]
    seen = 10 * (50_000 + 10_000 / 3)
    assert found.lines["line"] == pytest.approx(seen / rate / 3600)
    monkeypatch.setattr(module, "_measured", None)
    assert planned_hours(trials, size, on_gpu=False) == found


def test_minutes_and_tables_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_measured", None)
    table = replace(CIFAR, shape=(12,))
    small = one({"trainer.model": "small_cnn", "trainer.epochs": 2})
    assert planned_hours([one({})], table, on_gpu=False) is None
    assert planned_hours([one({})], CIFAR, on_gpu=False) is None  # an MLP
    assert planned_hours([small], replace(CIFAR, num_labels=2000), on_gpu=False) is None

"""Hours of a sweep: work over a rate, measured here or counted for another device."""

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from labeldp.platform.settings.configuration import TrialConfig, with_changes
from labeldp.platform.settings.sweep import PlannedTrial, Resources, SweepOptions, plan_trials
from labeldp.platform.sweep import cost as module
from labeldp.platform.sweep import plan as plan_module
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.sweep.cost import Hours, places_on_gpu, planned_hours
from labeldp.platform.sweep.plan import plan_of
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.performance import threads
from labeldp.trainers.settings.training import (
    FixMatchConfig,
    LearnerConfig,
    SemiSupervisedConfig,
)
from tests.platform.sweep.examples import a_sweep
from tests.trainers.small_data import ON_CPU

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
    assert found is not None and found.device == "an H200, by counted operations"
    assert len(found.lines) >= 3
    assert [*found.lines.values()] == pytest.approx([expected] * len(found.lines), rel=0.02)


def test_lines_of_equal_votes_pay_for_their_teachers_once() -> None:
    found = planned_hours(plan_trials(load_sweep("pate_fm_cifar10")), CIFAR)
    assert found is not None
    teachers = 800 * 40 * (781 * 960 + 10_000 / 3) / 36_830 / 3600
    assert found.lines["medium"] - found.lines["low"] == pytest.approx(teachers, rel=0.02)
    assert found.lines["high"] - found.lines["low"] == pytest.approx(teachers / 4, rel=0.02)


def test_a_rate_is_measured_once_and_kept(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A measurement trains for longer, where this schedule's rate is far below 0.
    schedule = {"trainer.schedule": "linear", "trainer.learning_rate": 0.05}
    small = {"trainer.model": "small_cnn", "trainer.epochs": 10}
    images = {"data.name": "mnist", **small, **schedule}
    size = replace(CIFAR, shape=(1, 28, 28))
    trials = [
        one(images),
        one({**images, "trainer.learning_rate": 0.1, "trainer.epochs": 20}, "other"),
    ]
    found = planned_hours(trials, size, measured=True)
    assert found is not None and "threads of" in found.device
    assert found.lines["other"] == pytest.approx(2 * found.lines["line"])
    ((rate,),) = [
        [*rates.values()] for rates in json.loads((state / "rates.json").read_text()).values()
    ]
    seen = 10 * (50_000 + 10_000 / 3)
    assert found.lines["line"] == pytest.approx(seen / rate["rate"] / 3600)
    monkeypatch.setattr(module, "_measured", None)
    assert planned_hours(trials, size, measured=True) == found
    asked: list[Any] = []

    def another(*of: Any) -> dict[str, float]:
        asked.append(of)
        return {"rate": 1.0, "bytes": 0}

    monkeypatch.setattr(module, "_measured", another)
    for change in ({"trainer.mixup": 0.4}, {"trainer.batch_size": 64}, {"trainer.augment": True}):
        planned_hours([one({**images, **change})], size, measured=True)
    assert len(asked) == 3


def test_a_damaged_record_of_rates_is_measured_anew(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_measured", lambda *of: {"rate": 1.0, "bytes": 0})
    trials = [one({"data.name": "mnist", "trainer.model": "small_cnn"})]
    size = replace(CIFAR, shape=(1, 28, 28))
    expected = planned_hours(trials, size, measured=True)
    file = state / "rates.json"
    ((device, own),) = json.loads(file.read_text()).items()
    (key,) = own
    bad = [{"rate": rate, "bytes": 0} for rate in (0, -1, math.nan, math.inf, "fast", None)]
    rates: list[Any] = [{device: {key: each}} for each in (*bad, {}, 1.5, None)]
    for damaged in [*rates, [], None, {device: []}, {"other": {}}]:
        file.write_text(json.dumps(damaged))
        assert planned_hours(trials, size, measured=True) == expected, damaged
        assert json.loads(file.read_text())[device][key]["rate"] == 1
    assert "other" in json.loads(file.read_text()), "another device's rates stay"
    file.write_text("{")
    assert planned_hours(trials, size, measured=True) == expected
    file.unlink()
    file.mkdir()  # a plan does without a record
    assert planned_hours(trials, size, measured=True) == expected


def test_hours_are_of_the_device_that_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also of a sweep that asks for no share: its trials see the GPU all the same."""
    wants = replace(a_sweep(), needs_gpu=True, resources=Resources(gpu=1))
    asked = SweepOptions(results=tmp_path / "results")

    asked_for: list[bool] = []

    def two_hours(*of: Any, measured: bool) -> Hours:
        asked_for.append(measured)
        return Hours(lines={"line": 2.0}, device="a device")

    with monkeypatch.context() as patched:
        patched.setattr(plan_module, "planned_hours", two_hours)
        for on_processors, gpu_hours in ((False, 2.0), (True, 0.0)):
            found = plan_of(wants, replace(asked, on_processors=on_processors))
            assert (found.hours_measured, found.gpu_hours) == (on_processors, gpu_hours)
        stated = replace(asked, overrides={"performance.device": "cuda"})
        found = plan_of(a_sweep(), stated)  # counted, where it can't be measured
        assert (found.hours_measured, found.gpu_hours, found.fits) == (False, 2.0, False)
    assert asked_for.count(False) == 2
    Card(monkeypatch, free=20)
    seen = planned_hours([one({"trainer.model": "small_cnn"})], CIFAR, measured=True)
    assert seen is not None and seen.device == "a card"


def test_minutes_and_tables_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_measured", None)
    table = replace(CIFAR, shape=(12,))
    small = one({"trainer.model": "small_cnn", "trainer.epochs": 2})
    assert planned_hours([one({})], table, measured=True) is None
    assert planned_hours([one({})], CIFAR, measured=True) is None  # an MLP
    assert planned_hours([small], replace(CIFAR, num_labels=2000), measured=True) is None


def test_a_processors_rate_is_of_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work on the machine stops its clock, and is not in the hours of a plan."""
    small = one({"data.name": "mnist", "trainer.model": "small_cnn"}).config
    network = small.trainer.learner()
    used = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: 1e6 * used[0])
    monkeypatch.setattr(time, "process_time", lambda: used[0])
    epoch = OnLabels.epoch

    def half_a_second(self: OnLabels) -> Any:
        assert torch.get_num_threads() == 1, "several would wait for each other"
        used[0] += 0.5
        return epoch(self)

    monkeypatch.setattr(OnLabels, "epoch", half_a_second)
    with threads(2):
        found = module._measured(network, replace(CIFAR, shape=(1, 28, 28)), small.performance)
    assert found == {"rate": 2 * network.batch_size / 0.5, "bytes": 0}


@pytest.mark.parametrize("kind", [LearnerConfig, FixMatchConfig, SemiSupervisedConfig])
def test_a_network_that_starts_from_an_encoder_has_a_rate(kind: Any) -> None:
    network = kind(model=ModelName.SMALL_CNN, width=2, batch_size=4, encoder="none.pt")
    size = replace(CIFAR, shape=(3, 8, 8))
    assert module.rate_of_steps(network, size, ON_CPU, steps=1)[0] > 0


class Card:
    """Stands for the memory of a GPU: a step takes three gigabytes, and some are free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, free: float) -> None:
        self.measured = 0
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
        monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 3 * 2**30)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(free * 2**30), 2**37))
        monkeypatch.setattr(module, "rate_of_steps", self.rate_of_steps)

    def rate_of_steps(self, *network: Any, steps: int) -> tuple[float, float]:
        self.measured += 1
        return 1000.0, 1.0


@pytest.mark.parametrize(("free", "places"), [(80, 17), (24, 5), (1, 1)])
def test_as_many_share_a_gpu_as_its_memory_holds(
    free: float, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card(monkeypatch, free=free)
    trials = plan_trials(load_sweep("pate_fm_cifar10"))
    assert places_on_gpu(trials, CIFAR) == places
    assert places_on_gpu(trials[:1], CIFAR) == places
    # Students and teachers have the same network, which is measured once, and kept.
    assert card.measured == 1
    assert places_on_gpu(trials, replace(CIFAR, shape=(12,))) == 1
    alone = plan_trials(load_sweep("alibi_cifar10"))

    def too_large(*network: Any, steps: int) -> tuple[float, float]:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "rate_of_steps", too_large)
    other = replace(CIFAR, num_classes=100)  # it is measured anew
    assert places_on_gpu(alone, other) == 1


def test_a_plan_states_how_many_trials_share_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Card(monkeypatch, free=20)
    sweep = replace(a_sweep(), resources=Resources(cpu=0.01, gpu=1, shared=True))
    found = plan_of(sweep, SweepOptions(results=tmp_path / "results"))
    assert any("a GPU holds 4 trials or teachers at once" in note for note in found.notes)

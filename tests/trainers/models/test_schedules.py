"""Shared pieces of training: the published schedule, batches, groups of parameters, errors."""

import json

import pytest
import torch

from labeldp.trainers.models.optimization import batches
from labeldp.trainers.models.schedules import Schedule, rate_factor
from tests.shared_material import shared_path


def test_official_schedule() -> None:
    golden = json.loads(shared_path("oracle", "antipodes", "structure.json").read_text())
    factors = golden["alibi_lr_factor"]
    assert len(factors) == 100
    for epoch, expected in factors.items():
        ours = rate_factor(int(epoch), epochs=200, schedule=Schedule.STEPS)
        assert ours == pytest.approx(expected, rel=1e-12, abs=0), f"epoch {epoch}"


@pytest.mark.parametrize("epochs", [1, 2, 7, 10, 30, 100, 200, 333])
@pytest.mark.parametrize("schedule", list(Schedule))
@pytest.mark.parametrize("warmup", [0.0, 0.15, 0.9])
def test_schedules_rise_then_never_rise_again(
    epochs: int, schedule: Schedule, warmup: float
) -> None:
    factors = [
        rate_factor(epoch, epochs=epochs, schedule=schedule, warmup=warmup)
        for epoch in range(epochs)
    ]
    assert all(0 < factor <= 1 for factor in factors)
    top = factors.index(max(factors))
    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    if not schedule.every_step:
        assert top <= warmup * epochs


def test_batches_hold_each_example_once() -> None:
    generator = torch.Generator().manual_seed(0)
    passes = [list(batches(103, 10, generator)) for _ in range(2)]
    for parts in passes:
        assert [len(part) for part in parts] == [10] * 10  # the last three are left out
        assert len(set(torch.cat(parts).tolist())) == 100
    assert not torch.equal(torch.cat(passes[0]), torch.cat(passes[1]))
    again = list(batches(103, 10, torch.Generator().manual_seed(0)))
    assert torch.equal(torch.cat(again), torch.cat(passes[0]))

"""Moment labels in stages: what they cost, what a later stage asks along, resume, refusals."""

from dataclasses import replace
from typing import Any

import pytest

from labeldp.mechanisms.accounting import GaussianEvent
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.methods.staged_moments import StagedMoments
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import PriorSettings, PriorSource, StagedMomentsConfig
from labeldp.trainers.trainer import LabelSource
from tests.trainers.tiny_data import digits

ON_CPU = Performance(device=Device.CPU)
PRIOR = PriorSettings(source=PriorSource.MOMENTS, landmarks=200)
QUICK = StagedMomentsConfig(
    epochs=6, earlier_epochs=2, width=32, epsilon=2.0, learning_rate=0.1, batch_size=64, prior=PRIOR
)


def started(
    config: StagedMomentsConfig, labels: LabelSource | None = None, *, seed: int = 0
) -> StagedMoments:
    data, seeded = digits()
    trainer = config.start(data=data, labels=labels or seeded, seed=seed, performance=ON_CPU)
    assert isinstance(trainer, StagedMoments)
    return trainer


def trained(
    config: StagedMomentsConfig, labels: LabelSource | None = None, *, seed: int = 0
) -> StagedMoments:
    trainer = started(config, labels, seed=seed)
    for _ in range(config.epochs):
        trainer.epoch()
    return trainer


def vault_of_digits(**limits: Any) -> LabelVault:
    return LabelVault(labels=load("digits").train_labels, num_classes=10, **limits)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_all_stages_together_cost_epsilon_and_the_plan_says_so(stages: int) -> None:
    """By the ledger: every label is in every release."""
    config = replace(QUICK, stages=stages)
    vault = vault_of_digits(budget=Budget(epsilon=2.0, delta=1e-5))
    trained(config, vault)
    planned = config.planned_charge(num_classes=10, seed=0).chain()
    assert [charge.event for charge in vault.charges()] == [part.event for part in planned]
    assert len(planned) == len({part.release for part in planned}) == stages
    assert vault.epsilon(delta=1e-5) == pytest.approx(2.0, rel=1e-6)
    assert all(charge.indices is None for charge in vault.charges())
    once = calibrate_gaussian(epsilon=2.0, delta=1e-5).noise_std
    event = planned[0].event
    assert isinstance(event, GaussianEvent)
    assert event.noise_multiplier == pytest.approx(once * (stages / 2) ** 0.5)


def test_a_budget_that_the_second_stage_exceeds_stops_it_there() -> None:
    vault = vault_of_digits(budget=Budget(epsilon=1.9, delta=1e-5))
    trainer = started(QUICK, vault)
    trainer.epoch()
    trainer.epoch()
    with pytest.raises(BudgetExceeded):
        trainer.epoch()
    assert len(vault.charges()) == 1

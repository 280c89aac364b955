"""Moment labels in stages: what they cost, what a later stage asks along, resume, refusals."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.mechanisms.accounting import GaussianEvent
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data import load
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.priors import PriorSettings, PriorSource
from labeldp.trainers.recipe import Recipe
from labeldp.trainers.staged_moments import StagedMoments, StagedMomentsConfig
from labeldp.trainers.trainer import LabelSource, Trainer, TrainerConfig
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


def test_it_is_a_trainer_that_learns() -> None:
    config: TrainerConfig = replace(QUICK, epochs=16, epsilon=4.0)
    data, labels = digits()
    trainer: Trainer = config.start(data=data, labels=labels, seed=0, performance=ON_CPU)
    assert [trainer.epoch().epoch for _ in range(16)] == list(range(1, 17))
    assert trainer.evaluate() > 0.8
    assert set(trainer.figures()) == {"stage_1_accuracy", "stage_2_accuracy"}


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


def test_what_a_second_stage_asks_is_its_own_and_the_first_is_shared() -> None:
    vault = vault_of_digits()
    for config, seed in ((QUICK, 0), (QUICK, 1), (replace(QUICK, learning_rate=0.2), 0)):
        trained(config, vault, seed=seed)
    assert len(vault.charges()) == 1 + 3
    trained(QUICK, vault)
    assert len(vault.charges()) == 1 + 3
    plans = [
        [part.release for part in config.planned_charge(num_classes=10, seed=seed).chain()]
        for config, seed in ((QUICK, 0), (QUICK, 1), (replace(QUICK, learning_rate=0.2), 0))
    ]
    assert len({plan[0] for plan in plans}) == 3
    assert len({plan[1] for plan in plans}) == 1


class Listening:
    """A source of labels that remembers which weights were asked along."""

    def __init__(self) -> None:
        self.weights: list[np.ndarray[Any, Any]] = []
        self.source = digits()[1]

    def release(self, mechanism: Any, *public: Any, indices: Any = None) -> Any:
        self.weights.append(public[0])
        return self.source.release(mechanism, *public, indices=indices)


def test_a_second_stage_asks_along_what_the_network_found() -> None:
    """Its classes are told apart in fewer directions than by the features that it began with."""
    labels = load("digits").train_labels
    listening = Listening()
    trained(replace(QUICK, epsilon=8.0, earlier_epochs=10, epochs=11), listening)

    def explained(weights: np.ndarray[Any, Any]) -> float:
        directions, _ = np.linalg.qr(weights[:, :9].astype(float))
        centered = np.eye(10)[labels] - np.eye(10)[labels].mean(0)
        return float(np.square(directions.T @ centered).sum() / np.square(centered).sum())

    first, second = map(explained, listening.weights)
    assert second > first + 0.1


@pytest.mark.parametrize("cut", [1, 2, 3, 5])
def test_a_resumed_training_is_the_same_to_the_bit(cut: int) -> None:
    """Also across a stage, and without asking for anything a second time."""
    config = replace(QUICK, mixup=2.0, dropout=0.2)
    whole = trained(config, vault := vault_of_digits(), seed=3)
    part = started(config, vault, seed=3)
    for _ in range(cut):
        part.epoch()
    file = io.BytesIO()
    torch.save(part.state_dict(), file)
    resumed = started(config, vault, seed=3)
    resumed.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    for _ in range(config.epochs - cut):
        resumed.epoch()
    features = digits()[0].test_features
    assert np.array_equal(whole.predict(features), resumed.predict(features))
    assert whole.figures() == resumed.figures()
    assert len(vault.charges()) == 2


def test_the_state_holds_releases_and_weights_but_no_true_labels() -> None:
    state = trained(QUICK).state_dict()
    assert set(state) == {"stage", "targets", "figures", "learner"}
    assert set(state["learner"]) == {"epoch", "network", "optimizer", "generator"}
    right = (state["targets"].argmax(1).numpy() == load("digits").train_labels).mean()
    assert 0.3 < right < 1  # what was released is not the truth
    torch.testing.assert_close(state["targets"].sum(1), torch.ones(len(state["targets"])))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": 0}, "stages is 0"),
        ({"stages": 4}, "epochs is 6 for 4 stages"),
        ({"earlier_epochs": 6}, "epochs is 6 for 2 stages"),
        ({"earlier_epochs": 0}, "earlier_epochs is 0"),
        ({"epsilon": 0.0}, "epsilon is 0.0"),
        ({"delta": 0.0}, "delta is 0.0"),
        ({"recipe": Recipe(label_smoothing=0.1)}, "label_smoothing"),
        ({"prior": PriorSettings(source=PriorSource.CLUSTERS)}, "prior.source is clusters"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(QUICK, **changes)

"""Learning from flipped bits: the loss by hand, the price, accuracy, exact resume."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.bit_flip import BitFlipConfig, BitFlipTrainer
from labeldp.trainers.data import load
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.trainer import Trainer, TrainerConfig
from tests.trainers.tiny_data import digits

ON_CPU = Performance(device=Device.CPU)
QUICK = BitFlipConfig(epochs=30, width=32, epsilon=4.0, learning_rate=0.1)


def started(config: BitFlipConfig = QUICK) -> BitFlipTrainer:
    data, labels = digits()
    return config.start(data=data, labels=labels, seed=0, performance=ON_CPU)


def test_it_is_a_trainer_and_learns() -> None:
    config: TrainerConfig = QUICK
    data, labels = digits()
    trainer: Trainer = config.start(data=data, labels=labels, seed=0, performance=ON_CPU)
    accuracies = [trainer.epoch().val_accuracy for _ in range(30)]
    assert accuracies[-1] == trainer.evaluate() > 0.9
    np.testing.assert_allclose(trainer.predict(data.test_features).sum(1), 1, atol=1e-5)


def test_it_costs_epsilon_and_shares_its_release() -> None:
    data, _ = digits()
    vault = LabelVault(labels=load("digits").train_labels, num_classes=10)
    for seed in range(2):
        QUICK.start(data=data, labels=vault, seed=seed, performance=ON_CPU)
    assert vault.epsilon(delta=0.0) == 4.0
    plan = QUICK.planned_charge(num_classes=10, seed=0)
    assert plan == QUICK.planned_charge(num_classes=10, seed=1)
    assert plan.event == PureEvent(epsilon=4.0)


def test_the_loss_is_the_cross_entropy_of_every_bit() -> None:
    trainer = started()
    logits = torch.tensor([[0.5] * 9 + [3.0]])
    bits, sigmoids = trainer._bits[:1].double(), logits.double().sigmoid()
    expected = -(bits * sigmoids.log() + (1 - bits) * (1 - sigmoids).log()).sum()
    assert float(trainer._loss(logits, torch.tensor([0]))) == pytest.approx(float(expected))


def test_the_expected_loss_is_least_at_how_often_bits_are_set() -> None:
    """The true class stands out by as much as its bit is set more often than the others."""
    trainer = started()
    mechanism = BitFlip(epsilon=4.0, num_classes=10)
    bits = mechanism.release(np.zeros(50_000, dtype=np.int64), generator=np.random.default_rng(0))
    trainer._bits = torch.from_numpy(bits)
    q = mechanism.flip_probability

    def loss(own: float, others: float) -> float:
        rates = torch.full((len(bits), 10), others)
        rates[:, 0] = own
        return float(trainer._loss(rates.logit(), torch.arange(len(bits))))

    best = loss(1 - q, q)
    assert best == pytest.approx(-10 * (q * np.log(q) + (1 - q) * np.log(1 - q)), rel=0.01)
    for own, others in ((0.99, q), (0.7, q), (1 - q, 0.3), (1 - q, 0.02), (q, 1 - q)):
        assert best < loss(own, others)


def test_a_resumed_training_is_the_same_to_the_bit() -> None:
    whole, part, resumed = (started() for _ in range(3))
    for _ in range(4):
        whole.epoch()
    for _ in range(2):
        part.epoch()
    file = io.BytesIO()
    torch.save(part.state_dict(), file)
    resumed.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    for _ in range(2):
        resumed.epoch()
    features = digits()[0].test_features
    assert np.array_equal(whole.predict(features), resumed.predict(features))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_epsilon(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon is"):
        replace(QUICK, epsilon=epsilon)

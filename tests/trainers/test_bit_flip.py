"""Learning from flipped bits: the loss by hand, the price, accuracy, exact resume."""

import numpy as np
import pytest
import torch

from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.trainers.methods.alibi import BitFlipTrainer
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import BitFlipConfig
from tests.trainers.tiny_data import digits

ON_CPU = Performance(device=Device.CPU)
QUICK = BitFlipConfig(epochs=30, width=32, epsilon=4.0, learning_rate=0.1)


def started(config: BitFlipConfig = QUICK) -> BitFlipTrainer:
    data, labels = digits()
    trainer: BitFlipTrainer = config.start(data=data, labels=labels, seed=0, performance=ON_CPU)
    return trainer


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

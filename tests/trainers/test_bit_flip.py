"""Learning from flipped bits: the loss by hand, the price, accuracy, exact resume."""

import pytest
import torch

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

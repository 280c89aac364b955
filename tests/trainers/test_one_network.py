"""The base of trainers around one learner: it trains by the loss, and hands the rest on."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from labeldp.trainers.data import PublicData
from labeldp.trainers.learner import Learner, LearnerConfig
from labeldp.trainers.one_network import OneNetwork
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.trainer import Trainer
from tests.trainers.tiny_data import SeededSource, digits

QUICK = LearnerConfig(epochs=12, width=32, batch_size=32, learning_rate=0.1)


class Supervised(OneNetwork):
    """All that a trainer of this kind has to say."""

    def __init__(self, data: PublicData, labels: SeededSource, seed: int) -> None:
        performance = Performance(device=Device.CPU)
        super().__init__(Learner(QUICK, data=data, seed=seed, performance=performance))
        self._labels = torch.from_numpy(labels.labels)

    def _loss(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits, self._labels[rows])


def test_a_loss_is_enough_for_a_trainer() -> None:
    data, labels = digits(train=500)
    trainer: Trainer = Supervised(data, labels, seed=0)
    start = trainer.evaluate()
    metrics = [trainer.epoch() for _ in range(12)]
    assert [each.epoch for each in metrics] == list(range(1, 13))
    assert metrics[-1].loss < metrics[0].loss and trainer.evaluate() > start + 0.3
    guesses = trainer.predict(data.test_features).argmax(1)
    assert (guesses == data.test_labels).mean() == pytest.approx(trainer.evaluate())
    assert trainer.figures() == {}


def test_it_continues_from_a_state_bit_for_bit() -> None:
    data, labels = digits(train=300)
    whole, resumed = (Supervised(data, labels, seed=seed) for seed in (0, 1))
    whole.epoch()
    resumed.load_state_dict(whole.state_dict())
    assert [whole.epoch().loss for _ in range(2)] == [resumed.epoch().loss for _ in range(2)]
    np.testing.assert_array_equal(
        whole.predict(data.test_features), resumed.predict(data.test_features)
    )

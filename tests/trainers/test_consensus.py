"""Consensus retraining: free of charge, on cleaner labels, stackable, resumed to the bit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.methods.consensus import Consensus
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import ConsensusConfig, LpMstConfig, Noise
from labeldp.trainers.trainer import LabelSource
from tests.trainers.tiny_data import digits

ON_CPU = Performance(device=Device.CPU)
QUICK = ConsensusConfig(epochs=8, retrain_epochs=4, width=32, epsilon=2.0, learning_rate=0.1)
STAGED = LpMstConfig(epochs=9, retrain_epochs=3, width=32, epsilon=2.0, learning_rate=0.1)
RESPONSE = replace(QUICK, noise=Noise.RANDOMIZED_RESPONSE)
SUBSET = replace(QUICK, noise=Noise.SUBSET)


def started(config: ConsensusConfig | LpMstConfig, labels: LabelSource | None = None) -> Consensus:
    data, seeded = digits()
    trainer = config.start(data=data, labels=labels or seeded, seed=0, performance=ON_CPU)
    assert isinstance(trainer, Consensus)
    return trainer


@pytest.mark.parametrize("config", [QUICK, RESPONSE, SUBSET, STAGED])
def test_labels_of_the_consensus_are_cleaner(config: ConsensusConfig | LpMstConfig) -> None:
    trainer = started(config)
    for _ in range(config.epochs):
        trainer.epoch()
    truth = load("digits").train_labels
    rows, noisy = trainer._noisy()
    right = noisy == truth[rows] if noisy.ndim == 1 else noisy[rows, truth] / noisy[0].sum()
    of_all = float(right.mean())
    kept = trainer._labels.numpy()
    of_consensus = float((kept == truth[trainer._rows]).mean())
    assert of_consensus > of_all + 0.1
    figures = trainer.figures()
    assert figures["consensus_share"] == len(kept) / len(rows) < 1
    assert 0 < figures["first_round_accuracy"] < 1


def test_a_model_that_agrees_with_nothing_drops_nothing() -> None:
    trainer = started(QUICK)
    rows, noisy = trainer._noisy()
    features = digits()[0].train_features

    class Contrary:
        """Never guesses the noisy label."""

        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def predict(self, asked: torch.Tensor) -> np.ndarray[Any, Any]:
            assert len(asked) == len(features)
            guesses: np.ndarray[Any, Any] = np.eye(10, dtype=np.float32)[(noisy + 1) % 10]
            return guesses

    inner, trainer._first = trainer._first, Contrary()
    trainer._agree()
    assert np.array_equal(trainer._rows, rows)
    assert trainer.figures()["consensus_share"] == 0.0

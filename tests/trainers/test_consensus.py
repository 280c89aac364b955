"""Consensus retraining: free of charge, on cleaner labels, stackable, resumed to the bit."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.consensus import Consensus, ConsensusConfig
from labeldp.trainers.data import load
from labeldp.trainers.lp_mst import LpMstConfig
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.targets import Noise
from labeldp.trainers.trainer import LabelSource, Trainer, TrainerConfig
from tests.trainers.tiny_data import digits

ON_CPU = Performance(device=Device.CPU)
QUICK = ConsensusConfig(epochs=8, retrain_epochs=4, width=32, epsilon=2.0, learning_rate=0.1)
STAGED = LpMstConfig(epochs=9, retrain_epochs=3, width=32, epsilon=2.0, learning_rate=0.1)
RESPONSE = replace(QUICK, noise=Noise.RANDOMIZED_RESPONSE)


def started(config: ConsensusConfig | LpMstConfig, labels: LabelSource | None = None) -> Consensus:
    data, seeded = digits()
    trainer = config.start(data=data, labels=labels or seeded, seed=0, performance=ON_CPU)
    assert isinstance(trainer, Consensus)
    return trainer


def vault_of_digits() -> LabelVault:
    return LabelVault(labels=load("digits").train_labels, num_classes=10)


@pytest.mark.parametrize("config", [QUICK, RESPONSE, STAGED])
def test_it_costs_nothing_more(config: ConsensusConfig | LpMstConfig) -> None:
    vault = vault_of_digits()
    trainer = started(config, vault)
    epochs = [trainer.epoch().epoch for _ in range(config.epochs)]
    assert epochs == list(range(1, config.epochs + 1))
    assert vault.epsilon(delta=0.0) == 2.0


@pytest.mark.parametrize("config", [QUICK, RESPONSE, STAGED])
def test_labels_of_the_consensus_are_cleaner(config: ConsensusConfig | LpMstConfig) -> None:
    trainer = started(config)
    for _ in range(config.epochs):
        trainer.epoch()
    truth = load("digits").train_labels
    rows, noisy = trainer._noisy()
    of_all = float((noisy == truth[rows]).mean())
    kept = trainer._labels.numpy()
    of_consensus = float((kept == truth[trainer._rows]).mean())
    assert of_consensus > of_all + 0.1
    figures = trainer.figures()
    assert figures["consensus_share"] == len(kept) / len(rows) < 1
    assert 0 < figures["first_round_accuracy"] < 1


def test_figures_of_the_first_round_stay() -> None:
    trainer = started(STAGED)
    for _ in range(STAGED.epochs):
        trainer.epoch()
    assert {"mean_top_k", "stage_1_accuracy", "consensus_share"} <= trainer.figures().keys()


def test_it_is_a_trainer() -> None:
    config: TrainerConfig = QUICK
    data, labels = digits(train=100)
    trainer: Trainer = config.start(data=data, labels=labels, seed=0, performance=ON_CPU)
    assert trainer.epoch().epoch == 1


def test_the_network_of_the_second_round_is_a_fresh_one() -> None:
    trainer = started(QUICK)
    accuracies = [trainer.epoch().val_accuracy for _ in range(8)]
    assert accuracies[7] == trainer.evaluate()
    assert trainer._second is not None
    first = trainer._first.state_dict()["network"]
    second = trainer._second.state_dict()["network"]
    assert not torch.equal(first["head.weight"], second["head.weight"])


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
            return np.eye(10, dtype=np.float32)[(noisy + 1) % 10]

    inner, trainer._first = trainer._first, Contrary()
    trainer._agree()
    assert np.array_equal(trainer._rows, rows)
    assert trainer.figures()["consensus_share"] == 0.0


@pytest.mark.parametrize("config", [QUICK, STAGED])
@pytest.mark.parametrize("cut", [2, 5, 7])
def test_a_resumed_training_is_the_same_to_the_bit(
    config: ConsensusConfig | LpMstConfig, cut: int
) -> None:
    vault = vault_of_digits()
    whole, part, resumed = (started(config, vault) for _ in range(3))
    for _ in range(config.epochs):
        whole.epoch()
    for _ in range(cut):
        part.epoch()
    file = io.BytesIO()
    torch.save(part.state_dict(), file)
    resumed.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    for _ in range(config.epochs - cut):
        resumed.epoch()
    features = digits()[0].test_features
    assert np.array_equal(whole.predict(features), resumed.predict(features))
    assert whole.figures() == resumed.figures()
    assert vault.epsilon(delta=0.0) == 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"retrain_epochs": 0}, "retrain_epochs is 0"),
        ({"retrain_epochs": 8}, "retrain_epochs is 8 of 8 epochs"),
        ({"noise": Noise.NONE}, "noise is none"),
        ({"epsilon": -1.0}, "epsilon is -1.0"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(QUICK, **changes)


def test_stages_and_the_last_round_need_epochs() -> None:
    with pytest.raises(ValueError, match="epochs is 9, 8 of them to retrain, for 2 stages"):
        replace(STAGED, retrain_epochs=8)

"""Networks trained as one batch are the networks that learners train one by one."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.methods.teachers import train_and_vote
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import EnsembleConfig
from labeldp.trainers.settings.training import LearnerConfig
from tests.trainers.small_data import small_images, small_table

ON_CPU = Performance(device=Device.CPU)
MLP = LearnerConfig(width=16, epochs=8, batch_size=8, learning_rate=0.1, weight_decay=1e-3)
CNN = replace(MLP, model=ModelName.SMALL_CNN, width=4)


def _loss(targets: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
    return functional.cross_entropy(logits, targets[rows])


@pytest.mark.parametrize("config", [MLP, CNN, replace(MLP, momentum=0.0, batch_size=1000)])
def test_batched_networks_are_learners(config: LearnerConfig) -> None:
    on_images = config.model is ModelName.SMALL_CNN
    data, labels = small_images(examples=142) if on_images else small_table(examples=142)
    # 142 examples for 7 networks: two have 21 examples, five have 20.
    shards = LabelVault(labels=labels, num_classes=3).partition(7, seed=0)
    seeds = [11, 5, 7, 1, 2, 3, 4]
    queries = data.test_features
    votes = train_and_vote(
        config, data=data, shards=shards, seeds=seeds, queries=queries, performance=ON_CPU
    )
    for shard, seed, vote in zip(shards, seeds, votes, strict=True):
        learner = Learner(config, data=data, seed=seed, performance=ON_CPU, examples=shard.indices)
        targets = torch.from_numpy(shard.labels)
        for _ in range(config.epochs):
            learner.epoch(partial(_loss, targets))
        scores = learner.predict(queries)
        top = np.sort(scores, axis=1)
        clear = top[:, -1] - top[:, -2] > 1e-3
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(vote[clear], scores.argmax(1)[clear])


@pytest.mark.parametrize(
    "changes",
    [
        {"model": ModelName.RESNET18},
        {"model": ModelName.WIDE_RESNET28},
        {"dropout": 0.5},
        {"mixup": 1.0},
        {"augment": True},
    ],
)
def test_what_keeps_a_state_of_its_own_is_trained_alone(changes: dict[str, object]) -> None:
    assert EnsembleConfig(network=MLP).one_batch and EnsembleConfig(network=CNN).one_batch
    assert not EnsembleConfig(network=replace(MLP, **changes)).one_batch  # type: ignore[arg-type]


def test_divergence_is_named() -> None:
    data, labels = small_table(examples=60)
    shards = LabelVault(labels=labels, num_classes=3).partition(2, seed=0)
    wild = replace(MLP, learning_rate=1e30, epochs=5)
    with pytest.raises(TrainingDiverged, match="lower learning_rate"):
        train_and_vote(
            wild,
            data=data,
            shards=shards,
            seeds=[0, 1],
            queries=data.test_features,
            performance=ON_CPU,
        )

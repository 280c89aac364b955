"""How fast teachers are trained: batched against one by one, and 800 probes with their votes."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data import PublicData, load
from labeldp.trainers.features import label_free_features
from labeldp.trainers.learner import Learner, LearnerConfig
from labeldp.trainers.models import ModelName
from labeldp.trainers.pate.teachers import EnsembleConfig, TeacherKind, TeacherVotes
from labeldp.trainers.performance import Device, Performance
from tests.real_data import real_data_root

pytestmark = pytest.mark.benchmark

ON_CPU = Performance(device=Device.CPU)


def seconds(function: Callable[[], object]) -> float:
    """Processor time of one call in this process: others on the machine don't count."""
    start = time.process_time()
    function()
    return time.process_time() - start


@pytest.mark.parametrize(
    ("config", "at_least"),
    [
        (LearnerConfig(width=32, epochs=10, batch_size=32), 2.5),
        (LearnerConfig(model=ModelName.SMALL_CNN, width=8, epochs=10, batch_size=32), 1.2),
    ],
    ids=["MLP", "small CNN"],
)
def test_batched_networks_are_faster_than_one_by_one(
    config: LearnerConfig, at_least: float
) -> None:
    torch.set_num_threads(1)
    data = load("digits")
    shards = LabelVault(labels=data.train_labels, num_classes=10).partition(22, seed=0)
    ensemble = EnsembleConfig(kind=TeacherKind.NETWORK, teachers=22, queries=500, network=config)
    vote = TeacherVotes(config=ensemble, performance=ON_CPU)
    positions = torch.from_numpy(ensemble.query_positions(len(data.train_labels)))
    queries = data.public.train_features[positions]
    # Nobody evaluates teachers: the one-by-one side does not pay for that either.
    silent = replace(
        data.public,
        test_features=data.public.test_features[:1],
        test_labels=data.public.test_labels[:1],
    )

    def one_by_one() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        votes = []
        for teacher, shard in enumerate(shards):
            learner = Learner(
                config,
                data=silent,
                seed=vote.seed_of(teacher),
                performance=ON_CPU,
                examples=shard.indices,
            )
            labels = torch.from_numpy(shard.labels)
            for _ in range(config.epochs):
                learner.epoch(
                    lambda logits, rows, labels=labels: functional.cross_entropy(  # type: ignore[misc]
                        logits, labels[rows]
                    )
                )
            votes.append(learner.predict(queries).argmax(1))
        return np.stack(votes)

    ids = range(22)
    agree = (vote(ids, shards, data.public) == one_by_one()).mean()
    assert agree > 0.99
    ratios = [
        seconds(one_by_one) / seconds(lambda: vote(ids, shards, data.public)) for _ in range(5)
    ]
    print(f"\n{config.model}: batched {np.median(ratios):.1f} times as fast, {agree:.4f} agree")
    assert np.median(ratios) > at_least


def features_of_fashion_mnist() -> tuple[PublicData, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """60,000 images as 800 numbers each; random projections, since only speed is looked at."""
    loaded = load("fashion_mnist", root=str(real_data_root("fashion_mnist")))
    public = loaded.public
    generator = torch.Generator().manual_seed(0)
    pixels = public.train_features[0].numel()
    projection = torch.randn(pixels, 800, generator=generator) / pixels**0.5
    table = replace(
        public,
        train_features=public.train_features.flatten(1).float() / 255 @ projection,
        test_features=public.test_features.flatten(1).float() / 255 @ projection,
    )
    features = label_free_features(table)
    return (
        replace(table, train_features=features.train, test_features=features.test),
        loaded.train_labels,
    )


def test_800_probes_and_their_votes_take_less_than_10_seconds() -> None:
    torch.set_num_threads(2)
    data, labels = features_of_fashion_mnist()
    config = EnsembleConfig(teachers=800, queries=3000)
    shards = LabelVault(labels=labels, num_classes=10).partition(800, seed=0)
    vote = TeacherVotes(config=config, performance=ON_CPU)

    def all_batches() -> None:
        for first in range(0, 800, config.batch):
            ids = range(first, first + config.batch)
            vote(ids, shards[first : first + config.batch], data)

    all_batches()
    start = time.perf_counter()
    used = seconds(all_batches)
    wall = time.perf_counter() - start
    print(f"\n800 probes and 3,000 queries: {wall:.1f} s, {used:.1f} s of processor time")
    assert used < 10

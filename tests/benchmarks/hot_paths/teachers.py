"""Ensembles: probes solved together and networks trained together, against one by one."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import Ridge
from torch.nn import functional

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.methods.closed_forms import train_probes, vote
from labeldp.trainers.methods.teachers import TeacherVotes
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import EnsembleConfig, TeacherKind
from labeldp.trainers.settings.training import LearnerConfig
from tests.benchmarks.benchmark import Work, benchmark

ON_CPU = Performance(device=Device.CPU)
_TEACHERS, _FITTED, _EXAMPLES, _QUERIES = 800, 40, 60_000, 10_000


def _loss(labels: torch.Tensor, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, labels[rows])


@benchmark(
    "probes",
    "800 linear teachers on 75 examples each, 8 million votes",
    "scikit-learn's Ridge, a teacher at a time",
    mark=2.4,
    most_seconds=10.0,
)
def _probes(scratch: Path) -> Work:
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 10, _EXAMPLES)
    centers = draws.normal(size=(10, 400)) / 20
    features = torch.from_numpy(
        (centers[labels] + draws.normal(size=(_EXAMPLES, 400)) / 20).astype(np.float32)
    )
    shards = list(draws.permutation(_EXAMPLES).reshape(_TEACHERS, -1))
    of_shards = [labels[shard] for shard in shards]
    queries = features[:_QUERIES]

    def together() -> np.ndarray:
        return vote(train_probes(features, shards, of_shards, 10), queries)

    def one_by_one() -> np.ndarray:
        rows, asked, votes = features.numpy(), queries.numpy(), []
        # The library's probes pull the bias to 0 like every other weight.
        rows, asked = (np.pad(part, ((0, 0), (0, 1)), constant_values=1) for part in (rows, asked))
        for shard, classes in zip(shards[:_FITTED], of_shards, strict=False):
            probe = Ridge(alpha=0.1, fit_intercept=False)
            probe.fit(rows[shard], np.eye(10, dtype=np.float32)[classes] - 0.1)
            votes.append(probe.predict(asked).argmax(1))
        return np.stack(votes)

    def check() -> None:
        assert (together()[:_FITTED] == one_by_one()).mean() > 0.999

    return Work(ours=together, reference=one_by_one, part=_FITTED / _TEACHERS, check=check)


@benchmark(
    "teachers-cnn",
    "22 small convolutional networks on digits, 10 epochs, trained together",
    "the same networks one by one",
    mark=1.2,
)
def _networks(scratch: Path) -> Work:
    config = LearnerConfig(model=ModelName.SMALL_CNN, width=8, epochs=10, batch_size=32)
    data = load("digits")
    shards = LabelVault(labels=data.train_labels, num_classes=10).partition(22, seed=0)
    ensemble = EnsembleConfig(kind=TeacherKind.NETWORK, teachers=22, queries=500, network=config)
    votes = TeacherVotes(config=ensemble, performance=ON_CPU)
    positions = torch.from_numpy(ensemble.query_positions(len(data.train_labels)))
    queries = data.public.train_features[positions]
    # Nobody evaluates teachers: the one-by-one side does not pay for that either.
    silent = replace(
        data.public,
        test_features=data.public.test_features[:1],
        test_labels=data.public.test_labels[:1],
    )

    def one_by_one() -> np.ndarray:
        found = []
        for teacher, shard in enumerate(shards):
            learner = Learner(
                config,
                data=silent,
                seed=votes.seed_of(teacher),
                performance=ON_CPU,
                examples=shard.indices,
            )
            labels = torch.from_numpy(shard.labels)
            loss = partial(_loss, labels)
            for _ in range(config.epochs):
                learner.epoch(loss)
            found.append(learner.predict(queries).argmax(1))
        return np.stack(found)

    def together() -> np.ndarray:
        return votes(range(22), shards, data.public)

    def check() -> None:
        agree = (together() == one_by_one()).mean()
        assert agree > 0.99, agree

    return Work(ours=together, reference=one_by_one, check=check)

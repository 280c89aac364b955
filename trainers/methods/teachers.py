"""Teachers of a PATE ensemble: each learns from its own shard of true labels, then votes.

Runs inside the trust boundary: the votes have no noise, and are for the vault's side only. A batch
of teachers depends on its own shards and seeds, and on public features; the same batch gives the
same votes on every actor, and however often.

Small networks are trained side by side as one batched model: on few examples a small network's step
is mostly overhead. Each starts, shuffles and learns as a `Learner` of its own seed does; results
differ in the last digits, as sums in another order do.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional

from labeldp.mechanisms.vault import Shard
from labeldp.trainers.data.labelled_data import FeatureKind, PublicData
from labeldp.trainers.methods.closed_forms import train_probes, vote
from labeldp.trainers.methods.pate import start_student
from labeldp.trainers.models.learner import seeds_of
from labeldp.trainers.models.optimization import ParameterGroup, Sgd
from labeldp.trainers.models.predictors import NetworkSettings, normalize
from labeldp.trainers.models.schedules import TrainingDiverged, batches, rate_factor
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.pate import (
    EnsembleConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.settings.training import LearnerConfig
from labeldp.trainers.trainer import Trainer

#: Examples, over all networks, in one forward pass when nothing is learned from it.
_EVALUATION_BATCH = 8192


def train_and_vote(
    config: LearnerConfig,
    *,
    data: PublicData,
    shards: Sequence[Shard],
    seeds: Sequence[int],
    queries: Tensor,
    performance: Performance,
) -> NDArray[np.uint8]:
    """Train a small network on each of n shards, and return their votes [n, Q] on the queries."""
    votes = np.empty((len(shards), len(queries)), dtype=np.uint8)
    sizes = np.array([len(shard.labels) for shard in shards])
    for size in np.unique(sizes):  # two at most: shards differ by one example
        same = np.flatnonzero(sizes == size).tolist()
        networks = _Networks(
            config,
            data=data,
            shards=[shards[place] for place in same],
            seeds=[seeds[place] for place in same],
            performance=performance,
        )
        for epoch in range(config.epochs):
            networks.epoch(epoch)
        votes[same] = networks.vote(queries)
    return votes


class _Networks:
    """Networks on shards of one size [n examples each], their parameters stacked [T, ...]."""

    def __init__(
        self,
        config: LearnerConfig,
        *,
        data: PublicData,
        shards: Sequence[Shard],
        seeds: Sequence[int],
        performance: Performance,
    ) -> None:
        self._config, self._performance = config, performance
        self._device = performance.torch_device()
        self._statistics = [
            torch.tensor(each, device=self._device) for each in (data.mean, data.std)
        ]
        self._images = data.kind is FeatureKind.IMAGE
        indices = torch.from_numpy(np.stack([shard.indices for shard in shards]))
        self._features = data.train_features[indices].to(self._device)
        self._labels = torch.from_numpy(np.stack([shard.labels for shard in shards])).to(
            self._device
        )
        both = [seeds_of(seed) for seed in seeds]
        settings = NetworkSettings.for_data(data, model=config.model, width=config.width)
        models: list[nn.Module] = [settings.seeded(initial) for initial, _ in both]
        self._generators = [torch.Generator().manual_seed(order) for _, order in both]
        stacked, _ = stack_module_state(models)
        self._parameters: dict[str, Tensor] = {
            name: each.detach().to(self._device).requires_grad_() for name, each in stacked.items()
        }
        model = models[0].to(self._device)

        def forward(parameters: dict[str, Tensor], inputs: Tensor) -> Any:
            return functional_call(model, parameters, (inputs,))

        self._forward = vmap(forward)
        self._forward_shared = vmap(forward, in_dims=(0, None))
        self._optimizer = Sgd(
            [
                ParameterGroup(
                    parameters=list(self._parameters.values()), weight_decay=config.weight_decay
                )
            ],
            learning_rate=config.learning_rate,
            momentum=config.momentum,
            nesterov=config.nesterov,
        )

    def epoch(self, number: int) -> None:
        """Train all networks for one epoch."""
        config, (networks, examples) = self._config, self._labels.shape
        rate = config.learning_rate * rate_factor(
            number, epochs=config.epochs, schedule=config.schedule, warmup=config.warmup
        )
        self._optimizer.learning_rate = rate
        diverged = TrainingDiverged.at(epoch=number + 1, learning_rate=rate)
        each = torch.arange(networks, device=self._device)[:, None]
        orders = (batches(examples, config.batch_size, one) for one in self._generators)
        for rows in zip(*orders, strict=True):
            chosen = torch.stack(rows).to(self._device)
            with self._performance.autocast():
                logits = self._forward(self._parameters, self._inputs(self._features[each, chosen]))
            logits = logits.float()
            if self._device.type == "cpu" and not logits.isfinite().all():
                raise diverged
            # Of a sum over networks, each parameter's gradient is that of its own network's loss.
            loss = functional.cross_entropy(
                logits.flatten(0, 1), self._labels[each, chosen].flatten(), reduction="sum"
            )
            self._optimizer.zero_grad()
            (loss / len(chosen[0])).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        if not all(bool(each.isfinite().all()) for each in self._parameters.values()):
            raise diverged

    @torch.no_grad()
    def vote(self, queries: Tensor) -> NDArray[np.uint8]:
        """Return the class of each network's highest score [T, Q]."""
        at_once = max(1, _EVALUATION_BATCH // len(self._labels))
        votes = []
        for part in torch.split(queries, at_once):
            with self._performance.autocast():
                logits = self._forward_shared(
                    self._parameters, self._inputs(part.to(self._device)[None])[0]
                )
            votes.append(logits.float().argmax(2).to(torch.uint8).cpu())
        found: NDArray[np.uint8] = torch.cat(votes, dim=1).numpy()
        return found

    def _inputs(self, features: Tensor) -> Tensor:
        """Network inputs from features [T, B, ...]."""
        if not self._images:
            return features.float()
        mean, std = self._statistics
        networks, examples = features.shape[:2]
        images = normalize(features.flatten(0, 1), mean, std)
        return images.reshape(networks, examples, *images.shape[1:])


@dataclass(frozen=True, kw_only=True)
class TeacherVotes:
    """Trains batches of an ensemble's teachers; sent to the actors of a pool."""

    config: EnsembleConfig
    performance: Performance = field(default_factory=Performance)

    def __call__(
        self, teachers: Sequence[int], shards: Sequence[Shard], data: PublicData
    ) -> NDArray[np.uint8]:
        """Train n teachers, by their numbers, on their shards; return their votes [n, Q]."""
        self.config.check_data(data)
        queries = data.train_features[
            torch.from_numpy(self.config.query_positions(len(data.train_features)))
        ]
        if self.config.kind is TeacherKind.PROBE:
            return self._probes(shards, data, queries)
        seeds = [self.seed_of(teacher) for teacher in teachers]
        if self.config.kind is TeacherKind.NETWORK and self.config.one_batch:
            return train_and_vote(
                self.config.network,
                data=data,
                shards=shards,
                seeds=seeds,
                queries=queries,
                performance=self.performance,
            )
        # A single teacher's accuracy is not used: one test row instead of thousands per epoch.
        silent = replace(
            data, test_features=data.test_features[:1], test_labels=data.test_labels[:1]
        )
        votes = [
            self._one(shard, silent, seed).predict(queries).argmax(1).astype(np.uint8)
            for seed, shard in zip(seeds, shards, strict=True)
        ]
        return np.stack(votes)

    def seed_of(self, teacher: int) -> int:
        """Seed of one teacher's training; independent of how teachers are cut into batches."""
        text = f"labeldp teacher {self.config.seed} {teacher}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:4], "little")

    def _probes(
        self, shards: Sequence[Shard], data: PublicData, queries: torch.Tensor
    ) -> NDArray[np.uint8]:
        probes = train_probes(
            data.train_features,
            [shard.indices for shard in shards],
            [shard.labels for shard in shards],
            data.num_classes,
            ridge=self.config.ridge,
        )
        return vote(probes, queries)

    def _one(self, shard: Shard, data: PublicData, seed: int) -> Trainer:
        """Return a teacher that has learned from its shard, as a student does from answers."""
        config = self.config
        student = StudentConfig(
            kind=StudentKind(config.kind),
            forest=config.forest,
            network=config.network,
            fixmatch=config.fixmatch,
        )
        teacher = start_student(
            student,
            data=data,
            indices=shard.indices,
            labels=shard.labels,
            seed=seed,
            performance=self.performance,
        )
        for _ in range(student.epochs):
            teacher.epoch()
        return teacher

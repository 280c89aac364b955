"""Teachers of a PATE ensemble: each learns from its own shard of true labels, then votes.

Runs inside the trust boundary: what is returned here are votes without noise, for the vault's side
only. A batch of teachers depends on its own shards and seeds, and on public features; the same
batch gives the same votes on whatever actor it runs, and however often.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from labeldp.mechanisms.vault import Shard
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.fixmatch import FixMatch
from labeldp.trainers.methods.pate.forests import fit_forest
from labeldp.trainers.methods.pate.network_batch import fits_one_batch, train_and_vote
from labeldp.trainers.methods.pate.probes import train_probes, vote
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.ensemble import EnsembleConfig, TeacherKind

#: Raised when the same settings would give other votes than before.
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TeacherVotes:
    """Trains batches of an ensemble's teachers; sent to the actors of a pool.

    Attributes:
        config: The ensemble.
        performance: Where and how fast.
    """

    config: EnsembleConfig
    performance: Performance = field(default_factory=Performance)

    def __call__(
        self, teachers: Sequence[int], shards: Sequence[Shard], data: PublicData
    ) -> NDArray[np.uint8]:
        """Train a batch of teachers and let them vote.

        Args:
            teachers: Their numbers [n].
            shards: Their shards [n].
            data: Public features; the labels come from the shards.

        Returns:
            Votes [n, Q].

        Raises:
            ValueError: Data that these teachers can't learn from.
        """
        self.config.check_data(data)
        queries = data.train_features[
            torch.from_numpy(self.config.query_positions(len(data.train_features)))
        ]
        if self.config.kind is TeacherKind.PROBE:
            return self._probes(shards, data, queries)
        seeds = [self.seed_of(teacher) for teacher in teachers]
        if self.config.kind is TeacherKind.NETWORK and fits_one_batch(self.config.network):
            return train_and_vote(
                self.config.network,
                data=data,
                shards=shards,
                seeds=seeds,
                queries=queries,
                performance=self.performance,
            )
        one: dict[TeacherKind, Callable[..., NDArray[np.uint8]]] = {
            TeacherKind.FOREST: self._forest,
            TeacherKind.NETWORK: self._network,
            TeacherKind.FIXMATCH: self._fixmatch,
        }
        # Nobody looks at a single teacher's accuracy: one test row instead of thousands per epoch.
        silent = replace(
            data, test_features=data.test_features[:1], test_labels=data.test_labels[:1]
        )
        votes = [
            one[self.config.kind](shard, silent, queries, seed)
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

    def _forest(
        self, shard: Shard, data: PublicData, queries: torch.Tensor, seed: int
    ) -> NDArray[np.uint8]:
        forest = fit_forest(
            data.train_features[torch.from_numpy(shard.indices)],
            shard.labels,
            settings=self.config.forest,
            seed=seed,
        )
        return forest.predict(queries).astype(np.uint8)

    def _network(
        self, shard: Shard, data: PublicData, queries: torch.Tensor, seed: int
    ) -> NDArray[np.uint8]:
        learner = Learner(
            self.config.network,
            data=data,
            seed=seed,
            performance=self.performance,
            examples=shard.indices,
        )
        labels = torch.from_numpy(shard.labels).to(learner.device)
        smoothing = self.config.network.recipe.label_smoothing

        def loss(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(logits, labels[rows], label_smoothing=smoothing)

        for _ in range(self.config.network.epochs):
            learner.epoch(loss)
        votes: NDArray[np.uint8] = learner.predict(queries).argmax(1).astype(np.uint8)
        return votes

    def _fixmatch(
        self, shard: Shard, data: PublicData, queries: torch.Tensor, seed: int
    ) -> NDArray[np.uint8]:
        teacher = FixMatch(
            self.config.fixmatch,
            data=data,
            indices=shard.indices,
            labels=shard.labels,
            seed=seed,
            performance=self.performance,
        )
        for _ in range(self.config.fixmatch.epochs):
            teacher.epoch()
        votes: NDArray[np.uint8] = teacher.predict(queries).argmax(1).astype(np.uint8)
        return votes

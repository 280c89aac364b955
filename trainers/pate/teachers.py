"""Teachers of a PATE ensemble: each learns from its own shard of true labels, then votes.

Runs inside the trust boundary: what is returned here are votes without noise, for the vault's side
only. A batch of teachers depends on its own shards and seeds, and on public features; the same
batch gives the same votes on whatever actor it runs, and however often.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from labeldp.mechanisms import _validate
from labeldp.mechanisms.vault import Shard
from labeldp.trainers.data import FeatureKind, PublicData
from labeldp.trainers.fixmatch import FixMatch, FixMatchConfig
from labeldp.trainers.learner import Learner, LearnerConfig
from labeldp.trainers.pate.forests import ForestSettings, fit_forest
from labeldp.trainers.pate.network_batch import fits_one_batch, train_and_vote
from labeldp.trainers.pate.probes import MOST_CLASSES, train_probes, vote
from labeldp.trainers.performance import Performance
from labeldp.trainers.predictors import NetworkSettings
from labeldp.trainers.recipe import Recipe

#: Raised when the same settings would give other votes than before.
VERSION = 1


class TeacherKind(StrEnum):
    """What a teacher is.

    PROBE: a linear probe on frozen label-free features, hundreds at once. FOREST: a random forest,
    for tables. NETWORK: a network on its shard alone. FIXMATCH: a network on its shard and on all
    features, PATE-FM's own.
    """

    PROBE = "probe"
    FOREST = "forest"
    NETWORK = "network"
    FIXMATCH = "fixmatch"


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig:
    """All that decides an ensemble's votes, but for data and labels.

    Attributes:
        kind: What a teacher is.
        teachers: T.
        queries: Q, how many training examples the teachers vote on.
        seed: Of the shards, the choice of queries and the teachers' training.
        ridge: Of probes.
        forest: Of forests.
        network: Of networks.
        fixmatch: Of FixMatch.
    """

    kind: TeacherKind = TeacherKind.PROBE
    teachers: int = 250
    queries: int = 3000
    seed: int = 0
    ridge: float = 0.1
    forest: ForestSettings = field(default_factory=ForestSettings)
    network: LearnerConfig = field(default_factory=LearnerConfig)
    fixmatch: FixMatchConfig = field(default_factory=FixMatchConfig)

    def __post_init__(self) -> None:
        """Check the counts."""
        _validate.members(self)
        _validate.whole(minimum=1, teachers=self.teachers, queries=self.queries)
        _validate.whole(seed=self.seed)
        _validate.positive(ridge=self.ridge)

    @property
    def batch(self) -> int:
        """Teachers that an actor trains together, and that are lost together when it dies."""
        if self.kind is TeacherKind.NETWORK:
            return 25 if fits_one_batch(self.network) else 1
        return {TeacherKind.PROBE: 100, TeacherKind.FOREST: 5, TeacherKind.FIXMATCH: 1}[self.kind]

    def facts(self) -> dict[str, Any]:
        """Return all that decides the votes, as plain values.

        What came later is left out where nobody sets it: older votes keep their address.
        """
        found = asdict(self)
        if self.network.recipe == Recipe():
            del found["network"]["recipe"]
        return found

    def check_count(self, examples: int) -> None:
        """Refuse too few training examples.

        Raises:
            ValueError: More teachers or queries than examples.
        """
        if self.teachers > examples:
            raise ValueError(
                f"ensemble.teachers is {self.teachers}, but there are {examples} labels: some "
                "teachers would have none; take fewer teachers, or more data"
            )
        self.query_positions(examples)

    def check_data(self, data: PublicData) -> None:
        """Refuse data that these teachers can't learn from, before any of them starts.

        Raises:
            ValueError: More teachers or queries than examples, more classes than a vote can name,
                or probes of images.
        """
        self.check_count(len(data.train_features))
        if data.num_classes > MOST_CLASSES:
            raise ValueError(
                f"{data.name} has {data.num_classes} classes, but a vote is kept in one byte, so "
                f"that teachers tell {MOST_CLASSES} classes apart at most; take another method"
            )
        if self.kind in (TeacherKind.NETWORK, TeacherKind.FIXMATCH):
            trained = self.network if self.kind is TeacherKind.NETWORK else self.fixmatch
            NetworkSettings.check_own(data, model=trained.model, width=trained.width)
        if self.kind is TeacherKind.PROBE and data.kind is FeatureKind.IMAGE:
            raise ValueError(
                f"{data.name} holds images, and a probe is linear in its features; set "
                "data.features=patches, or another ensemble.kind"
            )

    def query_positions(self, examples: int) -> NDArray[np.intp]:
        """Training examples that are voted on [Q], in the order of asking; public.

        Raises:
            ValueError: More queries than examples.
        """
        if self.queries > examples:
            raise ValueError(
                f"ensemble.queries is {self.queries}, but there are {examples} training examples "
                "to ask about; ask about fewer"
            )
        generator = np.random.default_rng([self.seed, 1])
        return generator.permutation(examples)[: self.queries].astype(np.intp)


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

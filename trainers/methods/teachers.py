"""Teachers of a PATE ensemble: each learns from its own shard of true labels, then votes.

Runs inside the trust boundary: the votes have no noise, and are for the vault's side only. A batch
of teachers depends on its own shards and seeds, and on public features; the same batch gives the
same votes on every actor, and however often.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.closed_forms import train_probes, vote
from labeldp.trainers.methods.pate import start_student
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.pate import (
    EnsembleConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.trainer import Trainer


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
            probes = train_probes(
                data.train_features,
                [shard.indices for shard in shards],
                [shard.labels for shard in shards],
                data.num_classes,
                ridge=self.config.ridge,
            )
            return vote(probes, queries)
        # A single teacher's accuracy is not used: one test row instead of thousands per epoch.
        silent = replace(
            data, test_features=data.test_features[:1], test_labels=data.test_labels[:1]
        )
        votes = [
            self._one(shard, silent, self.seed_of(teacher))
            .predict(queries)
            .argmax(1)
            .astype(np.uint8)
            for teacher, shard in zip(teachers, shards, strict=True)
        ]
        return np.stack(votes)

    def seed_of(self, teacher: int) -> int:
        """Seed of one teacher's training; independent of how teachers are cut into batches."""
        text = f"labeldp teacher {self.config.seed} {teacher}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:4], "little")

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

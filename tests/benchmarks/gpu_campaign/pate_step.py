"""PATE-FM: teachers one by one, some epochs at a time; then a trial of students on their answers.

A teacher learns from its shard of true labels. Its state and its votes are as secret as they are,
and stay in the campaign's folder, which is the owner's alone; answers leave through the vault.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.pate.votes import count_votes
from labeldp.mechanisms.vault import Shard
from labeldp.platform.records.private_files import replacing
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.fixmatch import FixMatch
from labeldp.trainers.methods.pate.teachers import TeacherVotes
from labeldp.trainers.settings.pate import PateConfig
from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.labels import StepLabels
from tests.benchmarks.gpu_campaign.place import Place
from tests.benchmarks.gpu_campaign.step import KEEP_SECONDS
from tests.benchmarks.gpu_campaign.trial_step import TrialStep


@dataclass(frozen=True, kw_only=True)
class PateStep(TrialStep):
    """A trial of PATE-FM.

    Attributes:
        config: Of teachers by FixMatch, of one round, and without a published cost.
        ensemble: What the teachers' votes are called; steps of the same ones share them.
    """

    config: PateConfig
    ensemble: str

    def advance(self, place: Place, clock: Clock) -> bool:
        """Train the teachers that are missing, then the students."""
        shards = place.labels(self.dataset, draw=self.seed).vault.partition(
            self.config.ensemble.teachers, seed=self.config.ensemble.seed
        )
        votes = self._votes(place)
        for teacher in range(len(votes), len(shards)):
            new = self._teacher(place, clock, teacher, shards[teacher])
            if new is None:
                return False
            votes = np.concatenate([votes, new[None]])
            with replacing(self._file(place)) as file:
                np.save(file, votes, allow_pickle=False)
        return super().advance(place, clock)

    def _give_votes(self, place: Place, labels: StepLabels) -> None:
        labels.votes = count_votes(self._votes(place), num_classes=labels.vault.num_classes)

    def _teacher(
        self, place: Place, clock: Clock, teacher: int, shard: Shard
    ) -> NDArray[np.uint8] | None:
        """Votes [Q] of a teacher that is trained to its end; None where the time is over first."""
        config = self.config.ensemble.fixmatch
        data = place.public(self.dataset)
        training = FixMatch(
            config,
            data=_silent(data),
            indices=shard.indices,
            labels=shard.labels,
            seed=TeacherVotes(config=self.config.ensemble).seed_of(teacher),
            performance=self.performance,
        )
        name = f"{self.ensemble}-teacher"
        key = repr((teacher, place.limit, self.config.ensemble))
        state = place.state(name, key)
        if state is not None:
            training.load_state_dict(state)
        kept, last = time.monotonic(), 0.0
        while training.epoch_number < config.epochs:
            over = not clock.allows(last)
            if over or time.monotonic() - kept >= KEEP_SECONDS:
                place.keep_state(name, key, training.state_dict())
                kept = time.monotonic()
            if over:
                return None
            began = time.monotonic()
            training.epoch()
            last = time.monotonic() - began
        queries = data.train_features[
            self.config.ensemble.query_positions(len(data.train_features))
        ]
        votes: NDArray[np.uint8] = training.predict(queries).argmax(1).astype(np.uint8)
        return votes

    def _votes(self, place: Place) -> NDArray[np.uint8]:
        """Votes of all teachers that are done [n, Q]."""
        try:
            votes: NDArray[np.uint8] = np.load(self._file(place), allow_pickle=False)
        except FileNotFoundError:
            return np.zeros((0, self.config.ensemble.queries), dtype=np.uint8)
        return votes

    def _file(self, place: Place) -> Path:
        return place.folder / "private" / f"{self.ensemble}.npy"


def _silent(data: PublicData) -> PublicData:
    """The same data with one test image: nobody looks at a single teacher's accuracy."""
    return replace(data, test_features=data.test_features[:1], test_labels=data.test_labels[:1])

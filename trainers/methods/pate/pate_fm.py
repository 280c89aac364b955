"""PATE-FM: an ensemble of teachers answers under noise, students learn from the answers.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 3, on
the aggregators of Papernot et al., ICLR 2018. The trainer here sees answers; votes stay with the
vault, and teachers were trained before (platform/ does that once for all settings of the noise).
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms.pate.releases import LABEL, PateAnswers
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.pate.students import Student, further_labels, start_student
from labeldp.trainers.methods.priors import PriorSource
from labeldp.trainers.models.predictors import MeanPredictor
from labeldp.trainers.models.schedules import EpochMetrics
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.ensemble import EnsembleConfig
from labeldp.trainers.settings.pate import PateConfig
from labeldp.trainers.trainer import LabelSource, Trainer


class AnswerSource(LabelSource, Protocol):
    """What PATE may ask about labels: answers of an ensemble, and a prior's release, paid for."""

    def answers(
        self,
        ensemble: EnsembleConfig,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
    ) -> NDArray[np.int64]:
        """Return answers [Q, 2] to the ensemble's first queries.

        Args:
            ensemble: The teachers.
            requests: Rounds so far; what was answered before is not paid again.
            student_scores: For an interactive round [Q, K].
            delta: At which costs are stated.
            publish_cost: Release a bound on the real cost too, where one is proven.
        """


def started(
    config: PateConfig,
    *,
    data: PublicData,
    labels: AnswerSource,
    seed: int,
    performance: Performance,
) -> "Pate":
    """Ask for the answers and the prior, and set the students up.

    Args:
        config: Settings.
        data: Public features and test split.
        labels: Where answers are asked for.
        seed: Of the students.
        performance: Where and how fast.

    Raises:
        BudgetExceeded: A release would take a label over the budget.
        ValueError: Nothing was answered, or settings that don't fit the data.
    """
    positions = config.ensemble.query_positions(len(data.train_features))
    rounds = config.rounds
    prior = None
    if config.prior.source is not PriorSource.UNIFORM:
        prior = config.prior.learn(data, labels, epsilon=config.prior_epsilon, delta=config.delta)

    def ask(count: int, scores: NDArray[np.float32] | None = None) -> NDArray[np.int64]:
        publish = config.publishes
        return labels.answers(
            config.ensemble, rounds[:count], scores, delta=config.delta, publish_cost=publish
        )

    def student(released: NDArray[np.int64], seed: int) -> Student:
        """One who learns from answers, and from what the prior is sure of."""
        indices, known = _answered(positions, released)
        if prior is not None:
            more, guesses = further_labels(prior, share=config.prior_trusted, answered=indices)
            indices = np.concatenate([indices, more])
            known = np.concatenate([known, guesses])
        return start_student(
            config.student,
            data=data,
            indices=indices,
            labels=known,
            seed=seed,
            performance=performance,
        )

    released = ask(1)
    if len(rounds) > 1:
        first = student(released, seed)
        for _ in range(config.student.epochs):
            first.epoch()
        later = positions[rounds[0].queries : config.ensemble.queries]
        released = ask(2, first.predict(data.train_features[later]))
    indices, _ = _answered(positions, released)
    students = [student(released, config.students * seed + n) for n in range(config.students)]
    return Pate(students, epochs_each=config.student.epochs, answered=len(indices))


class Pate(Trainer):
    """Students of one ensemble, trained one after the other."""

    def __init__(self, students: list[Student], *, epochs_each: int, answered: int) -> None:
        """Take students that have not begun.

        Args:
            students: All of the same answers.
            epochs_each: Epochs of every student.
            answered: Labels they learn from.
        """
        self.students = students
        self._epochs_each, self._answered, self._epoch = epochs_each, answered, 0

    def epoch(self) -> EpochMetrics:
        """Train the student whose turn it is for one epoch.

        Raises:
            TrainingDiverged: The loss is not finite any more.
        """
        metrics = self.students[self._epoch // self._epochs_each].epoch()
        self._epoch += 1
        return EpochMetrics(
            epoch=self._epoch,
            loss=metrics.loss,
            val_accuracy=metrics.val_accuracy,
            seconds=metrics.seconds,
        )

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K], the mean over the students."""
        found = np.stack([student.predict(features) for student in self.students])
        mean: NDArray[np.float32] = found.mean(axis=0)
        return mean

    def predictor(self) -> MeanPredictor:
        """Return the students, apart from what trains them."""
        return MeanPredictor(parts=tuple(student.predictor() for student in self.students))

    def evaluate(self) -> float:
        """Mean accuracy of the students on the public test split; NaN where there is none."""
        return fmean(student.evaluate() for student in self.students)

    def figures(self) -> dict[str, float]:
        """How far the students are apart, and how many labels they had."""
        accuracies = [student.evaluate() for student in self.students]
        if math.isnan(accuracies[0]):  # there is no public test split
            return {"answered": float(self._answered)}
        spread = stdev(accuracies) if len(accuracies) > 1 else 0.0
        return {"answered": float(self._answered), "student_accuracy_std": spread}

    def state_dict(self) -> dict[str, Any]:
        """Return all that a bit-identical continuation needs."""
        return {
            "epoch": self._epoch,
            "students": [student.state_dict() for student in self.students],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._epoch = int(state["epoch"])
        for student, its in zip(self.students, state["students"], strict=True):
            student.load_state_dict(its)


def _answered(
    positions: NDArray[np.intp], released: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Training examples that have an answer, and the answers."""
    known = released[:, LABEL] >= 0
    asked = positions[: len(released)]
    return asked[known], released[known, LABEL].astype(np.int64)

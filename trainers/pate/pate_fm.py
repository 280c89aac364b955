"""PATE-FM: an ensemble of teachers answers under noise, students learn from the answers.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 3, on
the aggregators of Papernot et al., ICLR 2018. The trainer here sees answers; votes stay with the
vault, and teachers were trained before (platform/ does that once for all settings of the noise).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, stdev
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms import _validate
from labeldp.mechanisms.ledger import Priced
from labeldp.mechanisms.pate.aggregators import Aggregator, ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.interactive_gnmax import InteractiveGNMax
from labeldp.mechanisms.pate.releases import LABEL, PateAnswers, PublishedCost, composed
from labeldp.trainers.data import PublicData
from labeldp.trainers.pate.students import Student, StudentConfig, further_labels, start_student
from labeldp.trainers.pate.teachers import EnsembleConfig
from labeldp.trainers.performance import Performance
from labeldp.trainers.predictors import MeanPredictor
from labeldp.trainers.priors import PriorSettings, PriorSource
from labeldp.trainers.schedules import EpochMetrics
from labeldp.trainers.trainer import LabelSource, PlannedCharge, Trainer, TrainerDefaults


class AggregatorKind(StrEnum):
    """How votes become answers; see `labeldp.mechanisms.pate.aggregators`."""

    CONFIDENT = "confident"
    GNMAX = "gnmax"
    LNMAX = "lnmax"
    INTERACTIVE = "interactive"


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


@dataclass(frozen=True, kw_only=True)
class PateConfig(TrainerDefaults):
    """Settings of PATE-FM.

    Attributes:
        ensemble: The teachers; everything else here reuses their votes.
        aggregator: How votes become answers.
        threshold: tau, of CONFIDENT and INTERACTIVE, in votes.
        sigma1: Standard deviation of the check's noise, in votes.
        sigma2: Standard deviation of the answers' noise, in votes; LNMAX takes the Laplace
            distribution of this standard deviation.
        confidence: Of INTERACTIVE: a student surer than this keeps its own label.
        answers: K, after which no more queries are answered.
        delta: At which epsilon is stated.
        publish_cost: Release, beside the answers and with noise of its own, a bound after the fact
            on what they really cost (`epsilon_sanitized`), where one is proven; charged too.
        student: What learns from the answers.
        students: How many of them; mean and spread are reported.
        prior: What students learn from beside the answers; UNIFORM for nothing. It is released by
            itself, costs `prior_epsilon` whatever its share, and adds to what the answers cost.
        prior_epsilon: Of that release.
        prior_trusted: Share of the training examples of each class, the surest first, whose
            likeliest class under the prior becomes a label.
    """

    ensemble: EnsembleConfig = field(default_factory=EnsembleConfig)
    aggregator: AggregatorKind = AggregatorKind.CONFIDENT
    threshold: float = 150.0
    sigma1: float = 100.0
    sigma2: float = 40.0
    confidence: float = 0.95
    answers: int = 500
    delta: float = 1e-5
    publish_cost: bool = True
    student: StudentConfig = field(default_factory=StudentConfig)
    students: int = 3
    prior: PriorSettings = field(default_factory=PriorSettings)
    prior_epsilon: float = 0.1
    prior_trusted: float = 0.8

    def __post_init__(self) -> None:
        """Check the numbers against each other."""
        _validate.members(self)
        _validate.between(0, 1, delta=self.delta, prior_trusted=self.prior_trusted)
        _validate.positive(prior_epsilon=self.prior_epsilon)
        if self.prior.source.asks_labels and self.publish_cost:
            raise ValueError(
                f"publish_cost is True, but with prior.source={self.prior.source} the answers are "
                "not all that is paid for, and the bound speaks of answers only; set "
                "publish_cost=False"
            )
        _validate.whole(minimum=1, answers=self.answers, students=self.students)
        teachers = self.ensemble.teachers
        with_check = self.aggregator in (AggregatorKind.CONFIDENT, AggregatorKind.INTERACTIVE)
        # Three standard deviations above what a unanimous vote has, one query in a thousand passes.
        if with_check and self.threshold > teachers + 3 * self.sigma1:
            raise ValueError(
                f"threshold is {self.threshold:g}, but {teachers} teachers who all agree reach "
                f"{teachers} votes and with noise of sigma1 {self.sigma1:g} hardly more than "
                f"{teachers + 3 * self.sigma1:g}: nothing would pass; the papers take 10% to 75% "
                f"of the teachers, {0.1 * teachers:g} to {0.75 * teachers:g}"
            )
        if self.answers > self.ensemble.queries:
            raise ValueError(
                f"answers is {self.answers}, but ensemble.queries is {self.ensemble.queries}; ask "
                "for fewer answers, or let teachers vote on more queries"
            )
        if self.aggregator is AggregatorKind.INTERACTIVE and self.answers < 2:
            raise ValueError("an interactive run has two rounds; ask for 2 answers at least")
        _ = self.rounds

    def check_data(self, data: PublicData) -> None:
        """Refuse data that don't fit, before any teacher or trial starts.

        Raises:
            ValueError: More teachers or queries than examples, or models of other features.
        """
        self.ensemble.check_data(data)
        self.student.check_data(data)

    @property
    def epochs(self) -> int:
        """Of all students, one after the other."""
        return self.students * self.student.epochs

    @property
    def rounds(self) -> tuple[PateAnswers, ...]:
        """What is asked for: one request, or two of half the queries and answers each."""
        queries, answers = self.ensemble.queries, self.answers
        if self.aggregator is not AggregatorKind.INTERACTIVE:
            aggregator: Aggregator
            match self.aggregator:
                case AggregatorKind.GNMAX:
                    aggregator = GNMax(noise_std=self.sigma2)
                case AggregatorKind.LNMAX:
                    aggregator = LNMax(scale=self.sigma2 / 2**0.5)
                case _:
                    aggregator = self._confident
            request = PateAnswers(aggregator=aggregator, queries=queries, max_answers=answers)
            return (request,)
        interactive = InteractiveGNMax(
            threshold=self.threshold,
            sigma1=self.sigma1,
            sigma2=self.sigma2,
            confidence=self.confidence,
        )
        return (
            PateAnswers(
                aggregator=self._confident,
                queries=queries // 2,
                max_answers=answers // 2,
            ),
            PateAnswers(
                aggregator=interactive,
                queries=queries - queries // 2,
                max_answers=answers - answers // 2,
            ),
        )

    @property
    def _confident(self) -> ConfidentGNMax:
        return ConfidentGNMax(threshold=self.threshold, sigma1=self.sigma1, sigma2=self.sigma2)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay for its answers, and for publishing what they cost."""
        del seed
        rounds = self.rounds
        published = None
        if self.publish_cost and len(rounds) == 1:
            published = PublishedCost.of(
                rounds[0],
                teachers=self.ensemble.teachers,
                classes=num_classes,
                delta=self.delta,
            )
        paid: list[Priced] = [*rounds, *([] if published is None else [published])]
        # A student that knows a prior shows other scores to the teachers in an interactive round.
        known = (self.prior, self.prior_epsilon, self.prior_trusted) if len(rounds) > 1 else None
        return PlannedCharge(
            event=composed([each.event for each in paid]),
            failure_probability=sum(each.failure_probability for each in paid),
            release=(self.ensemble, rounds, self.delta, published, known),
            releases=len(paid),
            before=self.prior.planned_charge(
                epsilon=self.prior_epsilon, delta=self.delta, num_classes=num_classes
            ),
        )

    def start(
        self, *, data: PublicData, labels: AnswerSource, seed: int, performance: Performance
    ) -> "Pate":
        """Ask for the answers and the prior, and set the students up.

        Raises:
            BudgetExceeded: A release would take a label over the budget.
            ValueError: Nothing was answered, or settings that don't fit the data.
        """
        positions = self.ensemble.query_positions(len(data.train_features))
        rounds = self.rounds
        prior = None
        if self.prior.source is not PriorSource.UNIFORM:
            prior = self.prior.learn(data, labels, epsilon=self.prior_epsilon, delta=self.delta)

        def learned(
            indices: NDArray[np.intp], answers: NDArray[np.int64]
        ) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
            """What a student learns from: answers, and what the prior is sure of."""
            if prior is None:
                return indices, answers
            more, guesses = further_labels(prior, share=self.prior_trusted, answered=indices)
            return np.concatenate([indices, more]), np.concatenate([answers, guesses])

        def ask(count: int, scores: NDArray[np.float32] | None = None) -> NDArray[np.int64]:
            publish = self.publish_cost and len(rounds) == 1
            return labels.answers(
                self.ensemble, rounds[:count], scores, delta=self.delta, publish_cost=publish
            )

        released = ask(1)
        if len(rounds) > 1:
            shown, known = learned(*_answered(positions, released))
            student = start_student(
                self.student,
                data=data,
                indices=shown,
                labels=known,
                seed=seed,
                performance=performance,
            )
            for _ in range(self.student.epochs):
                student.epoch()
            later = positions[rounds[0].queries : self.ensemble.queries]
            released = ask(2, student.predict(data.train_features[later]))
        indices, answers = _answered(positions, released)
        shown, known = learned(indices, answers)
        students = [
            start_student(
                self.student,
                data=data,
                indices=shown,
                labels=known,
                seed=self.students * seed + number,
                performance=performance,
            )
            for number in range(self.students)
        ]
        return Pate(students, epochs_each=self.student.epochs, answered=len(indices))


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

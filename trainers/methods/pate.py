"""PATE-FM: an ensemble of teachers answers under noise, students learn from the answers.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 3, on
the aggregators of Papernot et al., ICLR 2018. The trainer here sees answers; votes stay with the
vault, and teachers were trained before (platform/ does that once for all settings of the noise).
Answers have been paid for, so a student may look at them as often as it likes; three students of
the same answers cost what one costs.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.pate.releases import LABEL, PateAnswers
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.closed_forms import fit_forest, train_probes
from labeldp.trainers.methods.fixmatch import FixMatch
from labeldp.trainers.methods.priors import learned_prior
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.models.predictors import (
    EstimatorPredictor,
    MeanPredictor,
    Predictor,
    ProbePredictor,
)
from labeldp.trainers.models.schedules import EpochMetrics
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.methods import PriorSource
from labeldp.trainers.settings.pate import EnsembleConfig, PateConfig, StudentConfig, StudentKind
from labeldp.trainers.trainer import LabelSource, Trainer


def start_student(
    config: StudentConfig,
    *,
    data: PublicData,
    indices: NDArray[np.intp],
    labels: NDArray[np.int64],
    seed: int,
    performance: Performance,
) -> Trainer:
    """Set a student up that learns from answers [M] on training examples `indices` [M]."""
    if len(indices) == 0:
        raise ValueError(
            "no query was answered, so there is nothing for a student to learn from; lower the "
            "threshold or sigma1, or let more teachers vote"
        )
    config.check_data(data)
    if config.kind is StudentKind.FIXMATCH:
        return FixMatch(
            config.fixmatch,
            data=data,
            indices=indices,
            labels=labels,
            seed=seed,
            performance=performance,
        )
    if config.kind is StudentKind.NETWORK:
        return OnLabels(
            config.network,
            labels=labels,
            data=data,
            seed=seed,
            performance=performance,
            examples=indices,
        )
    return _ClosedFormStudent(config, data, indices, labels, seed)


class _ClosedFormStudent(Trainer):
    """A model that is fitted at once; its only epoch fits it."""

    def __init__(
        self,
        config: StudentConfig,
        data: PublicData,
        indices: NDArray[np.intp],
        labels: NDArray[np.int64],
        seed: int,
    ) -> None:
        self._config, self._data, self._seed = config, data, seed
        self._indices, self._labels = indices, labels
        self._predictor: Predictor | None = None

    def _fit(self) -> Predictor:
        if self._config.kind is not StudentKind.FOREST:
            return self._fit_probe()
        rows = self._data.train_features[torch.from_numpy(self._indices)]
        forest = fit_forest(rows, self._labels, settings=self._config.forest, seed=self._seed)
        return EstimatorPredictor(estimator=forest, num_classes=self._data.num_classes)

    def _fit_probe(self) -> ProbePredictor:
        """Fit a probe to answers and, if it is self-trained, to its own confident guesses."""
        config, data, indices, labels = self._config, self._data, self._indices, self._labels

        def fitted(rows: NDArray[np.intp], answers: NDArray[np.int64]) -> ProbePredictor:
            probes = train_probes(
                data.train_features, [rows], [answers], data.num_classes, ridge=config.ridge
            )
            return ProbePredictor(weights=probes[0])

        probe = fitted(indices, labels)
        if config.kind is not StudentKind.SELF_TRAINED:
            return probe
        # A closed form has no seed; students of one ensemble differ in the half they look at.
        count = len(data.train_features)
        order = np.random.default_rng(self._seed).permutation(count)
        half = np.sort(order[: (count + 1) // 2])
        seen = data.train_features[torch.from_numpy(half)]
        for number in range(1, config.rounds + 1):
            top = probe.scores(seen).topk(2, dim=1)
            margin = (top.values[:, 0] - top.values[:, 1]).numpy()
            guesses = top.indices[:, 0].numpy()
            share = config.trusted * number / config.rounds
            trusted = _most_confident(margin, guesses, data.num_classes, share)
            probe = fitted(
                np.concatenate([half[trusted], indices]), np.concatenate([guesses[trusted], labels])
            )
        return probe

    def epoch(self) -> EpochMetrics:
        started = time.perf_counter()
        self._predictor = self._fit()
        accuracy = self.evaluate()
        return EpochMetrics(
            epoch=1, loss=self._loss(), val_accuracy=accuracy, seconds=time.perf_counter() - started
        )

    def _loss(self) -> float:
        """Cross-entropy to the answers, from probabilities that a forest may round to 0."""
        likely = self.predict(self._data.train_features[torch.from_numpy(self._indices)])
        chosen = likely[np.arange(len(self._labels)), self._labels]
        return float(-np.log(np.maximum(chosen, 1e-12)).mean())

    def predictor(self) -> Predictor:
        assert self._predictor is not None, "predict before the first epoch"
        return self._predictor

    def evaluate(self) -> float:
        return self._data.test_accuracy(self.predict(self._data.test_features).argmax(1))

    def state_dict(self) -> dict[str, Any]:
        return {"fitted": self._predictor is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["fitted"]:
            self._predictor = self._fit()


def further_labels(
    prior: NDArray[np.float64],
    *,
    share: float,
    answered: NDArray[np.intp],
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the examples [L] that a prior [N, K] is surest of, and their likeliest classes [L].

    `share` is the part of each likeliest class that is taken, the surest first; `answered` are
    examples that have a label already [M] and are left out.
    """
    ranked = np.sort(prior, axis=1)
    guesses = prior.argmax(1)
    margin = (ranked[:, -1] - ranked[:, -2]).astype(np.float32)
    sure = _most_confident(margin, guesses, prior.shape[1], share)
    new = np.setdiff1d(sure, answered)
    return new, guesses[new].astype(np.int64)


def _most_confident(
    margin: NDArray[np.float32], guesses: NDArray[np.int64], classes: int, share: float
) -> NDArray[np.intp]:
    """The same share of every guessed class, so that easy classes do not crowd out hard ones."""
    parts = []
    for label in range(classes):
        members = np.flatnonzero(guesses == label)
        count = int(share * len(members))
        parts.append(members[np.argsort(-margin[members], kind="stable")[:count]])
    return np.concatenate(parts)


class AnswerSource(LabelSource, Protocol):
    """A source of an ensemble's answers and of a prior's release, which are paid for."""

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

        `requests` are all rounds so far; earlier answers are not paid again. An interactive round
        takes `student_scores` [Q, K]. `publish_cost` releases a bound on the real cost too.
        """


def start(
    config: PateConfig,
    *,
    data: PublicData,
    labels: AnswerSource,
    seed: int,
    performance: Performance,
) -> "Pate":
    """Request the answers and the prior, and set the students up."""
    positions = config.ensemble.query_positions(len(data.train_features))
    rounds = config.rounds
    prior = None
    if config.prior.source is not PriorSource.UNIFORM:
        prior = learned_prior(
            config.prior, data, labels, epsilon=config.prior_epsilon, delta=config.delta
        )

    def ask(count: int, scores: NDArray[np.float32] | None = None) -> NDArray[np.int64]:
        publish = config.publishes
        return labels.answers(
            config.ensemble, rounds[:count], scores, delta=config.delta, publish_cost=publish
        )

    def student(released: NDArray[np.int64], seed: int) -> Trainer:
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

    def __init__(self, students: list[Trainer], *, epochs_each: int, answered: int) -> None:
        """Take students that have not begun."""
        self.students = students
        self._epochs_each, self._answered, self._epoch = epochs_each, answered, 0

    def epoch(self) -> EpochMetrics:
        """Train the student whose turn it is for one epoch."""
        metrics = self.students[self._epoch // self._epochs_each].epoch()
        self._epoch += 1
        return replace(metrics, epoch=self._epoch)

    def predictor(self) -> MeanPredictor:
        """Return the students, apart from what trains them."""
        found = (student.predictor() for student in self.students)
        return MeanPredictor(parts=tuple(part for part in found if part is not None))

    def evaluate(self) -> float:
        """Mean accuracy of the students on the public test split; NaN where there is none."""
        return fmean(student.evaluate() for student in self.students)

    def figures(self) -> dict[str, float]:
        """How far the students are apart, and how many labels they had."""
        accuracies = [student.evaluate() for student in self.students]
        if math.isnan(accuracies[0]):  # without a public test split
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

"""Students: models that learn from an ensemble's answers and from public features, never labels.

Answers have been paid for, so a student may look at them as often as it likes; three students of
the same answers cost what one costs.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.closed_forms import ProbePredictor
from labeldp.trainers.methods.fixmatch import FixMatch
from labeldp.trainers.methods.one_network import OneNetwork
from labeldp.trainers.methods.pate.forests import fit_forest
from labeldp.trainers.methods.pate.probes import train_probes
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.predictors import Predictor
from labeldp.trainers.models.schedules import EpochMetrics
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.learner import LearnerConfig
from labeldp.trainers.settings.student import StudentConfig, StudentKind


class Student(Protocol):
    """A model in training."""

    def epoch(self) -> EpochMetrics:
        """Train for one epoch and evaluate."""

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K]."""

    def predictor(self) -> Predictor:
        """Return what predicts, apart from what trains it."""

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]; NaN where there is none."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that a bit-identical continuation needs."""

    def load_state_dict(self, state: Any) -> None:
        """Continue from where `state` was taken."""


def start_student(
    config: StudentConfig,
    *,
    data: PublicData,
    indices: NDArray[np.intp],
    labels: NDArray[np.int64],
    seed: int,
    performance: Performance,
) -> Student:
    """Set a student up.

    Args:
        config: Settings.
        data: Public features and test split.
        indices: Training examples that were answered [M].
        labels: The answers [M].
        seed: Of its training.
        performance: Where and how fast.

    Raises:
        ValueError: No answers, or a student that does not fit the features.
    """
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
        return _NetworkStudent(config.network, data, indices, labels, seed, performance)
    fit: Callable[[], Predictor]
    rows = torch.from_numpy(indices)
    if config.kind is StudentKind.FOREST:

        def fit() -> Predictor:
            return fit_forest(
                data.train_features[rows],
                labels,
                settings=config.forest,
                seed=seed,
                num_classes=data.num_classes,
            ).predictor()

    else:

        def fit() -> Predictor:
            return _fit_probe(config, data, indices, labels, seed)

    return _ClosedFormStudent(fit, data, rows=rows, labels=labels)


class _NetworkStudent(OneNetwork):
    def __init__(
        self,
        config: LearnerConfig,
        data: PublicData,
        indices: NDArray[np.intp],
        labels: NDArray[np.int64],
        seed: int,
        performance: Performance,
    ) -> None:
        super().__init__(
            Learner(config, data=data, seed=seed, performance=performance, examples=indices)
        )
        self._targets = torch.from_numpy(labels).to(self._learner.device)
        self._smoothing = config.recipe.label_smoothing

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        return functional.cross_entropy(
            logits, self._targets[rows], label_smoothing=self._smoothing
        )


class _ClosedFormStudent:
    """A model that is fitted at once; its only epoch fits it."""

    def __init__(
        self,
        fit: Callable[[], Predictor],
        data: PublicData,
        *,
        rows: Tensor,
        labels: NDArray[np.int64],
    ) -> None:
        self._fit, self._data = fit, data
        self._rows, self._labels = rows, labels
        self._predictor: Predictor | None = None

    def epoch(self) -> EpochMetrics:
        started = time.perf_counter()
        self._predictor = self._fit()
        accuracy = self.evaluate()
        return EpochMetrics(
            epoch=1, loss=self._loss(), val_accuracy=accuracy, seconds=time.perf_counter() - started
        )

    def _loss(self) -> float:
        """Cross-entropy to the answers, from probabilities that a forest may round to 0."""
        likely = self.predict(self._data.train_features[self._rows])
        chosen = likely[np.arange(len(self._labels)), self._labels]
        return float(-np.log(np.maximum(chosen, 1e-12)).mean())

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        return self.predictor().predict(features)

    def predictor(self) -> Predictor:
        assert self._predictor is not None, "predict before the first epoch"
        return self._predictor

    def evaluate(self) -> float:
        return self._data.test_accuracy(self.predict(self._data.test_features).argmax(1))

    def state_dict(self) -> dict[str, Any]:
        return {"fitted": self._predictor is not None}

    def load_state_dict(self, state: Any) -> None:
        if state["fitted"]:
            self._predictor = self._fit()


def _fit_probe(
    config: StudentConfig,
    data: PublicData,
    indices: NDArray[np.intp],
    labels: NDArray[np.int64],
    seed: int,
) -> ProbePredictor:
    """Fit a probe to answers and, where asked, to its own confident guesses."""

    def fitted(rows: NDArray[np.intp], answers: NDArray[np.int64]) -> ProbePredictor:
        probes = train_probes(
            data.train_features, [rows], [answers], data.num_classes, ridge=config.ridge
        )
        return ProbePredictor(weights=probes.weights[0])

    probe = fitted(indices, labels)
    if config.kind is StudentKind.SELF_TRAINED:
        # A closed form has no seed; students of one ensemble differ in the half they look at.
        count = len(data.train_features)
        half = np.sort(np.random.default_rng(seed).permutation(count)[: (count + 1) // 2])
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


def further_labels(
    prior: NDArray[np.float64],
    *,
    share: float,
    answered: NDArray[np.intp],
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return what a prior is surest of, as labels beside those that an ensemble has given.

    Args:
        prior: Of every training example [N, K].
        share: Part of each likeliest class that is taken, the surest first.
        answered: Examples that have a label already [M]; theirs stands.

    Returns:
        Examples [L], and their likeliest classes [L].
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
    """The same share of every guessed class, so that easy classes don't crowd out hard ones."""
    parts = []
    for label in range(classes):
        members = np.flatnonzero(guesses == label)
        count = int(share * len(members))
        parts.append(members[np.argsort(-margin[members], kind="stable")[:count]])
    return np.concatenate(parts)

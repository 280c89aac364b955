"""Data of a known logistic model, so that excess risk is known without an optimizer's error."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import ConvexConfig
from tests.trainers.tiny_data import SeededSource

CLASSES = 4
TEST = 4000


@dataclass(frozen=True, kw_only=True)
class LogisticData:
    """A data set whose labels follow softmax(x W).

    Attributes:
        public: Features and a test split.
        train_labels: [N].
        truth: Probabilities of the test labels [M, K].
        norm: Of W, for features scaled to mean squared norm 1.
    """

    public: PublicData
    train_labels: NDArray[np.int64]
    truth: NDArray[np.float64]
    norm: float


def logistic_data(*, train: int, columns: int, seed: int) -> LogisticData:
    """Five directions tell about the label, and all others are noise of the same total size."""
    random = np.random.default_rng(seed)
    weights = np.random.default_rng(100).normal(size=(5, CLASSES))
    weights -= weights.mean(1, keepdims=True)
    values = random.normal(size=(train + TEST, columns))
    truth = softmax(values[:, :5] @ weights, axis=1)
    labels = (random.random((len(truth), 1)) > truth.cumsum(1)[:, :-1]).sum(1)
    if columns > 5:
        values[:, 5:] /= math.sqrt(columns - 5)
    features = torch.from_numpy(values.astype(np.float32))
    public = PublicData(
        name="logistic",
        num_classes=CLASSES,
        train_features=features[:train],
        test_features=features[train:],
        test_labels=labels[train:],
    )
    size = math.sqrt(float(np.square(values).sum(1).mean()) + 1)
    return LogisticData(
        public=public,
        train_labels=labels[:train],
        truth=truth[train:],
        norm=size * float(np.linalg.norm(weights)),
    )


def excess_risk(config: ConvexConfig, *, train: int, repeats: int, columns: int = 5) -> float:
    """Mean over the repeats of the risk above that of the true model: E KL(truth, prediction)."""
    risks = []
    for seed in range(repeats):
        data = logistic_data(train=train, columns=columns, seed=seed)
        source = SeededSource(labels=data.train_labels, num_classes=CLASSES, seed=seed)
        trainer = config.start(
            data=data.public,
            labels=source,
            seed=seed,
            performance=Performance(device=Device.CPU),
        )
        for _ in range(config.epochs):
            trainer.epoch()
        predicted = trainer.predict(data.public.test_features).astype(np.float64)
        divergence = data.truth * (np.log(data.truth) - np.log(predicted))
        risks.append(float(divergence.sum(1).mean()))
    return float(np.mean(risks))


def slope(counts: Sequence[float], risks: Sequence[float]) -> float:
    """Of log risk over log count, by least squares."""
    return float(np.polyfit(np.log(counts), np.log(risks), 1)[0])

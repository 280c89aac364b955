"""Ratings as classes: LP-MST on a network of two branches, its error in stars beside its accuracy.

Ghazi et al., "Deep Learning with Label Differential Privacy", NeurIPS 2021, section 5.1: ratings of
one to five stars are labels like any other, and what is predicted is the mean under the softmax.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods import lp_mst
from labeldp.trainers.models.predictors import Predictor
from labeldp.trainers.models.schedules import EpochMetrics
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.methods import RecommenderConfig
from labeldp.trainers.trainer import LabelSource, Trainer


class Recommender(Trainer):
    """A trainer that says its error in stars too."""

    def __init__(self, trainer: Trainer, *, data: PublicData) -> None:
        """Wrap a trainer."""
        self._trainer, self._data = trainer, data

    def epoch(self) -> EpochMetrics:
        """Train for one epoch and evaluate."""
        return self._trainer.epoch()

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]."""
        return self._trainer.evaluate()

    def predict(self, features: torch.Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for identifiers [N, 2]."""
        return self._trainer.predict(features)

    def predictor(self) -> Predictor | None:
        """Return what predicts, apart from what trains it."""
        return self._trainer.predictor()

    def figures(self) -> dict[str, float]:
        """Figures of the stages; with a public test split `rmse` on it, and `rmse_constant`.

        The latter is that of the best constant there is, the mean of the test ratings: a model
        that has learned anything is below.
        """
        data, stars = self._data, stars_of(self._data)
        if not data.has_test_split:
            return dict(self._trainer.figures())
        rated = stars[data.test_labels]
        return {
            **self._trainer.figures(),
            "rmse": rmse(self.predict(data.test_features), stars, rated),
            "rmse_constant": float(rated.std()),
        }

    def state_dict(self) -> Mapping[str, Any]:
        """Return a copy of all that a bit-identical continuation needs."""
        return self._trainer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._trainer.load_state_dict(state)


def rmse(
    probabilities: NDArray[Any], stars: NDArray[np.float64], rated: NDArray[np.float64]
) -> float:
    """Root of the mean squared error of the mean rating.

    Args:
        probabilities: Of the classes [N, K].
        stars: What each class stands for [K].
        rated: True ratings [N].
    """
    checked = _validate.probabilities(probabilities, name="probabilities", num_classes=len(stars))
    return float(np.sqrt(np.mean((checked @ stars - rated) ** 2)))


def stars_of(data: PublicData) -> NDArray[np.float64]:
    """Return the number that each class stands for [K]: its name, read as one."""
    try:
        values = np.array([float(name) for name in data.class_names or ()])
    except ValueError:
        values = np.empty(0)
    if len(values) != data.num_classes or not np.isfinite(values).all():
        raise ValueError(
            f"the classes of {data.name} are named {data.class_names}; an error in stars needs "
            "names that are numbers: take method=lp_mst where classes are no ratings"
        )
    return values


def start(
    config: RecommenderConfig,
    *,
    data: PublicData,
    labels: LabelSource,
    seed: int,
    performance: Performance,
) -> Recommender:
    """Request the first part's ratings and set the first stage up."""
    stars_of(data)
    trainer = lp_mst.start(config, data=data, labels=labels, seed=seed, performance=performance)
    return Recommender(trainer, data=data)

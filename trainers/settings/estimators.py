"""The base of all predictors, and that of a scikit-learn estimator, which needs no torch."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.amounts import LEVELS
from labeldp.trainers.data.stored import Kept, Stored

#: Of the levels around a predicted amount, between bounds 0 and 1.
_DEVIATION = 0.1


class Predictor(Stored):
    """Features in, probabilities out."""

    def predict(self, features: Any) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for features [N, ...]."""
        raise NotImplementedError

    @property
    def models(self) -> list[tuple[str, float, float]]:
        """Name, weight and held-out log-likelihood of each model that it mixes; none by default."""
        return []


@dataclass(frozen=True, kw_only=True, eq=False)
class AmountPredictor(Kept, Predictor):
    """A fitted regressor of amounts on the scale where the `bounds` are 0 and 1."""

    kind: ClassVar[str] = "amounts"
    kept: ClassVar[str] = "estimator"

    estimator: Any
    bounds: tuple[float, float]

    def amounts(self, features: object) -> NDArray[np.float64]:
        """Return the predicted amounts [N] of features [N, ...], within the bounds."""
        low, high = self.bounds
        return np.asarray(low + self._scaled(features) * (high - low), dtype=np.float64)

    def predict(self, features: object) -> NDArray[np.float32]:
        """Return probabilities of the levels [N, K], as attacks on a model take them.

        They are normal around the prediction, with a fixed deviation: the order of the levels is
        all that there is to know.
        """
        middles = (np.arange(LEVELS) + 0.5) / LEVELS
        distances = (middles - self._scaled(features)[:, None]) / _DEVIATION
        chances = np.exp(-(distances**2) / 2)
        return np.asarray(chances / chances.sum(1, keepdims=True), dtype=np.float32)

    def _scaled(self, features: Any) -> NDArray[np.float64]:
        rows = np.asarray(features, dtype=np.float32).reshape(len(features), -1)
        return np.clip(np.asarray(self.estimator.predict(rows), np.float64), 0, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimatorPredictor(Kept, Predictor):
    """A fitted classifier, whose classes are places among the model's `num_classes`."""

    kind: ClassVar[str] = "estimator"
    kept: ClassVar[str] = "estimator"

    estimator: Any
    num_classes: int

    def predict(self, features: Any) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for rows [N, D]."""
        found = np.zeros((len(features), self.num_classes), dtype=np.float32)
        if len(features) == 0:  # without canaries; scikit-learn refuses no rows
            return found
        rows = np.asarray(features).reshape(len(features), -1)
        seen = np.asarray(self.estimator.classes_, dtype=int)
        found[:, seen] = self.estimator.predict_proba(rows)
        return found

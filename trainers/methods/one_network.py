"""The base of trainers around one `Learner`; each adds the loss of a batch."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.predictors import NetworkPredictor
from labeldp.trainers.models.schedules import EpochMetrics
from labeldp.trainers.trainer import Trainer


class OneNetwork(Trainer):
    """A trainer that leaves all but its loss to its learner."""

    def __init__(self, learner: Learner) -> None:
        """Take what is trained, at its first step."""
        self._learner = learner

    @abstractmethod
    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Return the loss of logits [B, K] of the places `rows` [B] in the release."""

    def epoch(self) -> EpochMetrics:
        """Train for one epoch and evaluate."""
        return self._learner.epoch(self._loss)

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for unaugmented features [N, ...]."""
        return self._learner.predict(features)

    def predictor(self) -> NetworkPredictor:
        """Return the network, apart from what trains it."""
        return self._learner.predictor()

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]; NaN where there is none."""
        return self._learner.evaluate()

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs; no true label is in it."""
        return self._learner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._learner.load_state_dict(state)

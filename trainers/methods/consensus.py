"""Consensus retraining: learn, keep the examples whose noisy label the model agrees with, relearn.

Das et al., "Retraining with Predicted Hard Labels Provably Increases Model Accuracy", ICML 2025
(arXiv:2406.11206). Labels that a model agrees with are right far more often than noisy labels are.
All of it is post-processing of labels that were released before: it costs nothing. It stacks on
ALIBI and randomized response (`ConsensusConfig`), and on all stages of LP-MST (`LpMstConfig` has
its epochs).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.trainers.methods.alibi import Alibi
from labeldp.trainers.models.estimators import Predictor
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.models.schedules import EpochMetrics
from labeldp.trainers.settings.methods import ConsensusConfig
from labeldp.trainers.settings.training import LearnerConfig
from labeldp.trainers.trainer import Given, Trainer, without_labels

#: Returns the examples that are in use [M] and their noisy labels [M], or sets bool [M, K].
NoisyLabels = Callable[[], tuple[NDArray[np.intp], NDArray[Any]]]


class Consensus(Trainer):
    """A trainer for the first round, and a fresh network for the second."""

    def __init__(
        self,
        first: Trainer,
        *,
        noisy: NoisyLabels,
        first_epochs: int,
        second: LearnerConfig,
        **given: Any,
    ) -> None:
        """Set the first round up; `given` are data, seed and performance."""
        self._first, self._noisy, self._first_epochs = first, noisy, first_epochs
        self._second_config = second
        self._given = given
        self._done = 0
        self._figures: dict[str, float] = {}
        self._rows: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._labels: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._second: OnLabels | None = None

    def epoch(self) -> EpochMetrics:
        """Train for one epoch and evaluate; after the first round the second one starts."""
        if self._done < self._first_epochs:
            metrics = self._first.epoch()
        else:
            if self._second is None:
                self._agree()
                self._second = self._new_second()
            metrics = replace(self._second.epoch(), epoch=self._done + 1)
        self._done += 1
        return metrics

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]."""
        return self._current().evaluate()

    def predictor(self) -> Predictor | None:
        """Return what predicts in the round that is being trained, or was last."""
        return self._current().predictor()

    def figures(self) -> dict[str, float]:
        """Return `first_round_accuracy` and `consensus_share`, beside those of the first round."""
        return {**self._first.figures(), **self._figures}

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs."""
        return {
            "done": self._done,
            "figures": dict(self._figures),
            "first": self._first.state_dict(),
            "rows": torch.from_numpy(self._rows.copy()),
            "labels": torch.from_numpy(self._labels.copy()),
            "second": None if self._second is None else self._second.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._done = int(state["done"])
        self._figures = dict(state["figures"])
        self._first.load_state_dict(state["first"])
        self._rows, self._labels = state["rows"].numpy(), state["labels"].numpy()
        self._second = None
        if state["second"] is not None:
            self._second = self._new_second()
            self._second.load_state_dict(state["second"])

    def _current(self) -> Trainer:
        return self._first if self._second is None else self._second

    def _agree(self) -> None:
        """Keep the examples whose noisy label is the model's own guess."""
        rows, noisy = self._noisy()
        features = self._given["data"].train_features
        guesses = self._first.predict(features[torch.from_numpy(rows)]).argmax(1)
        agreeing = guesses == noisy if noisy.ndim == 1 else noisy[np.arange(len(noisy)), guesses]
        self._figures["first_round_accuracy"] = self._first.evaluate()
        self._figures["consensus_share"] = float(agreeing.mean())
        # A model that agrees with nothing has nothing to teach: then all labels stay.
        if not agreeing.any():
            agreeing, guesses = ~agreeing, noisy if noisy.ndim == 1 else noisy.argmax(1)
        self._rows, self._labels = rows[agreeing], guesses[agreeing]

    def _new_second(self) -> OnLabels:
        return OnLabels(
            self._second_config,
            labels=self._labels,
            examples=self._rows,
            **self._given,
        )


def start(config: ConsensusConfig, **given: Unpack[Given]) -> Consensus:
    """Request the release and set the first round up."""
    settings = config.first()
    first = Alibi(settings, **given)
    # A noisy vector's largest entry is its likeliest class, by all mechanisms there are; a set has
    # several.
    noisy = first.noisy.argmax(1) if np.issubdtype(first.noisy.dtype, np.floating) else first.noisy
    rows = np.arange(len(noisy))
    return Consensus(
        first,
        noisy=lambda: (rows, noisy),
        first_epochs=settings.epochs,
        second=config.learner(epochs=config.retrain_epochs),
        **without_labels(given),
    )

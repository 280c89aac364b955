"""Regression on secret amounts in a sweep: boosted trees on what is released of them."""

import math
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.methods.released_amounts import named_regressor, requested
from labeldp.trainers.models.estimators import AmountPredictor
from labeldp.trainers.settings.amounts import AmountsConfig
from labeldp.trainers.trainer import FittedAtOnce, Given


class AmountTrainer(FittedAtOnce):
    """A regressor on released amounts; no loss is known, since no true amount is."""

    def __init__(self, config: AmountsConfig, **given: Unpack[Given]) -> None:
        """Request the release."""
        data, labels, self._seed = given["data"], given["labels"], given["seed"]
        _validate.whole(seed=self._seed)
        given["performance"].limit_threads()
        data.require_numbers(user="amounts")
        assert data.bounds is not None, "a plan refuses classes"
        self.config, self._bounds = config, data.bounds
        self._rows = data.train_features.flatten(1).float().numpy()
        self._requested = requested(
            labels,
            self._rows,
            release=config.chosen(),
            epsilon=config.epsilon,
            delta=config.delta,
        )

    def amounts(self, features: Any) -> NDArray[np.float64]:
        """Return the predicted amounts [N] of features [N, ...], within the bounds."""
        return self.predictor().amounts(features)

    def evaluate(self) -> float:
        """Return NaN: there are no classes."""
        return math.nan

    def figures(self) -> Mapping[str, float]:
        """Return the share of amounts in the outermost levels, where a histogram was released."""
        return self._requested.figures

    def _fitted(self) -> AmountPredictor:
        loss = self.config.loss
        estimator = named_regressor(
            loss.value, quantile=self.config.quantile, rows=len(self._rows), seed=self._seed
        )
        fitted = self._requested.fit(estimator, of_mean=loss.of_mean, seed=self._seed)
        return AmountPredictor(estimator=fitted, bounds=self._bounds)

"""Sets of classes, or intervals, that hold the truth as often as stated; labels stay secret.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> generator = np.random.default_rng(0)
>>> X = generator.normal(size=(3000, 4))
>>> y = (X[:, 0] + generator.normal(size=3000) > 0).astype(int)
>>> model = LogisticRegression().fit(X[:1000], y[:1000])
>>> sets = PredictionSets(model, epsilon=1.0, coverage=0.9).fit(X[1000:2000], y[1000:2000])
>>> found = sets.predict_set(X[2000:])
>>> found.shape, found.dtype, sets.epsilon_
((1000, 2), dtype('bool'), 1.0)
"""

import hashlib
import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.accuracy_estimate import CoverageChoice
from labeldp.mechanisms.amounts import to_levels
from labeldp.platform.api import fitting
from labeldp.platform.api.paid_fits import PaysForLabels
from labeldp.trainers.settings.trainer import OfAmounts

Floats = NDArray[np.float64]

#: Thresholds of which one is chosen, denser where more labels are covered.
CANDIDATES = 101
_STEPS = np.linspace(0, 1, CANDIDATES)


# scikit-learn has no types, so that its classes are Any here.
@dataclass(eq=False, repr=False)
class PredictionSets(PaysForLabels):
    """Split conformal prediction by secret calibration labels; their features are public.

    A new row's set holds its label with probability `coverage`, on average over calibration rows
    and noise, if both are drawn alike. It holds for any model, and not for each class by itself.

    Args:
        model: A fitted classifier with `predict_proba`, or a fitted regressor. It must not have
            learned from the calibration rows.
        epsilon: Cost of a fit for each calibration label, pure.
        coverage: Probability that a set holds the label, between 0 and 1.
        bounds: Smallest and largest amount, for a regressor; None takes the model's.
        vault: As in `LabelPrivateClassifier`.
        noise_seed: Seed that makes the noise repeatable. Anybody with the seed can remove it.

    Attributes:
        threshold_: Largest score in a set: 1 less a class's probability, or half an interval.
        epsilon_, delta_, total_epsilon_, total_delta_, ledger_, guarantee_: As in
            `LabelPrivateClassifier`.
    """

    #: Of totals with other fits: its own price is pure.
    delta = USUAL_DELTA

    model: Any
    epsilon: float = 1.0
    coverage: float = 0.9
    _: KW_ONLY
    bounds: tuple[float, float] | None = None

    def fit(self, X: Any, y: Any, rows: Any = None) -> Self:
        """Choose the threshold by calibration rows X [N, ...] and labels y [N], and pay for it.

        `rows` names each label's row [N], as in `LabelPrivateClassifier.fit`.
        """
        kind = getattr(getattr(self.model, "predictor", None), "kind", None)
        no_classes = kind != "reward" and not len(getattr(self.model, "classes_", ()))
        usable = self._of_classes or (no_classes and hasattr(self.model, "predict"))
        if isinstance(self.model, type) or not usable:
            raise ValueError(
                f"model is {self.model!r:.100}; give a fitted model: a regressor, or a classifier, "
                "which needs predict_proba (CalibratedClassifierCV adds it); rewards have no sets"
            )
        _, labels, account = self._checked(X, y, names=rows, amounts=not self._of_classes)
        self._payers(None, account, len(labels), every=True)  # a row given twice pays twice
        predicted = self._predicted(X)
        if self._of_classes:
            places = fitting.places_of(labels, self._classes)
            scores = 1 - predicted[np.arange(len(places)), places]
            thresholds = _of_classes(predicted)
        else:
            low, high = self._bounds
            to_levels(labels, bounds=(low, high))  # refuses amounts that are missing
            scores = np.abs(np.clip(np.asarray(labels, np.float64), low, high) - predicted)
            thresholds = (high - low) * _STEPS**2
        thresholds[-1] = math.inf  # it covers all
        choice = CoverageChoice(epsilon=self.epsilon, coverage=self.coverage, candidates=CANDIDATES)
        choice.wanted(len(scores))  # refuses labels that are too few
        digest = hashlib.sha256(predicted.tobytes() + thresholds.tobytes()).hexdigest()
        with self._paying(
            account,
            np.searchsorted(thresholds, scores).astype(np.int64),
            num_classes=CANDIDATES,
            delta=0.0,
            classes=f"sets of predictions {digest}",
            fingerprint=digest,
        ) as calibration:
            chosen = int(calibration.release(choice).values[0])
        self.threshold_ = float(thresholds[chosen])
        self._tell_price()
        return self

    def predict_set(self, X: Any) -> NDArray[Any]:
        """Return whether each class is in the set of each row, bool [N, K]; intervals [N, 2]."""
        check_is_fitted(self, "threshold_")
        predicted = self._predicted(X)
        if self._of_classes:
            return np.asarray(1 - predicted <= self.threshold_)
        ends = predicted[:, None] + np.array([-1, 1]) * self.threshold_
        return np.asarray(np.clip(ends, *self._bounds))

    @property
    def _of_classes(self) -> bool:
        # A saved model of amounts has it, too, for attacks.
        of_amounts = isinstance(getattr(self.model, "predictor", None), OfAmounts)
        return hasattr(self.model, "predict_proba") and not of_amounts

    @property
    def _classes(self) -> NDArray[Any]:
        known = hasattr(self.model, "classes_")  # a model that was saved calls them otherwise
        return np.asarray(self.model.classes_ if known else self.model.classes)

    @property
    def _bounds(self) -> tuple[float, float]:
        places = (self, self.model, getattr(self.model, "origin", None))
        stated = (getattr(each, "bounds", None) for each in places)
        return fitting.stated_bounds(next((each for each in stated if each is not None), None))

    def _predicted(self, X: Any) -> Floats:
        """Probabilities [N, K], or amounts [N] between the bounds."""
        if self._of_classes:
            predicted = np.asarray(self.model.predict_proba(X), np.float64)
            count = len(self._classes)
            if predicted.shape[1:] != (count,):
                raise ValueError(f"the model predicts {predicted.shape} for {count} classes")
        else:
            amounts = np.asarray(self.model.predict(X), np.float64).ravel()
            predicted = np.clip(amounts, *self._bounds)
        wrong = np.flatnonzero(~np.isfinite(predicted.reshape(len(predicted), -1)).all(axis=1))
        if len(wrong):
            raise ValueError(
                f"the model predicts NaN or infinity for row {wrong[0]} (and {len(wrong) - 1} "
                "more), of which no set can be made; fill in missing features, or mend the model"
            )
        return predicted


def _of_classes(probabilities: Floats) -> Floats:
    """Thresholds [J] that cover evenly many labels, if these were as the model predicts [N, K]."""
    scores = np.sort(1 - probabilities, axis=None)
    covered = np.cumsum(1 - scores)
    levels = (1 - (1 - _STEPS) ** 2) * covered[-1]
    return np.asarray(scores[np.searchsorted(covered, levels).clip(max=len(scores) - 1)])

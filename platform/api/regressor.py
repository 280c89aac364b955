"""A scikit-learn regressor whose training amounts stay private: features are public.

>>> import numpy as np
>>> generator = np.random.default_rng(0)
>>> X = generator.normal(size=(2000, 3))
>>> y = 50 + 10 * X[:, 0] + generator.normal(size=2000)
>>> model = LabelPrivateRegressor(epsilon=2.0, bounds=(0, 100), random_state=0).fit(X, y)
>>> model.method_, round(model.epsilon_, 6), model.delta_
('sums', 2.0, 1e-05)
>>> model.score(X, y) > 0.8
True
"""

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.amounts import (
    BINS,
    LEVELS,
    AmountChannel,
    AmountNoise,
    AmountSums,
    to_levels,
)
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.cluster_prior import ClusterHistograms
from labeldp.mechanisms.persons import Groups, shares_of_persons
from labeldp.platform.api import fitting
from labeldp.platform.api.paid_fits import TAKEN, PaysForLabels, is_matrix, is_table
from labeldp.platform.vault.label_home import SecretLabels
from labeldp.platform.vault.shared_vault import FitLabels, SharedVault
from labeldp.trainers.methods.any_model import some_of
from labeldp.trainers.methods.released_amounts import (
    fit_to_outputs,
    mean_of_sums,
    named_regressor,
)
from labeldp.trainers.methods.smooth_sums import SumQuestion, worthwhile
from labeldp.trainers.settings.base import near_miss

SUMS = "sums"
METHODS = ("auto", SUMS, *AmountNoise)
#: Losses that ask for the mean, and all of them.
_OF_MEAN = ("squared", "poisson")
LOSSES = (*_OF_MEAN, "absolute", "quantile")
#: Share of epsilon for the histogram that is the prior of a channel.
_PRIOR_SHARE = 0.1
#: Sums are better up to here, single amounts beyond (docs/amounts.md).
_SUMS_UP_TO = 3.0


# scikit-learn has no types, so that its classes are Any here.
class LabelPrivateRegressor(RegressorMixin, PaysForLabels):  # type: ignore[misc]
    """Learns from amounts under label differential privacy; features count as public.

    X is what `LabelPrivateClassifier` takes, but for images.

    Parameters:
        epsilon: The most that a fit may cost each amount.
        bounds: The least and the largest amount, known without the amounts. One beyond them counts
            as the bound. The wider they are, the more noise there is.
        delta: At which epsilon may hold; 0 allows no sums.
        method: "sums" of many amounts; or one output for each amount, "randomized_response" on
            bins, "unbiased" or "least_error" (docs/amounts.md). "auto" chooses by epsilon, delta
            and loss.
        loss: "squared", "poisson", "absolute" or "quantile".
        quantile: Of the loss "quantile".
        estimator: A regressor of scikit-learn's kind; boosted trees with this loss if None. Tell
            it its loss, and state the same loss here.
        random_state: Of training. Never of the noise, which is the operating system's entropy.
        max_labels_per_person: As in `LabelPrivateClassifier`; "sums" use all.
        vault: As in `LabelPrivateClassifier`.
        noise_seed: Makes the noise repeatable; with the seed, anybody can remove it.

    Attributes:
        epsilon_, delta_, total_epsilon_, total_delta_, ledger_, guarantee_: As in
            `LabelPrivateClassifier`.
        method_: The method.
        estimator_: The fitted regressor, on prepared rows and amounts between 0 and 1.
    """

    # Every parameter by itself, which scikit-learn's get_params, clone and searches need.
    def __init__(
        self,
        epsilon: float = 2.0,
        bounds: tuple[float, float] | None = None,
        delta: float = USUAL_DELTA,
        method: str = "auto",
        *,
        loss: str = "squared",
        quantile: float = 0.5,
        estimator: Any = None,
        random_state: Any = None,
        vault: SharedVault | str | os.PathLike[str] | None = None,
        noise_seed: int | None = None,
        max_labels_per_person: int = 1,
    ) -> None:
        self.max_labels_per_person = max_labels_per_person
        self.epsilon = epsilon
        self.bounds = bounds
        self.delta = delta
        self.method = method
        self.loss = loss
        self.quantile = quantile
        self.estimator = estimator
        self.random_state = random_state
        self.vault = vault
        self.noise_seed = noise_seed

    def fit(self, X: Any, y: Any, rows: Any = None, groups: Any = None) -> Self:
        """Learn from the amounts y [N] of the rows X [N, ...], and pay for it.

        `rows` names each amount's row [N] and `groups` its person, as in
        `LabelPrivateClassifier.fit`.
        """
        method = self._method()
        bounds = self._bounds()
        rows_of_x, amounts = self._checked(X, y)
        levels, every, grouped = to_levels(amounts, bounds=bounds), rows_of_x, None
        if groups is not None:
            most = None if method == SUMS else self.max_labels_per_person
            grouped = Groups.of(groups, count=len(levels), most=most)
            rows_of_x, levels = grouped.rows_of(rows_of_x), grouped.rows_of(levels)
        data = fitting.number_rows(rows_of_x, num_classes=LEVELS)
        numbers = data.train_features
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        estimator = self.estimator
        if estimator is None:
            estimator = named_regressor(
                self.loss, quantile=self.quantile, rows=len(numbers), seed=seed
            )
        labels = self._labels(
            SecretLabels(training=levels, num_classes=LEVELS),
            every,
            rows,
            classes=f"amounts in {bounds}",
            fingerprint=data.fingerprint,
            groups=grouped,
        )
        with self._paying(labels):
            try:
                if method == SUMS:
                    self.estimator_ = self._fit_to_sums(estimator, numbers, labels, seed=seed)
                else:
                    self.estimator_ = self._fit_to_single(
                        estimator,
                        numbers,
                        labels,
                        AmountNoise(method),
                        epsilon=self.epsilon / (1 if grouped is None else grouped.most),
                        seed=seed,
                    )
            finally:
                labels.home.end()
        self._paid(labels, delta=self.delta)
        self.method_ = method
        self._preprocessing: Any = data.preprocessing
        self._fitted_bounds = bounds
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted amount [N] of raw rows X [N, ...], within the bounds."""
        check_is_fitted(self, "estimator_")
        numbers = self._preprocessing.rows(self._rows_to_predict(X, self._preprocessing))
        low, high = self._fitted_bounds
        scaled = np.clip(self.estimator_.predict(np.asarray(numbers, np.float32)), 0, 1)
        return np.asarray(low + scaled * (high - low), dtype=np.float64)

    def _method(self) -> str:
        _validate.positive(epsilon=self.epsilon)
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta is {self.delta}; it must lie in [0, 1), and far below 1/N")
        if self.loss not in LOSSES:
            raise ValueError(f"loss is {self.loss!r}; {near_miss(self.loss, LOSSES)}")
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}; {near_miss(self.method, METHODS)}")
        _validate.between(0, 1, quantile=self.quantile)
        sums = self.delta > 0 and self.loss in _OF_MEAN
        if self.method == SUMS and not sums:
            raise ValueError(
                f"method is {SUMS!r}, delta {self.delta:g} and loss {self.loss!r}; sums have "
                f"Gaussian noise, which needs a delta above 0, and give means: take a loss of "
                f"{', '.join(_OF_MEAN)}, or method={AmountNoise.RANDOMIZED_RESPONSE.value!r}"
            )
        if self.method != "auto":
            return self.method
        if sums and self.epsilon <= _SUMS_UP_TO:
            return SUMS
        return AmountNoise.RANDOMIZED_RESPONSE.value

    def _bounds(self) -> tuple[float, float]:
        try:
            low, high = map(float, self.bounds)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ValueError(
                f"bounds is {self.bounds!r}; state the least and the largest amount, such as "
                "bounds=(0, 500): they are public, and are not read off the amounts"
            ) from None
        if self.loss == "poisson" and low < 0:
            raise ValueError(f"bounds begin at {low:g}; the loss 'poisson' takes amounts from 0 on")
        return low, high

    def _checked(self, rows: Any, amounts: Any) -> tuple[Any, NDArray[np.float64]]:
        fitting.refuse_unusable(amounts)
        self._columns = tuple(map(str, rows.columns)) if is_table(rows) else ()
        if is_matrix(rows):
            checked, y = validate_data(
                self, rows, amounts, ensure_min_samples=2, y_numeric=True, **TAKEN
            )
            return (rows if self._columns else checked), np.asarray(y, np.float64)
        validate_data(self, rows, amounts, skip_check_array=True)
        if amounts is None:
            raise ValueError("y is None; training needs an amount for each row")
        y = np.asarray(column_or_1d(amounts, warn=True), np.float64)
        check_consistent_length(rows, y)
        return rows, y

    def _fit_to_sums(
        self, estimator: Any, rows: NDArray[np.float32], labels: FitLabels, *, seed: int
    ) -> Any:
        from sklearn.base import clone

        # A substituted amount moves sums by 1, a substituted class by the root of 2.
        noise_std = calibrate_gaussian(epsilon=self.epsilon, delta=self.delta) / np.sqrt(2)
        noise_std = float(np.nextafter(noise_std, np.inf))
        count = worthwhile(rows=len(rows), noise_std=noise_std)
        asked, question = SumQuestion.asked(rows, count=count, seed=0)
        weights, length = question.no_longer_than_one(asked)
        shares = None
        if labels.persons is not None:
            shares = shares_of_persons(weights, labels.persons)
            weights, question = weights * shares[:, None], question.shortened(rows, shares)
        sums = labels.release(AmountSums(noise_std=noise_std), weights).values
        some = some_of(len(rows), seed=seed)
        mean = mean_of_sums(
            question,
            rows[some],
            sums,
            noise_std=noise_std,
            length=length,
            count=len(rows),
            shares=None if shares is None else shares[some],
        )
        return clone(estimator).fit(rows[some], mean)

    def _fit_to_single(
        self,
        estimator: Any,
        rows: NDArray[np.float32],
        labels: FitLabels,
        noise: AmountNoise,
        *,
        epsilon: float,
        seed: int,
    ) -> Any:
        counting = ClusterHistograms(epsilon=_PRIOR_SHARE * epsilon, num_classes=LEVELS)
        counts = labels.release(counting, np.zeros(len(rows), dtype=np.int64)).values[0]
        prior = np.maximum(counts.reshape(BINS, -1).sum(1), 0) + 1.0
        prior /= prior.sum()
        channel = AmountChannel(epsilon=(1 - _PRIOR_SHARE) * epsilon, kind=noise)
        outputs = labels.release(channel, prior).values
        return fit_to_outputs(
            estimator,
            rows,
            outputs,
            channel.table(prior),
            prior,
            of_mean=self.loss in _OF_MEAN,
            seed=seed,
        )

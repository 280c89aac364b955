"""A scikit-learn regressor whose training amounts stay private: features are public.

>>> import numpy as np
>>> generator = np.random.default_rng(0)
>>> X = generator.normal(size=(2000, 3))
>>> y = 50 + 10 * X[:, 0] + generator.normal(size=2000)
>>> model = LabelPrivateRegressor(epsilon=2.0, bounds=(0, 100), random_state=0).fit(X, y)
>>> model.method_, round(model.epsilon_, 6), model.delta_
('sums', 2.0, 1e-05)
>>> model.score(X, y) > 0.5  # about .9: the noise differs from run to run
True
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.amounts import LEVELS, to_levels
from labeldp.platform.api import fitting
from labeldp.platform.api.paid_fits import PaysForLabels
from labeldp.platform.vault.shared_vault import FitLabels
from labeldp.trainers.base import check_name
from labeldp.trainers.data.columns import TextColumns
from labeldp.trainers.data.preprocessing import dense_of
from labeldp.trainers.methods.amounts import default_regressor, requested
from labeldp.trainers.methods.any_model import check_learner
from labeldp.trainers.methods.settings import (
    AmountLoss,
    AmountRelease,
    AmountsConfig,
    chosen_release,
)


# scikit-learn has no types, so that its classes are Any here.
@dataclass(eq=False, repr=False)
class LabelPrivateRegressor(RegressorMixin, PaysForLabels):  # type: ignore[misc]
    """Learn from secret amounts under label differential privacy; features are public.

    X is as in `LabelPrivateClassifier`, but not images.

    Args:
        epsilon: Largest cost of a fit for each amount.
        bounds: Smallest and largest amount, chosen without the amounts. Amounts outside count as
            the nearest bound. Wider bounds mean more noise.
        delta: Probability that the bound may fail; 0 excludes sums.
        method: "sums" of many amounts, or one output per amount: "randomized_response" on bins,
            "unbiased" or "least_error" (docs/amounts.md). "auto" chooses by epsilon, delta, loss
            and the number of rows.
        loss: "squared", "poisson", "absolute" or "quantile".
        quantile: Quantile of the loss "quantile".
        estimator: A regressor of scikit-learn; boosted trees with this loss if None. Configure its
            own loss, and state the same loss here.
        random_state: Seed of training, not of the noise.
        max_labels_per_person: As in `LabelPrivateClassifier`; "sums" use all.
        vault: As in `LabelPrivateClassifier`.
        noise_seed: Seed that makes the noise repeatable. Anybody with the seed can remove it.
        text, keep: As in `LabelPrivateClassifier`.

    Attributes:
        epsilon_, delta_, total_epsilon_, total_delta_, ledger_, guarantee_: As in
            `LabelPrivateClassifier`.
        method_: The method.
        estimator_: The fitted regressor, on prepared rows and amounts between 0 and 1.
    """

    epsilon: float = 2.0
    bounds: tuple[float, float] | None = None
    delta: float = USUAL_DELTA
    method: str = "auto"
    _: KW_ONLY
    loss: str = "squared"
    quantile: float = 0.5
    estimator: object = None
    random_state: object = None
    text: str = "tfidf"
    max_labels_per_person: int = 1
    keep: Sequence[str] | None = None

    def fit(self, X: object, y: object, rows: object = None, groups: object = None) -> Self:
        """Learn from the amounts y [N] of the rows X [N, ...], and pay for it.

        `rows` names each amount's row [N] and `groups` its person, as in
        `LabelPrivateClassifier.fit`.
        """
        check_name(AmountLoss, loss=self.loss)
        check_name(AmountRelease, method=self.method)
        check_name(TextColumns, text=self.text)
        _validate.between(0, 1, quantile=self.quantile)
        bounds = fitting.stated_bounds(self.bounds)
        if self.loss == "poisson" and bounds[0] < 0:
            raise ValueError(
                f"bounds begin at {bounds[0]:g}; the loss 'poisson' takes amounts from 0 on"
            )
        rows_of_x, checked, account = self._checked(X, y, groups=groups, names=rows, amounts=True)
        levels = to_levels(np.asarray(checked, np.float64), bounds=bounds)
        method = chosen_release(
            AmountRelease(self.method),
            epsilon=self.epsilon,
            delta=self.delta,
            loss=AmountLoss(self.loss),
            rows=len(levels),
        )
        sums = method is AmountRelease.SUMS
        grouped = self._payers(groups, account, len(levels), every=sums)
        rows_of_x = grouped.rows_of(rows_of_x)
        levels = grouped.rows_of(levels)
        # A part of epsilon may be for a first release: refused here, as no fault of X.
        price = AmountsConfig(release=method, epsilon=self.epsilon / grouped.most, delta=self.delta)
        price.planned_charge(num_classes=LEVELS, seed=0)
        own = self.estimator is not None
        how: Any = {"num_classes": LEVELS, "keep": self.keep or (), "own": own}
        data = fitting.number_rows(rows_of_x, **how, text=TextColumns(self.text))
        data = replace(data, train_features=dense_of(data.train_features))
        numbers = data.train_features
        seed = self._seed()
        estimator = self.estimator
        if own:
            check_learner(estimator, kind="regressor")
        else:
            size = len(numbers)
            estimator = default_regressor(self.loss, quantile=self.quantile, rows=size, seed=seed)

        def learn(labels: FitLabels, places: NDArray[np.intp]) -> RegressorMixin:
            some = data.only(places)
            fit, _ = requested(
                labels,
                some.train_features,
                release=method,
                epsilon=self.epsilon / grouped.most,
                delta=self.delta,
                scaled=some.scaled,
            )
            return fit(estimator, of_mean=AmountLoss(self.loss).of_mean, seed=seed)

        def rehearse(fit_labels: FitLabels, some: NDArray[np.intp]) -> Any:
            return learn(fit_labels, some).predict(numbers[some])

        for rare in [False, True] if own else [False]:
            fitting.rehearse(rehearse, numbers, classes=LEVELS, rare=rare)
        with self._paying(
            account,
            levels,
            num_classes=LEVELS,
            delta=self.delta,
            classes=f"amounts in {bounds}",
            fingerprint=data.fingerprint,
        ) as labels:
            self.estimator_ = learn(labels, np.arange(len(numbers)))
        self.method_ = method.value
        self._preprocessing = data.preprocessing
        self._fitted_bounds = bounds
        self._tell_price()
        return self

    def predict(self, X: object) -> NDArray[np.float64]:
        """Return the predicted amount [N] of raw rows X [N, ...], within the bounds."""
        check_is_fitted(self, "estimator_")
        numbers = self._preprocessing.rows(self._rows_to_predict(X, self._preprocessing))
        low, high = self._fitted_bounds
        scaled = np.clip(self.estimator_.predict(np.asarray(dense_of(numbers))), 0, 1)
        return np.asarray(low + scaled * (high - low), dtype=np.float64)

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return R squared of the predictions of X; y are public amounts, and no tokens."""
        self._refuse_tokens()
        return float(super().score(X, y, sample_weight))

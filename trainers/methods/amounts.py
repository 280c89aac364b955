"""Any regressor on released amounts, and regression in a sweep by boosted trees.

* **Sums** give the mean amount as a smooth function of the row at once (`mean_of_sums`); a model
  is fitted to that function.
* **Single amounts** are noisy by many times the spread of the true ones. A model of other rows says
  what a row's amount can be, and the output what it was: the mean of both is a target with far less
  noise (expectation maximization, a fixed number of rounds). For the median and other quantiles
  each row is repeated once per likely amount.

Amounts are on a scale where the bounds are 0 and 1.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls
from scipy.special import softmax
from sklearn.base import RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp.mechanisms.amounts import (
    BINS,
    CENTERS,
    AmountChannel,
    AmountNoise,
    AmountSums,
    AmountTable,
)
from labeldp.trainers.methods.any_model import drawn, some_of
from labeldp.trainers.methods.settings import AmountRelease, AmountsConfig
from labeldp.trainers.methods.smooth_sums import AnsweredSums, requested_sums
from labeldp.trainers.settings.trainer import AmountPredictor, FittedAtOnce, Given, LabelSource

Floats = NDArray[np.float64]

_ROUNDS = 2
_FOLDS = 2
#: Penalties of ridge regression, on columns and on functions of a kernel, and how many these are.
_PENALTY = 10.0
_PENALTY_OF_KERNEL = 1.0
_FUNCTIONS = 100
#: Variances of an amount that models explain by chance.
_CHANCE = 2.0
#: Variances of an amount around its mean that are tried: a quarter is the most between bounds.
_LEAST_VARIANCE = 1e-3
_MOST_VARIANCE = 0.05
_LEAST_MEAN = 1e-6
#: Variance of the mean of all amounts around the middle of the bounds, before anything is known.
_MEAN_VARIANCE = 1 / 16
#: Variances of the mean amount along the functions that are tried; at 0 it is the same everywhere.
_SCALES = (0.0, *np.geomspace(1e-5, 10, 31))


def named_regressor(loss: str, *, quantile: float, rows: int, seed: int) -> RegressorMixin:
    """Return boosted trees for N rows of noisy amounts and a loss."""
    names = {"squared": "squared_error", "absolute": "absolute_error"}
    return HistGradientBoostingRegressor(
        loss=names.get(loss, loss),
        quantile=quantile if loss == "quantile" else None,
        max_leaf_nodes=8,
        min_samples_leaf=max(20, min(rows // 150, 2000)),
        learning_rate=0.1,
        early_stopping=False,
        random_state=seed,
    )


def default_regressor(loss: str, *, quantile: float, rows: int, seed: int) -> RegressorMixin | None:
    """Return boosted trees for a loss; None, a stack, for the squared one."""
    if loss == "squared":
        return None
    return named_regressor(loss, quantile=quantile, rows=rows, seed=seed)


def requested(
    labels: LabelSource,
    rows: NDArray[np.floating],
    *,
    release: AmountRelease,
    epsilon: float,
    delta: float,
    scaled: NDArray[np.floating] | None = None,
    kept: Callable[..., tuple[NDArray[Any], ...]] | None = None,
) -> tuple[Callable[..., Any], dict[str, float]]:
    """Request a release of the amounts of rows; return what fits to it, and figures.

    The former, `fit(estimator, of_mean=, seed=)`, returns a fitted clone of a regressor, or for
    None what is best for the mean; `of_mean` is whether its loss estimates the mean. Of sums it is
    always true.

    Args:
        labels: The amounts as levels.
        rows: Rows that a regressor sees [N, D].
        release: What is requested.
        epsilon: Its price for each amount.
        delta: Likewise, of sums.
        scaled: Rows that sums are requested of [N, D']; None for those that a regressor sees.
        kept: As in `requested_sums`.
    """
    if release is AmountRelease.SUMS:
        sums = AmountSums.costing(epsilon=epsilon, delta=delta)
        summed = rows if scaled is None else scaled
        answer = requested_sums(summed, labels, mechanism=sums, seed=0, kept=kept)

        def fit_mean(estimator: object, *, of_mean: bool, seed: int) -> RegressorMixin:
            some = some_of(len(rows), seed=seed)
            mean = mean_of_sums(answer, summed, some, noise_std=sums.noise_std)
            if estimator is None:
                estimator = named_regressor("squared", quantile=0.5, rows=len(rows), seed=seed)
            return clone(estimator).fit(rows[some], mean)

        return fit_mean, {}
    counting, channel = AmountChannel.with_prior(epsilon=epsilon, kind=AmountNoise(release))
    counts = labels.release(counting, np.zeros(len(rows), dtype=np.int64)).values[0]
    prior = np.maximum(counts.reshape(BINS, -1).sum(1), 0) + 1.0
    prior /= prior.sum()
    outputs = labels.release(channel, prior).values
    table = channel.table(prior)

    def fit(estimator: object, *, of_mean: bool, seed: int) -> RegressorMixin:
        return fit_to_outputs(estimator, rows, outputs, table, prior, of_mean=of_mean, seed=seed)

    share = float(counts[[0, -1]].sum()) / len(rows)
    return fit, {"share_at_bounds_estimated": share}


def models_of_amounts(*, rows: int, seed: int) -> list[tuple[str, Any]]:
    """Return the models that a stack mixes for N rows, each with its name."""
    kernel = Nystroem(n_components=max(1, min(_FUNCTIONS, rows // 2)), random_state=seed)
    return [
        ("ridge", make_pipeline(StandardScaler(), Ridge(_PENALTY))),
        ("kernel", make_pipeline(StandardScaler(), kernel, Ridge(_PENALTY_OF_KERNEL))),
        ("boosting", named_regressor("squared", quantile=0.5, rows=rows, seed=seed)),
    ]


def mixing_weights(predicted: Floats, amounts: Floats) -> Floats:
    """Return weights [M + 1] of a constant and of models with held-out predictions [N, M].

    `amounts` [N] are unbiased. Weights are those of least squares, not below 0 and 1 together at
    most. What models explain by chance is taken off (James and Stein, 1961), so that noise alone
    leaves the constant.
    """
    around = amounts - amounts.mean()
    moved = predicted - amounts.mean()
    variance = float(np.square(around).mean())
    found, _ = nnls(moved, around)
    found /= max(1.0, found.sum())
    explained = float(around @ moved @ found) / variance if variance > 0 else 0.0
    found *= max(0.0, 1 - _CHANCE / max(explained, _CHANCE))
    return np.append(1 - found.sum(), found)


def fit_to_outputs(
    estimator: object,
    rows: NDArray[Any],
    outputs: NDArray[np.integer[Any]],
    table: AmountTable,
    prior: Floats,
    *,
    of_mean: bool,
    seed: int,
) -> RegressorMixin:
    """Return a clone of a regressor fitted to noisy amounts.

    Args:
        estimator: A regressor; None for a stack.
        rows: Public rows [N, D].
        outputs: Numbers of the channel's outputs [N].
        table: Probabilities and values of the outputs.
        prior: Shares of the bins [BINS], a charged release.
        of_mean: Whether the loss of the regressor estimates the mean; otherwise it learns from a
            likely amount of each row.
        seed: Seed of folds and models.
    """
    # One more output, which reveals nothing.
    likelihood = np.vstack((table.probabilities.T, np.ones(len(CENTERS))))[outputs]
    amounts = np.append(table.outputs, prior @ CENTERS)[outputs]
    noise = table.error(prior)
    # Some channels pull outputs to the middle: their slope is below 1.
    means = table.probabilities @ table.outputs
    middle = prior @ CENTERS
    unbiased = np.full(len(rows), middle)
    if len(table.outputs) > 1:  # a single one says nothing of its row, and its slope is 0
        slope = prior @ ((CENTERS - middle) * means) / (prior @ (CENTERS - middle) ** 2)
        unbiased += (amounts - prior @ means) / slope
    off = unbiased.mean() - 0.5
    error = unbiased.var() / len(rows)
    unbiased -= off * error / (error + _MEAN_VARIANCE)
    models = models_of_amounts(rows=len(rows) // 2, seed=seed)
    target = amounts
    guesses = np.empty((len(rows), len(models)))
    for each in range(_ROUNDS):
        for known, other in KFold(_FOLDS, shuffle=True, random_state=seed + each).split(rows):
            for place, (_, model) in enumerate(models):
                guesses[other, place] = model.fit(rows[known], target[known]).predict(rows[other])
        weights = mixing_weights(guesses, unbiased)
        guess = np.clip(weights[0] * unbiased.mean() + guesses @ weights[1:], 0, 1)
        spread = np.clip(np.mean((amounts - guess) ** 2) - noise, _LEAST_VARIANCE, _MOST_VARIANCE)
        chances = likelihood * np.exp((CENTERS - guess[:, None]) ** 2 / (-2 * spread))
        chances /= chances.sum(1, keepdims=True)
        target = chances @ CENTERS
    if estimator is None:
        models = [("constant", DummyRegressor()), *models_of_amounts(rows=len(rows), seed=seed)]
        stack = VotingRegressor(models, weights=weights)
        stack.estimators_ = [model.fit(rows, target) for _, model in models]
        return stack
    if of_mean:
        return clone(estimator).fit(rows, target)
    return clone(estimator).fit(rows, CENTERS[drawn(chances, seed=seed)])


def mean_of_sums(
    answer: AnsweredSums,
    rows: NDArray[np.floating],
    places: NDArray[np.intp],
    *,
    noise_std: float,
) -> Floats:
    """Return the mean amount of those of the rows [N, D] at `places` [n], by released sums [M, 1].

    A Gaussian process along the functions of the question, with a constant of its own. Its scale
    and the amounts' own variance are those under which the sums are likeliest. Means are above 0,
    as some losses need them.
    """
    question = answer.question
    length = answer.length
    known = np.asarray(answer.sums[:, 0], np.float64) * length
    noise = (noise_std * length) ** 2
    values, weights = question.read(rows[places])
    weights *= answer.shares[places, None]
    squares = len(rows) * np.square(weights, dtype=np.float64).mean(0)
    prior = question.strengths / question.strengths.sum()
    smooth = (question.mixing * prior) @ question.mixing.T
    constant = _MEAN_VARIANCE * np.outer(question.totals, question.totals)
    fits = []
    evidence = []
    for own in np.geomspace(_LEAST_VARIANCE, _MOST_VARIANCE, 5):
        for scale in _SCALES:
            factor = cho_factor(scale * smooth + constant + np.diag(noise + own * squares))
            solved = cho_solve(factor, known)
            evidence.append(-known @ solved / 2 - np.log(np.diag(factor[0])).sum())
            slopes = scale * prior * (question.mixing.T @ solved)
            fits.append(np.append(slopes, _MEAN_VARIANCE * (question.totals @ solved)))
    found = softmax(evidence) @ np.stack(fits)
    mean = values @ found[:-1] + found[-1] + 0.5
    return np.asarray(np.clip(mean, _LEAST_MEAN, 1), np.float64)


class AmountTrainer(FittedAtOnce[AmountPredictor]):
    """A regressor on released amounts; no loss is known, since no true amount is."""

    def __init__(self, config: AmountsConfig, **given: Unpack[Given]) -> None:
        from labeldp.trainers.methods.priors import Rows  # loads torch

        data = given["data"]
        labels = given["labels"]
        self._seed = given["seed"]
        given["performance"].limit_threads()
        data.require_numbers(user="amounts")
        assert data.bounds is not None, "a plan refuses classes"
        self.config = config
        self._bounds = data.bounds
        self._rows = data.train_features.flatten(1).float().numpy()
        self._fit, self._figures = requested(
            labels,
            self._rows,
            release=config.chosen(),
            epsilon=config.epsilon,
            delta=config.delta,
            kept=Rows(data.fingerprint, data.train_features, data.features_folder).kept,
        )

    def evaluate(self) -> float:
        """Return NaN: there are no classes."""
        return math.nan

    def figures(self) -> Mapping[str, float]:
        """Return the share of amounts in the outermost levels, where a histogram was released."""
        return self._figures

    def _fitted(self) -> AmountPredictor:
        loss = self.config.loss
        estimator = default_regressor(
            loss.value, quantile=self.config.quantile, rows=len(self._rows), seed=self._seed
        )
        fitted = self._fit(estimator, of_mean=loss.of_mean, seed=self._seed)
        return AmountPredictor(estimator=fitted, bounds=self._bounds)

"""Several models of a table that learn from one release, weighed by the release itself.

After a release everything is free. So several models learn from it, and rows are predicted by
models of other rows: the cost of these predictions (`evidence`) says how good a model is, and no
true label is read. Weights under which it is least mix the models, and an exponent calibrates the
mixture (Wolpert, "Stacked generalization", 1992, with a release in place of labels).

* CONSTANT: the shares of the classes. Every other model starts from them, so that a rare class is
  not lost.
* LINEAR: logistic regression on columns in standard units.
  Beside them, on the columns of words and of sparse matrices (`SparseRows`) themselves.
* KERNEL: the same on smooth functions of the columns (`SmoothFunctions`).
* BOOSTING: trees that learn which classes a release makes likelier, for single labels. Their
  probabilities are turned back through the channel.

>>> rows = np.random.default_rng(0).normal(size=(600, 3))
>>> truth = np.eye(2)[(rows[:, 0] > 0).astype(int)]
>>> stack = fit_stack(rows, LabelEvidence.of(np.log(0.1 + 0.8 * truth)), seed=0)
>>> bool(((stack.predict(rows)[:, 1] > 0.5) == (truth[:, 1] > 0)).mean() > 0.9)
True
"""

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from threadpoolctl import threadpool_limits

from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.trainers.data.preprocessing import SparseRows, dense_of
from labeldp.trainers.methods.any_model import fit_to_soft_labels, fitted_to_draw
from labeldp.trainers.methods.evidence import CountEvidence, Evidence, LabelEvidence, Unbiased
from labeldp.trainers.methods.settings import STACKED, TableStackConfig, kept_information
from labeldp.trainers.methods.smooth_sums import groups_of_rows
from labeldp.trainers.models.smooth_functions import SmoothFunctions
from labeldp.trainers.models.table_models import (
    Constant,
    Family,
    Inverted,
    Logistic,
    SparseView,
    Stack,
    StandardColumns,
    Table,
    View,
    calibrated,
    probabilities,
)
from labeldp.trainers.settings.trainer import FittedAtOnce, Given, LabelSource

Floats = NDArray[np.float64]

#: Below this number of rows each row is predicted by models of other folds; above, one fold is.
_FOLDED_ROWS = 20_000
_FOLDS = 4
#: Strengths of the penalty on squared weights.
_STRENGTHS = {
    "standard_columns": (100.0, 10.0, 1.0),
    "sparse_view": (1.5, 0.5, 0.15),
    "smooth_functions": (3.0, 0.3, 0.03),
}
_MOST_STEPS = 60
_SETTLED = 1e-6
#: Functions of a kernel: so many at least and at most, and one for so many rows.
_FEWEST_FUNCTIONS = 20
_MOST_FUNCTIONS = 200
_ROWS_PER_FUNCTION = 8
#: Leaves of trees, and the rounds of boosting after which they are read.
_SMALL_TREES = (8, (15, 40, 100))
_LARGE_TREES = (31, (20, 60))
#: Larger trees need so much information in a label.
_INFORMED = 0.5
_RATE = 0.08
#: Rows of a leaf: so many at least, more of noisy labels, and this share of all rows at most.
_LEAST_LEAF = 20
_LEAF_SHARE = 0.1
#: Trees of all classes together. Of more columns they take minutes and tell little, and so they do
#: of directions of words alone.
_MOST_TREES = 1000
_MOST_COLUMNS = 500
#: Exponents of the calibration, and how surely it is 1 before anything was seen.
_LEAST_POWER = 0.3
_MOST_POWER = 3.0
_SURENESS = 10.0
#: Smaller weights are left out.
_LEAST_WEIGHT = 1e-3
_TINY = 1e-12


def fit_logistic(view: str, table: Table, evidence: Evidence) -> Logistic:
    """Return the models of a view that cost least, for each penalty.

    The cost may have several valleys, and in some of them a rare class lies where it is not. So
    each model but the first starts where the one before ended, the first at the shares of the
    classes; and of more than two classes each starts a second time from the minimum of the unbiased
    cost, which has one valley.
    """
    columns = table.columns[view]
    strengths = _STRENGTHS[view]
    start = np.log(evidence.shares)
    if len(start) == 2:
        start = start[1:] - start[0]
    outputs = len(start)

    def minimum(known: Evidence | Unbiased, values: Floats, strength: float) -> Any:
        def cost(values: Floats) -> tuple[float, Floats]:
            slopes = values[:-outputs].reshape(-1, outputs)
            moved = values[-outputs:] - start
            predicted = probabilities(columns @ slopes.astype(np.float32) + values[-outputs:])
            pull = known.pull(predicted)[:, -outputs:]
            penalty = (strength * np.square(slopes).sum() + np.square(moved).sum()) / 2
            of_slopes = columns.T @ pull.astype(np.float32) + strength * slopes
            gradient = np.concatenate([of_slopes.ravel(), pull.sum(0) + moved])
            return known.cost(predicted) + float(penalty), gradient

        # Few steps: noise in the labels is larger than what more of them would gain.
        options = {"maxiter": _MOST_STEPS, "ftol": _SETTLED}
        return minimize(cost, values, method="L-BFGS-B", jac=True, options=options)

    found = crude = np.append(np.zeros(columns.shape[1] * outputs), start)
    unbiased = evidence.unbiased()
    every = []
    for strength in strengths:
        tried = [minimum(evidence, found, strength)]
        if outputs > 1 and view != SparseView.kind:  # of sparse columns it would take minutes
            crude = minimum(unbiased, crude, strength).x
            tried.append(minimum(evidence, crude, strength))
        found = min(tried, key=lambda each: float(each.fun)).x
        every.append(found)
    together = np.stack(every)
    slopes = together[:, :-outputs].reshape(len(every), -1, outputs).astype(np.float32)
    return Logistic(view=view, strengths=strengths, slopes=slopes, offsets=together[:, -outputs:])


def tree_shapes(evidence: Evidence) -> list[tuple[int, tuple[int, ...]]]:
    """Return leaves of the trees of a stack, and rounds after which they are read."""
    if not isinstance(evidence, LabelEvidence):
        return []
    classes = len(evidence.shares)
    most = _MOST_TREES / (1 if classes == 2 else classes)
    enough = len(evidence.chances) >= _LARGE_TREES[0] * _LEAST_LEAF
    large = enough and evidence.information >= _INFORMED
    shapes = [_SMALL_TREES, _LARGE_TREES][: 2 if large else 1]
    counted = [(leaves, tuple(n for n in rounds if n <= most)) for leaves, rounds in shapes]
    return [(leaves, rounds) for leaves, rounds in counted if rounds]


def _inverted(estimator: object, evidence: LabelEvidence, rounds: tuple[int, ...] = ()) -> Inverted:
    return Inverted(
        estimator=estimator,
        rounds=rounds,
        classes=len(evidence.shares),
        size=float(evidence.likelier.sum(1).mean()),
        own=evidence.own,
        other=evidence.other,
    )


def fit_trees(
    table: Table,
    evidence: LabelEvidence,
    *,
    leaves: int,
    rounds: tuple[int, ...],
    seed: int,
) -> Inverted:
    """Return trees fitted to a release of a table, once for each class it makes likelier."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = table.rows
    places, labels = np.nonzero(evidence.likelier)
    weights = None
    if labels.min() == labels.max():  # boosting needs two classes: another one that weighs nothing
        places = np.append(places, 0)
        labels = np.append(labels, (labels[0] + 1) % len(evidence.shares))
        weights = np.append(np.ones(len(labels) - 1), _TINY)
    # The noise of a mean of labels grows with the square of what a label tells less.
    leaf = _LEAST_LEAF / max(evidence.own - evidence.other, _TINY) ** 2
    trees = HistGradientBoostingClassifier(
        max_iter=max(rounds),
        max_leaf_nodes=leaves,
        learning_rate=_RATE,
        min_samples_leaf=int(max(_LEAST_LEAF, min(leaf, _LEAF_SHARE * len(rows)))),
        early_stopping=False,
        random_state=seed,
    )
    return _inverted(trees.fit(rows[places], labels, weights), evidence, rounds)


def fit_own(estimator: object, table: Table, evidence: Evidence, *, seed: int) -> Inverted:
    """Return a user's classifier fitted to rows, each with one class that a release favors."""
    if not isinstance(evidence, LabelEvidence):
        raise ValueError(
            "counts were released, and a classifier of your own learns from single labels: take "
            "method='subset'"
        )
    named = evidence.likelier.any(1)
    # A set of classes names each of them alike; the draw below takes one.
    even = evidence.likelier[named] / evidence.likelier[named].sum(1, keepdims=True)
    return _inverted(fitted_to_draw(estimator, table.rows[named], even, seed=seed), evidence)


def best_power(predicted: Floats, evidence: Evidence) -> float:
    """Return the exponent of held-out predictions [N, K] that costs least."""

    def cost(log_power: float) -> float:
        found = calibrated(predicted, evidence.shares, math.exp(log_power))
        return evidence.cost(found) + _SURENESS / 2 * log_power**2

    bounds = (math.log(_LEAST_POWER), math.log(_MOST_POWER))
    return math.exp(minimize_scalar(cost, bounds=bounds, method="bounded").x)


def fit_stack(rows: Any, evidence: Evidence, **how: Any) -> Stack:
    """Return the stack of a release of the labels of rows; arguments as in `fit_and_predict`."""
    return fit_and_predict(rows, evidence, **how)[0]


def requested(
    mechanism: Any, labels: LabelSource, scaled: NDArray[np.floating]
) -> CountEvidence | LabelEvidence:
    """Request a release of the labels of rows [N, D], whose columns have variance 1, and read it.

    Groups of rows do not depend on a trial's seed, so that equal requests share a release.
    """
    if not isinstance(mechanism, ClusterHistograms):
        return LabelEvidence.of(mechanism.log_likelihood(labels.release(mechanism).values))
    # Made of public rows alone, before the release.
    groups = groups_of_rows(scaled, epsilon=mechanism.epsilon, seed=0)
    counts = labels.release(mechanism, groups).values
    return CountEvidence.of(counts, groups, noise_std=mechanism.noise_std)


def _constant(evidence: Evidence, count: int) -> tuple[Stack, Floats]:
    """Return a stack of the shares of the classes alone, and its predictions of N rows."""
    predicted = np.tile(evidence.shares, (count, 1))
    stack = Stack(
        views=(),
        families=(Constant(shares=evidence.shares),),
        weights=np.ones(1),
        likelihoods=np.array([-evidence.cost(predicted) / count]),
        shares=evidence.shares,
        power=1.0,
    )
    return stack, predicted


def _by_family(families: Sequence[Family], together: Floats) -> Iterator[tuple[Family, Floats]]:
    """Yield each family and its part of the held-out predictions [M, N, K]."""
    ends = np.cumsum([len(family.names) for family in families])
    yield from zip(families, np.split(together, ends[:-1]), strict=True)


def _steeper(family: Family, predicted: Floats, evidence: Evidence) -> Family:
    """Return a family calibrated if it is of sparse columns, as its predictions [S, N, K] then are.

    The penalty on so many slopes makes these models too flat, and weights would be of others.
    """
    if not isinstance(family, Logistic) or family.view != SparseView.kind:
        return family
    powers = np.array([best_power(each, evidence) for each in predicted])
    for each, power in zip(predicted, powers, strict=True):
        each[:] = calibrated(each, evidence.shares, power)
    return family.raised(powers, evidence.shares)


def _side_by_side(work: Sequence[Callable[[], Any]], *, n_jobs: int | None) -> list[Any]:
    """Do all parts of the work, each on one thread: threads that wait for each other are slow."""

    def alone(part: Callable[[], Any]) -> Any:
        with threadpool_limits(1, user_api="openmp"):  # which each thread has its own number of
            return part()

    usual = int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0] or 0) or cpu_count()
    with threadpool_limits(1, user_api="blas"):
        parallel = Parallel(n_jobs=n_jobs or usual, require="sharedmem")
        done: list[Any] = parallel(delayed(alone)(part) for part in work)
    return done


def fit_and_predict(
    rows: Any,
    evidence: Evidence,
    *,
    models: Sequence[Any] = STACKED,
    seed: int,
    every_row: bool = False,
    n_jobs: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[Stack, Floats]:
    """Return a stack of a release of the labels of rows [N, D], and predictions [N, K] of rows.

    Args:
        rows: Features [N, D], or `SparseRows`.
        evidence: What the release says.
        models: Some of `STACKED`, and classifiers of scikit-learn's kind, which only learn from
            single labels.
        seed: Of folds, landmarks and trees.
        every_row: Whether all rows are predicted, by models of other rows, as few rows always are.
            Otherwise some are.
        n_jobs: Fits side by side; None for OMP_NUM_THREADS, or all cores.
        tell: Gets a line of progress after each fit.
    """
    count = int(np.clip(len(rows) / _ROWS_PER_FUNCTION, _FEWEST_FUNCTIONS, _MOST_FUNCTIONS))
    dense = dense_of(rows)
    views: tuple[View, ...] = ()
    if "linear" in models:
        views += (StandardColumns.learned(dense),)
    if "linear" in models and isinstance(rows, SparseRows):
        views += (SparseView.learned(rows),)
    if "kernel" in models:
        views += (SmoothFunctions.learned(dense, count=count, seed=seed),)
    table = Table.of(rows, views)
    # By the shape of the public rows alone, so that no choice depends on labels.
    text_alone = isinstance(rows, SparseRows) and not len(rows.plain)
    trees = "boosting" in models and rows.shape[1] <= _MOST_COLUMNS and not text_alone
    shapes = tree_shapes(evidence) if trees else []
    own = [model for model in models if not isinstance(model, str)]

    fits: list[Callable[[Table, Any], Family]] = []
    if "constant" in models:
        fits.append(lambda _, known: Constant(shares=known.shares))
    fits += [partial(fit_logistic, view.kind) for view in views]
    fits += [
        partial(fit_trees, leaves=leaves, rounds=rounds, seed=seed) for leaves, rounds in shapes
    ]
    fits += [partial(fit_own, estimator, seed=seed) for estimator in own]
    if not fits:
        raise ValueError(
            "the models are boosting alone, which learns from single labels of not too many "
            "classes and columns; add 'constant' or 'linear'"
        )
    told = itertools.count(1)

    def fitted(some: Table, known: Any) -> tuple[Family, ...]:
        found = []
        for fit in fits:
            found.append(fit(some, known))
            tell(f"fitted {next(told)} of {len(fits) * (1 + len(held_out))} models of a stack")
        return tuple(found)

    def predicted(held: NDArray[np.bool_]) -> Floats:
        families = fitted(table.only(~held), evidence.only(~held))
        return np.concatenate([family.predict(table.only(held)) for family in families])

    few = len(rows) < _FOLDED_ROWS
    folds = evidence.folds(_FOLDS if few or not every_row else 2, seed=seed)
    held_out = [folds == fold for fold in range(folds.max() + 1 if few or every_row else 1)]
    if not all(held.any() and not held.all() for held in held_out):
        return _constant(evidence, len(rows))  # all rows are in one group
    work: list[Callable[[], Any]] = [partial(fitted, table, evidence)]
    work += [partial(predicted, held) for held in held_out]
    families, *parts = _side_by_side(work, n_jobs=n_jobs)
    seen = np.any(held_out, axis=0)
    together = np.empty((len(parts[0]), len(rows), len(evidence.shares)))
    for held, part in zip(held_out, parts, strict=True):
        together[:, held] = part
    together = together[:, seen]
    checked = evidence.only(seen)
    families = tuple(
        _steeper(family, part, checked) for family, part in _by_family(families, together)
    )
    # By held-out predictions: a model that repeats the noise that it has seen would win otherwise.
    weights = checked.weights(together)
    weights = np.where(weights < _LEAST_WEIGHT, 0, weights)
    weights /= weights.sum()
    mixed = np.tensordot(weights, together, 1)
    stack = Stack(
        views=views,
        families=families,
        weights=weights,
        likelihoods=np.array([-checked.cost(part) / len(mixed) for part in together]),
        shares=evidence.shares,
        power=best_power(mixed, checked),
    )
    return stack, calibrated(mixed, stack.shares, stack.power)


def fit_to_evidence(
    estimator: object, rows: NDArray[Any], evidence: Evidence, *, seed: int, **how: Any
) -> Any:
    """Return a clone of a classifier fitted to a release of the labels of rows [N, D].

    A model that has seen a row's noisy label agrees with it too readily. So a stack of other rows
    is the prior of a row, and the classifier learns from labels drawn from the posterior. `how` is
    as in `fit_and_predict`.
    """
    _, prior = fit_and_predict(rows, evidence, seed=seed, every_row=True, **how)
    return fit_to_soft_labels(estimator, rows, evidence.posterior(prior), seed=seed)


class TableStack(FittedAtOnce[Stack]):
    """A stack on one release of a table's labels, in a sweep."""

    def __init__(self, config: TableStackConfig, **given: Unpack[Given]) -> None:
        data = given["data"]
        given["performance"].limit_threads()
        data.require_numbers(user="table_stack")
        self.config = config
        self._data = data
        self._seed = given["seed"]
        self._rows = data.train_features.flatten(1).float().numpy()
        mechanism = config.mechanism(data.num_classes)
        self._evidence = requested(mechanism, given["labels"], self._rows)

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]; NaN where there is none."""
        return self._data.test_accuracy(self.predict(self._data.test_features).argmax(1))

    def figures(self) -> Mapping[str, float]:
        """Return weights and likelihoods of the models, by kind, and what a single label keeps."""
        share = kept_information(epsilon=self.config.epsilon, num_classes=self._data.num_classes)
        found = {"stack/information": share}
        models = self._predictor.models if self._predictor else []
        for kind in STACKED:
            own = [model for model in models if model[0].startswith(kind)]
            if own:
                found[f"stack/{kind}_weight"] = sum(weight for _, weight, _ in own)
                found[f"stack/{kind}_likelihood"] = max(likelihood for *_, likelihood in own)
        return found

    def _loss(self) -> float:
        """Mean cost of a row by the models' held-out predictions."""
        stack = self.predictor()
        return -float(stack.weights @ stack.likelihoods)

    def _fitted(self) -> Stack:
        return fit_stack(self._rows, self._evidence, seed=self._seed)

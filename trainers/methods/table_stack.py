"""Several models of a table that learn from one release, weighed by the release itself.

After a release everything is free. So several models learn from it, and rows are predicted by
models of other rows: the cost of these predictions says how good a model is, and no true label is
read. It is -log Pr[release | predictions] up to a constant: `LabelEvidence` has it of single
labels, each with its own noise, `CountEvidence` of noisy counts of classes in groups of rows.
Weights under which it is least mix the models, and an exponent calibrates the mixture (Wolpert,
"Stacked generalization", 1992, with a release in place of labels).

* CONSTANT: the shares of the classes. Every other model starts from them, so that a rare class is
  not lost.
* LINEAR: logistic regression on columns in standard units, and on ranks of numbers.
  Beside them, on the columns of words and of sparse matrices (`SparseRows`) themselves.
  Of ordered classes also with the order in the slopes (Anderson, "Regression and ordered
  categorical variables", 1984, with the scores given), and with slopes near those.
* KERNEL: the same on smooth functions of the columns (`SmoothFunctions`).
* BOOSTING: trees that learn which classes a release makes likelier, for single labels. Their
  probabilities are turned back through the channel.
* A network, for single labels (`table_network`).

>>> evidence = LabelEvidence.of(np.log(0.1 + 0.8 * np.eye(2)[[0, 0, 1]]))
>>> evidence.shares.round(2).tolist(), round(evidence.information, 2)
([0.71, 0.29], 0.64)
>>> rows = np.random.default_rng(0).normal(size=(600, 3))
>>> truth = np.eye(2)[(rows[:, 0] > 0).astype(int)]
>>> stack = fit_stack(rows, LabelEvidence.of(np.log(0.1 + 0.8 * truth)), seed=0)
>>> bool(((stack.predict(rows)[:, 1] > 0.5) == (truth[:, 1] > 0)).mean() > 0.9)
True
"""

import itertools
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self, Unpack

import numpy as np
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar, nnls
from threadpoolctl import ThreadpoolController

from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.trainers.data.preprocessing import SparseRows, dense_of
from labeldp.trainers.methods.any_model import fit_to_soft_labels, fitted_to_draw, some_of
from labeldp.trainers.methods.settings import STACKED, TableStackConfig, kept_information
from labeldp.trainers.methods.smooth_sums import groups_of_rows
from labeldp.trainers.models.smooth_functions import SmoothFunctions
from labeldp.trainers.models.table_models import (
    Constant,
    Family,
    Inverted,
    Logistic,
    NearOrder,
    Ordered,
    RankedColumns,
    SparseView,
    Stack,
    StandardColumns,
    Table,
    View,
    calibrated,
    probabilities,
)
from labeldp.trainers.performance import one_blas_thread
from labeldp.trainers.settings.trainer import FittedAtOnce, Given, LabelSource

Floats = NDArray[np.float64]

#: Of expectation maximization, for shares and weights.
_ROUNDS = 300
_SHARES_SETTLED = 1e-7
_TINY = 1e-12
_LEAST_SHARE = 1e-9
#: Smaller priors of a class count as this one.
_LEAST_PRIOR = 1e-3
#: Part of the variance of labels in a group that their features leave.
_LEFT_VARIANCE = 0.7
#: Weight of the equation that weights add up to 1.
_SURE = 1e3
#: Weight of the equations that weights are even, since counts are few.
_EVEN = 100.0
#: Variance that is added to counts to check with, in units of their own; the inverse is added to
#: those to learn from.
_CHECKED_NOISE = 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Unbiased:
    """Amounts of the classes [N, K], which add up to 1 in each row and may be below 0.

    Their cross-entropy is convex in the logits.
    """

    amounts: Floats

    def cost_and_pull(self, predicted: Floats) -> tuple[float, Floats]:
        """Return the cross-entropy of probabilities [N, K], and its gradient by their logits."""
        cost = -float((self.amounts * np.log(np.maximum(predicted, _TINY))).sum())
        return cost, predicted - self.amounts

    @classmethod
    def of(cls, amounts: Floats) -> Self:
        """Return these amounts [N, K], with what is missing to 1 spread over the classes."""
        return cls(amounts=amounts + (1 - amounts.sum(1, keepdims=True)) / amounts.shape[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelEvidence:
    """The likelihood of single labels with noise.

    Attributes:
        chances: Likelihood of the release by class [N, K]; the largest of each row is 1.
        shares: Of the classes [K], none below its error: a class that seems absent may occur.
        likelier: Classes that the release makes likelier than an even prior [N, K].
        own, other: How often that is so of a label's own class, and of each other class.
    """

    chances: Floats
    shares: Floats
    likelier: NDArray[np.bool_]
    own: float
    other: float

    @classmethod
    def of(cls, log_likelihood: NDArray[np.floating]) -> Self:
        """Read a release by its log-likelihood [N, K], up to a term of the row.

        All mechanisms here treat classes alike, so that the release itself shows `own` and `other`.
        """
        highest = log_likelihood.max(1, keepdims=True)
        return cls._of(np.exp(np.asarray(log_likelihood, np.float64) - highest))

    @classmethod
    def _of(cls, chances: Floats) -> Self:
        flat = chances / chances.sum(1, keepdims=True)
        classes = flat.shape[1]
        likelier = flat > (1 + 1e-9) / classes
        own = float((flat * likelier).sum(1).mean())
        other = (float(likelier.sum(1).mean()) - own) / (classes - 1)
        error = math.sqrt(other * (1 - other) / len(flat)) / max(own - other, _TINY)
        shares = np.maximum(_likeliest_shares(chances), np.clip(error, _LEAST_SHARE, 1 / classes))
        return cls(
            chances=np.asfortranarray(chances),  # as `probabilities`
            shares=shares / shares.sum(),
            likelier=likelier,
            own=own,
            other=other,
        )

    @property
    def information(self) -> float:
        """Information in one label, between 0 and 1, which is that of a true one."""
        classes = len(self.shares)
        size = float(self.likelier.sum(1).mean())
        spread = size * (classes - size)
        return (self.own - self.other) ** 2 * (classes - 1) / spread if spread > 0 else 0.0

    def cost(self, predicted: Floats) -> float:
        """Return -log Pr[release | predicted probabilities [N, K]] up to a constant."""
        return -float(np.log(self._seen(predicted)).sum())

    def cost_and_pull(self, predicted: Floats) -> tuple[float, Floats]:
        """Return the cost, and its gradient by the logits of the predictions [N, K].

        That is the predictions less their posterior.
        """
        joint = predicted * self.chances
        seen = np.maximum(joint.sum(1, keepdims=True), _TINY)
        return -float(np.log(seen).sum()), np.asarray(predicted - joint / seen)

    def unbiased(self) -> Unbiased:
        """Return amounts of the classes whose mean is the labels: of those made likelier."""
        amounts = (self.likelier - self.other) / max(self.own - self.other, _TINY)
        return Unbiased.of(np.asarray(amounts, np.float64))

    def only(self, rows: NDArray[np.bool_]) -> Self:
        """Return the evidence of some of the rows, whose shares are found anew."""
        return self._of(self.chances[rows])

    def folds(self, count: int, *, seed: int) -> NDArray[np.intp]:
        """Return the fold of each row [N], out of `count`."""
        return np.random.default_rng(seed).permutation(len(self.chances)) % count

    def weights(self, parts: Floats) -> Floats:
        """Return weights [M] under which a mixture of predictions [M, N, K] costs least.

        By expectation maximization.
        """
        seen = np.stack([self._seen(part) for part in parts])
        weights = np.full(len(seen), 1 / len(seen))
        for _ in range(_ROUNDS):
            joint = weights[:, None] * seen
            weights = (joint / joint.sum(0)).mean(1)
        return weights

    def posterior(self, prior: Floats) -> Floats:
        """Return what the release says of each label [N, K] under a prior [N, K]."""
        joint = self.chances * np.maximum(prior, _LEAST_PRIOR)
        return np.asarray(joint / joint.sum(1, keepdims=True))

    def _seen(self, predicted: Floats) -> Floats:
        return np.asarray(np.maximum(np.einsum("nk,nk->n", self.chances, predicted), _TINY))


def _likeliest_shares(chances: Floats) -> Floats:
    shares = np.full(chances.shape[1], 1 / chances.shape[1])
    for _ in range(_ROUNDS):
        before = shares
        shares = shares * (chances / (chances @ shares)[:, None]).mean(0)
        if np.abs(shares - before).max() < _SHARES_SETTLED:
            break
    return shares


@dataclass(frozen=True, kw_only=True, eq=False)
class CountEvidence:
    """The likelihood of noisy counts of classes in groups of rows.

    A count is normal around the sum of its group's predictions. Its variance is that of the noise
    and of labels at random.

    Attributes:
        counts: Noisy counts [G, K].
        groups: Number of each row's group [N].
        noise_std: Standard deviation of the noise of a group's counts [G].
    """

    counts: Floats
    groups: NDArray[np.intp]
    noise_std: Floats

    @classmethod
    def of(cls, counts: NDArray[Any], groups: NDArray[Any], *, noise_std: float) -> Self:
        """Read noisy counts [G, K] of rows whose groups are numbered from 0 [N]."""
        return cls(
            counts=np.asarray(counts, np.float64),
            groups=np.asarray(groups, np.intp),
            noise_std=np.full(len(counts), noise_std),
        )

    @classmethod
    def together(cls, parts: Sequence["CountEvidence"]) -> Self:
        """Return several releases, one after the other, as one of all their rows."""
        starts = np.cumsum([0, *(len(part.counts) for part in parts)])
        groups = [part.groups + start for part, start in zip(parts, starts, strict=False)]
        return cls(
            counts=np.concatenate([part.counts for part in parts]),
            groups=np.concatenate(groups),
            noise_std=np.concatenate([part.noise_std for part in parts]),
        )

    @cached_property
    def shares(self) -> Floats:
        """As of single labels."""
        classes = self.counts.shape[1]
        error = np.linalg.norm(self.noise_std) / len(self.groups)
        least = np.clip(error, _LEAST_SHARE, 1 / classes)
        found = np.maximum(self.counts.sum(0) / len(self.groups), least)
        return np.asarray(found / found.sum())

    @cached_property
    def _deviations(self) -> Floats:
        shares = self.shares
        of_labels = np.outer(np.bincount(self.groups), shares * (1 - shares))
        return np.asarray(np.sqrt(self.noise_std[:, None] ** 2 + _LEFT_VARIANCE * of_labels))

    def cost(self, predicted: Floats) -> float:
        """As of single labels."""
        return self.cost_and_pull(predicted)[0]

    def cost_and_pull(self, predicted: Floats) -> tuple[float, Floats]:
        """As of single labels."""
        missing = self.counts - self._summed(predicted)
        cost = float(np.square(missing / self._deviations).sum()) / 2
        slope = -np.take((missing / self._deviations**2).T, self.groups, axis=1).T
        pull = predicted * (slope - (predicted * slope).sum(1, keepdims=True))
        return cost, np.asarray(pull)

    def unbiased(self) -> Unbiased:
        """As of single labels: the shares of each row's group."""
        shares = self.counts / np.bincount(self.groups)[:, None]
        return Unbiased.of(shares[self.groups])

    def only(self, rows: NDArray[np.bool_]) -> Self:
        """As of single labels; a part of a group has that share of its counts."""
        found = np.unique(self.groups[rows], return_inverse=True, return_counts=True)
        kept, groups, sizes = found
        share = sizes / np.bincount(self.groups)[kept]
        return type(self)(
            counts=self.counts[kept] * share[:, None],
            groups=groups,
            noise_std=self.noise_std[kept] * share,
        )

    def folds(self, count: int, *, seed: int) -> NDArray[np.intp]:
        """As of single labels."""
        return (np.random.default_rng(seed).permutation(len(self.counts)) % count)[self.groups]

    def thinned(self, *, seed: int) -> tuple["CountEvidence", "CountEvidence"]:
        """Return counts of the same groups to learn from and to check with, of independent noise.

        What is added to one is subtracted from the other. (Neufeld et al., "Data thinning for
        convolution-closed distributions", JMLR 2024.)
        """
        drawn = np.random.default_rng(seed).normal(size=self.counts.shape)
        factor = math.sqrt(_CHECKED_NOISE)
        return self._noisier(drawn, -1 / factor), self._noisier(drawn, factor)

    def _noisier(self, drawn: Floats, factor: float) -> Self:
        added = factor**2 * np.square(self._deviations).mean(1)
        return type(self)(
            counts=self.counts + factor * drawn * self._deviations,
            groups=self.groups,
            noise_std=np.sqrt(self.noise_std**2 + added),
        )

    def weights(self, parts: Floats) -> Floats:
        """As of single labels, by least squares of weights not below 0."""
        deviations = self._deviations
        columns = [(self._summed(part) / deviations).ravel() for part in parts]
        count = len(parts)
        pulled = math.sqrt(_EVEN) * np.eye(count)
        equations = np.vstack([np.stack(columns, axis=1), np.full(count, _SURE), pulled])
        right = [(self.counts / deviations).ravel(), [_SURE], pulled.mean(0)]
        found, _ = nnls(equations, np.concatenate(right))
        return np.asarray(found / found.sum())

    def posterior(self, prior: Floats) -> Floats:
        """As of single labels: a group's counts say little of one of its labels."""
        return prior

    def _summed(self, predicted: Floats) -> Floats:
        size = len(self.counts)
        return np.stack([np.bincount(self.groups, each, size) for each in predicted.T], axis=1)


Evidence = LabelEvidence | CountEvidence

#: Below so many rows times classes each row is predicted by models of other folds; above, one fold
#: is. Counts of any number of classes are taken as those of two.
_FOLDED = 40_000
FOLDS = 4
#: From so many single labels on models are not fitted again to all rows: those of all but so many
#: rows know as much, in half the time.
_REFITTED_ROWS = 100_000
_HELD_OUT = 20_000
#: Rows times outputs from which a stack learns; of many classes so many rows at least.
_MOST_OUTPUTS = 2_000_000
#: Strengths of the penalty on squared weights.
_STRENGTHS = {
    "standard_columns": (100.0, 10.0, 1.0),
    "ranked_columns": (100.0, 10.0, 1.0),
    "sparse_view": (1.5, 0.5, 0.15),
    "smooth_functions": (3.0, 0.3, 0.03),
}
#: Unit of what slopes near the order of the classes have of their own: a rare class tells little.
_OWN_SLOPES = 0.3
_MOST_STEPS = 60
_SETTLED = 1e-6
#: Functions of a kernel: so many at least and at most, and one for so many rows.
_FEWEST_FUNCTIONS = 20
_MOST_FUNCTIONS = 200
_ROWS_PER_FUNCTION = 8
#: Leaves of trees, their learning rate, and the rounds of boosting after which they are read.
TreeShape = tuple[int, float, tuple[int, ...]]
#: Large trees take most of the time, so they take fewer steps, as long in sum.
_SMALL_TREES: TreeShape = (8, 0.08, (15, 30, 60))
_LARGE_TREES: TreeShape = (31, 0.12, (13, 40))
#: Larger trees need so much information in a label.
_INFORMED = 0.5
#: Of a column's values: of noisy labels more of them take time and tell nothing.
_BINS = 63
#: Rows of a leaf: so many at least, more of noisy labels, and this share of all rows at most.
_LEAST_LEAF = 20
_NOISY_LEAF = 5
_LEAF_SHARE = 0.1
#: Share of the columns among which a split is sought.
_TRIED = 0.5
#: Trees of all classes together. Of more columns they take minutes and tell little, and so they do
#: of directions of words alone.
_MOST_TREES = 1000
_MOST_COLUMNS = 500
#: Rows times columns from which trees learn.
_MOST_CELLS = 5_000_000
#: Rows times columns times classes below which threads wait for each other longer than they help:
#: 500 x 5 takes .5 s in one and 1.0 s in two, 5,000 x 15 takes 1.4 and 2.0 s of counts.
_ALONE = 300_000
#: Exponents of the calibration, and how surely it is 1 before anything was seen.
_LEAST_POWER = 0.3
_MOST_POWER = 3.0
_SURENESS = 10.0
#: Smaller weights are left out.
_LEAST_WEIGHT = 1e-3


def scores_of(classes: Sequence[object]) -> Floats | None:
    """Return the rank of each class [K] by its number, with mean 0 and mean square 1.

    Two classes have none, nor have classes of which one is not a number.
    """
    try:
        numbers = [float(str(name)) for name in classes]
    except ValueError:
        return None
    if len(numbers) < 3:
        return None
    places = np.argsort(np.argsort(numbers))
    return np.asarray((places - places.mean()) / places.std())


def fit_logistic(
    view: str,
    table: Table,
    evidence: Evidence,
    shape: Floats | None = None,
    kind: type[Logistic] = Logistic,
) -> Logistic:
    """Return the models of a view that cost least, for each penalty.

    Slopes of K classes are penalized ones times `shape` [P, K]; without it each class has its own.

    The cost may have several valleys, and in some of them a rare class lies where it is not. So
    each model but the first starts where the one before ended. The first starts at the shares of
    the classes, and of more than two classes a second time at the minimum of the unbiased cost,
    which has one valley.
    """
    columns = table.columns[view]
    strengths = _STRENGTHS[view]
    start = np.log(evidence.shares)
    if len(start) == 2:
        start = start[1:] - start[0]
    outputs = len(start)
    shape = np.eye(outputs) if shape is None else shape

    def minimum(known: Evidence | Unbiased, values: Floats, strength: float) -> Any:
        def cost(values: Floats) -> tuple[float, Floats]:
            free = values[:-outputs].reshape(-1, len(shape))
            slopes = free @ shape
            moved = values[-outputs:] - start
            predicted = probabilities(columns @ slopes.astype(np.float32) + values[-outputs:])
            cost_of_fit, pull = known.cost_and_pull(predicted)
            pull = np.ascontiguousarray(pull[:, -outputs:])
            penalty = (strength * np.square(free).sum() + np.square(moved).sum()) / 2
            of_slopes = columns.T @ (pull @ shape.T).astype(np.float32) + strength * free
            gradient = np.concatenate([of_slopes.ravel(), pull.sum(0) + moved])
            return cost_of_fit + float(penalty), gradient

        # Few steps: noise in the labels is larger than what more of them would gain.
        options = {"maxiter": _MOST_STEPS, "ftol": _SETTLED}
        return minimize(cost, values, method="L-BFGS-B", jac=True, options=options)

    starts = [np.append(np.zeros(columns.shape[1] * len(shape)), start)]
    if outputs > 1 and view != SparseView.kind:  # of sparse columns it would take minutes
        starts.append(minimum(evidence.unbiased(), starts[0], strengths[0]).x)
    every = []
    for strength in strengths:
        tried = [minimum(evidence, values, strength) for values in starts]
        starts = [min(tried, key=lambda each: float(each.fun)).x]
        every += starts
    together = np.stack(every)
    free = together[:, :-outputs].reshape(len(every), -1, len(shape))
    return kind(
        view=view,
        strengths=strengths,
        slopes=(free @ shape).astype(np.float32),
        offsets=together[:, -outputs:],
    )


def tree_shapes(evidence: Evidence) -> list[TreeShape]:
    """Return the shapes of the trees of a stack."""
    if not isinstance(evidence, LabelEvidence):
        return []
    classes = len(evidence.shares)
    most = _MOST_TREES / (1 if classes == 2 else classes)
    enough = len(evidence.chances) >= _LARGE_TREES[0] * _LEAST_LEAF
    large = enough and evidence.information >= _INFORMED
    shapes = [_SMALL_TREES, _LARGE_TREES][: 2 if large else 1]
    counted = [
        (leaves, rate, tuple(n for n in rounds if n <= most)) for leaves, rate, rounds in shapes
    ]
    return [shape for shape in counted if shape[-1]]


def _inverted(estimator: object, evidence: LabelEvidence, rounds: tuple[int, ...] = ()) -> Inverted:
    return Inverted(
        estimator=estimator,
        rounds=rounds,
        classes=len(evidence.shares),
        size=float(evidence.likelier.sum(1).mean()),
        own=evidence.own,
        other=evidence.other,
    )


def fit_trees(table: Table, evidence: LabelEvidence, *, shape: TreeShape, seed: int) -> Inverted:
    """Return trees fitted to a release of a table, once for each class it makes likelier."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    leaves, rate, rounds = shape
    some = some_of(len(table.rows), most=_MOST_CELLS // table.rows.shape[1], seed=seed)
    rows = table.rows[some]
    places, labels = np.nonzero(evidence.likelier[some])
    weights = None
    if not len(labels) or labels.min() == labels.max():
        # Boosting needs two classes: others that weigh nothing. Noise can favor no class at all.
        others = np.setdiff1d([0, 1], labels)[: 1 if len(labels) else 2]
        weights = np.append(np.ones(len(labels)), np.full(len(others), _TINY))
        places = np.append(places, np.zeros_like(others))
        labels = np.append(labels, others)
    # The noise of a mean of labels grows with the square of what a label tells less.
    leaf = _NOISY_LEAF / max(evidence.own - evidence.other, _TINY) ** 2
    trees = HistGradientBoostingClassifier(
        max_bins=_BINS,
        max_iter=max(rounds),
        max_leaf_nodes=leaves,
        learning_rate=rate,
        min_samples_leaf=int(max(_LEAST_LEAF, min(leaf, _LEAF_SHARE * len(rows)))),
        max_features=_TRIED,
        early_stopping=False,
        random_state=seed,
    )
    return _inverted(trees.fit(rows[places], labels, weights), evidence, rounds)


def fit_own(estimator: object, table: Table, evidence: LabelEvidence, *, seed: int) -> Family:
    """Return a user's classifier fitted to rows, each with one class that a release favors."""
    named = evidence.likelier.any(1)
    if not named.any():
        return Constant(shares=evidence.shares)
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
    """Return the stack of a release of the labels of rows; arguments as in `fit_and_predict`.

    Of very many rows and classes some rows are enough.
    """
    classes = len(evidence.shares)
    most = max(_REFITTED_ROWS, _MOST_OUTPUTS // (1 if classes == 2 else classes))
    if len(rows) > most:
        some = some_of(len(rows), most=most, seed=0)
        evidence = evidence.only(np.isin(np.arange(len(rows)), some))
        rows = rows[some]
    return fit_and_predict(rows, evidence, **how)[0]


def requested(
    mechanism: Any,
    labels: LabelSource,
    scaled: NDArray[np.floating],
    *,
    kept: Callable[..., tuple[NDArray[Any], ...]] | None = None,
) -> CountEvidence | LabelEvidence:
    """Request a release of the labels of rows [N, D], whose columns have variance 1, and read it.

    Groups of rows do not depend on a trial's seed, and `kept` makes them once for all trials, so
    that equal requests share a release: other processors would group some rows otherwise.
    """
    if not isinstance(mechanism, ClusterHistograms):
        return LabelEvidence.of(mechanism.log_likelihood(labels.release(mechanism).values))

    def grouped(*_: object, **how: Any) -> tuple[NDArray[Any], ...]:
        return (groups_of_rows(scaled, **how),)

    # Made of public rows alone, before the release.
    how = {"epsilon": mechanism.epsilon, "seed": 0}
    (groups,) = grouped(**how) if kept is None else kept("groups", grouped, **how)
    counts = labels.release(mechanism, groups).values
    return CountEvidence.of(counts, groups, noise_std=mechanism.noise_std)


def _steeper(family: Family, predicted: Floats, evidence: Evidence, *, count: int) -> Family:
    """Return a family calibrated if it is of sparse columns, as its predictions [S, N, K] then are.

    The penalty on so many slopes makes these models too flat, and weights would be of others. The
    evidence is of the first `count` predictions.
    """
    if not isinstance(family, Logistic) or family.view != SparseView.kind:
        return family
    powers = np.array([best_power(each[:count], evidence) for each in predicted])
    for each, power in zip(predicted, powers, strict=True):
        each[:] = calibrated(each, evidence.shares, power)
    return family.raised(powers, evidence.shares)


def _side_by_side(work: Sequence[Callable[[], Any]], *, n_jobs: int | None) -> list[Any]:
    """Do all parts of the work, each on one thread: threads that wait for each other are slow."""

    def alone(part: Callable[[], Any]) -> Any:
        # A thread's first call of torch takes the process's number of threads, over any limit.
        if torch := sys.modules.get("torch"):
            torch.get_num_threads()
        # Selected, since `threadpool_limits` would restore a limit of BLAS of another fit, too.
        with ThreadpoolController().select(user_api="openmp").limit(limits=1):
            return part()  # each thread has its own number of these

    usual = int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0] or 0) or cpu_count()
    jobs = n_jobs or usual
    with one_blas_thread():
        if jobs == 1:  # one limit for all: finding the libraries takes milliseconds
            return list(alone(lambda: [part() for part in work]))
        done: list[Any] = Parallel(n_jobs=jobs, require="sharedmem")(
            delayed(alone)(part) for part in work
        )
    return done


def fit_and_predict(
    rows: Any,
    evidence: Evidence,
    *,
    models: Sequence[Any] = STACKED,
    classes: Sequence[object] = (),
    seed: int,
    every_row: bool = False,
    folds: int = FOLDS,
    n_jobs: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[Stack, Floats]:
    """Return a stack of a release of the labels of rows [N, D], and predictions [N, K] of rows.

    Args:
        rows: Features [N, D], or `SparseRows`.
        evidence: What the release says.
        models: Some of `STACKED`; and for single labels classifiers of scikit-learn's kind, and
            functions that fit a family to a table and evidence.
        classes: All classes as labels name them; those that are numbers are ordered. None given
            have no order.
        seed: Of folds, landmarks and trees.
        every_row: Whether all rows are predicted, by models of other rows, as few rows always are.
            Otherwise some are. The stack is of a part of the rows then.
        folds: Of rows, where each row is predicted by models of the others.
        n_jobs: Fits side by side; None for one of a small table, else OMP_NUM_THREADS or all cores.
        tell: Gets a line of progress after each fit.
    """
    count = int(np.clip(len(rows) / _ROWS_PER_FUNCTION, _FEWEST_FUNCTIONS, _MOST_FUNCTIONS))
    dense = dense_of(rows)
    views: tuple[View, ...] = ()
    if "linear" in models:
        ranked = rows is dense and rows.shape[1] <= _MOST_COLUMNS
        views += ((RankedColumns if ranked else StandardColumns).learned(dense),)
    if "linear" in models and isinstance(rows, SparseRows):
        views += (SparseView.learned(rows),)
    if "kernel" in models:
        views += (SmoothFunctions.learned(dense, count=count, seed=seed),)
    # By the shape of the public rows alone, so that no choice depends on labels.
    text_alone = isinstance(rows, SparseRows) and not len(rows.plain)
    trees = "boosting" in models and rows.shape[1] <= _MOST_COLUMNS and not text_alone
    shapes = tree_shapes(evidence) if trees else []
    own = [model for model in models if not isinstance(model, str)]
    if own and not isinstance(evidence, LabelEvidence):
        raise ValueError(
            "counts were released, and a network or a classifier of your own learns from single "
            "labels: take method='subset'"
        )

    constant: list[Callable[[Table, Any], Family]] = [
        lambda _, known: Constant(shares=known.shares)
    ]
    fits = constant if "constant" in models else []
    fits = fits + [partial(fit_logistic, view.kind) for view in views]
    scores = scores_of(classes)
    if scores is not None and not text_alone:  # numbers of topics have no order that words tell
        near = np.vstack([scores, _OWN_SLOPES * np.eye(len(scores))])
        for view in views:
            if view.kind != SparseView.kind:
                fit = partial(fit_logistic, view.kind)
                fits.append(partial(fit, shape=scores[None], kind=Ordered))
                fits.append(partial(fit, shape=near, kind=NearOrder))
    fits += [partial(fit_trees, shape=shape, seed=seed) for shape in shapes]
    for model in own:
        fits.append(partial(fit_own, model, seed=seed) if hasattr(model, "fit") else model)
    if not fits:
        raise ValueError(
            "the models are boosting alone, which learns from single labels of not too many "
            "classes and columns; add 'constant' or 'linear'"
        )
    labels_alone = isinstance(evidence, LabelEvidence)
    few = len(rows) * (len(evidence.shares) if labels_alone else 2) < _FOLDED
    again = not every_row and (len(rows) < _REFITTED_ROWS or not labels_alone)
    most = folds if few or again else 2 if every_row else len(rows) // _HELD_OUT
    fold_of = evidence.folds(most, seed=seed)
    held_out = [fold_of == fold for fold in range(fold_of.max() + 1 if few or every_row else 1)]
    whole = not all(held.any() and not held.all() for held in held_out)
    if whole:  # all rows are in one group, which tells of the constant alone
        fits = constant
        held_out = [fold_of >= 0]
    table = Table.of(rows, views) if again else None

    def some(places: NDArray[np.bool_]) -> Table:
        # Of many rows not all are described at once.
        return Table.of(rows[places], views) if table is None else table.only(places)

    known: list[tuple[Table, Evidence, Table | None]] = []
    if table is not None:
        known.append((table, evidence, None))
    for held in held_out:
        known.append((some(~held | whole), evidence.only(~held | whole), some(held)))
    checks: list[CountEvidence] = []
    if isinstance(evidence, CountEvidence) and not whole:
        mixed_up = np.random.default_rng(seed).permutation(len(rows)) % folds
        for fold in range(len(held_out)):
            learned, check = evidence.thinned(seed=seed + fold)
            held = mixed_up == fold
            others = ~held if few else mixed_up == fold + 1  # of large groups these are enough
            known.append((some(others), learned.only(others), some(held)))
            checks.append(check.only(held))
    told = itertools.count(1)

    def fitted(fit: Callable[[Table, Any], Family], *of: Any) -> tuple[Family, Floats | None]:
        learned, said, held = of
        family = fit(learned, said)
        tell(f"fitted {next(told)} of {len(fits) * len(known)} models of a stack")
        return family, None if held is None else family.predict(held)

    work = [partial(fitted, fit, *of) for of in known for fit in fits]
    small = rows.shape[0] * rows.shape[1] * len(evidence.shares) < _ALONE
    done = _side_by_side(work, n_jobs=n_jobs or (1 if small else None))
    families = tuple(family for family, _ in done[: len(fits)])
    found = [part for _, part in done if part is not None]
    parts = [np.concatenate(found[at : at + len(fits)]) for at in range(0, len(found), len(fits))]
    seen = np.any(held_out, axis=0)
    together = np.empty((len(parts[0]), len(rows), len(evidence.shares)))
    by_noise = parts[len(held_out) :]
    for held, part in zip(held_out, parts[: len(held_out)], strict=True):
        together[:, held] = part
    seen_rows = int(seen.sum())
    together = np.concatenate([together[:, seen], *by_noise], axis=1)
    of_rows = evidence.only(seen)
    every = last = of_rows
    if isinstance(of_rows, CountEvidence) and checks:
        every = CountEvidence.together([of_rows, *checks])
        last = CountEvidence.together(checks)
    ends = np.cumsum([len(family.names) for family in families])
    families = tuple(
        _steeper(family, part, of_rows, count=seen_rows)
        for family, part in zip(families, np.split(together, ends[:-1]), strict=True)
    )
    # By held-out predictions: a model that repeats the noise that it has seen would win otherwise.
    weights = every.weights(together)
    weights = np.where(weights < _LEAST_WEIGHT, 0, weights)
    weights /= weights.sum()
    mixed = np.tensordot(weights, together, 1)
    # Predictions are flatter in a group that was left out, where the stack never is.
    alike = mixed[seen_rows if checks else 0 :]
    stack = Stack(
        views=views,
        families=families,
        weights=weights,
        likelihoods=np.array([-of_rows.cost(part[:seen_rows]) / seen_rows for part in together]),
        shares=evidence.shares,
        power=best_power(alike, last),
    )
    return stack, calibrated(mixed[:seen_rows], stack.shares, stack.power)


def fit_to_evidence(
    estimator: object, rows: NDArray[Any], evidence: Evidence, *, seed: int, **how: Any
) -> Any:
    """Return a clone of a classifier fitted to a release of the labels of rows [N, D].

    A model that has seen a row's noisy label agrees with it too readily. So a stack of other rows
    is the prior of a row, and the classifier learns from labels drawn from the posterior. Counts
    say little of one label, and without them nobody knows their group: all of them make the prior.
    `how` is as in `fit_and_predict`.
    """
    if isinstance(evidence, CountEvidence):
        prior = fit_stack(rows, evidence, seed=seed, **how).predict(rows).astype(np.float64)
    else:
        _, prior = fit_and_predict(rows, evidence, seed=seed, every_row=True, **how)
    return fit_to_soft_labels(estimator, rows, evidence.posterior(prior), seed=seed)


class TableStack(FittedAtOnce[Stack]):
    """A stack on one release of a table's labels, in a sweep."""

    def __init__(self, config: TableStackConfig, **given: Unpack[Given]) -> None:
        from labeldp.trainers.methods.priors import Rows  # loads torch

        data = given["data"]
        given["performance"].limit_threads()
        data.require_numbers(user="table_stack")
        self.config = config
        self._data = data
        self._seed = given["seed"]
        self._rows = data.train_features.flatten(1).float().numpy()
        mechanism = config.mechanism(data.num_classes)
        rows = Rows(data.fingerprint, data.train_features, data.features_folder)
        self._evidence = requested(mechanism, given["labels"], self._rows, kept=rows.kept)

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
        names = self._data.class_names or ()
        return fit_stack(self._rows, self._evidence, classes=names, seed=self._seed)

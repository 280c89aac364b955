"""Directions for label sums of a table in NumPy, packed, and the way to read the answer.

The party that has the features requests sums of labels along smooth functions of them
(`LabelMoments`), and learns a smooth function from the answer. Noise goes into one sum per
function and class. A logistic model needs nothing else of the labels: its likelihood depends on
them by these sums alone. Its prior is the kernel's, and noise makes it count for more. Everything
in this module is public: labels have no part in it.

The packed weights are the request, entry by entry; `SumQuestion` holds what the answer needs.

>>> rows = np.random.default_rng(0).normal(size=(500, 3))
>>> weights, question = SumQuestion.asked(rows, count=40, seed=0)
>>> weights.shape, weights.dtype
((500, 40), dtype('int8'))
>>> sums = (weights * question.units).T @ np.eye(2)[(rows[:, 0] > 0).astype(int)]
>>> soft = question.soft_labels(rows, sums, count=500, noise_std=1e-3, length=1.0)
>>> bool(np.mean((soft[:, 1] > 0.5) == (rows[:, 0] > 0)) > 0.95)
True
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from labeldp.mechanisms.amounts import AmountSums
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.persons import shares_of_persons
from labeldp.mechanisms.posterior import project_to_simplex
from labeldp.trainers.methods.any_model import some_of
from labeldp.trainers.methods.settings import worthwhile
from labeldp.trainers.models.smooth_functions import CLIPPED, SAMPLE, SmoothFunctions, blocks
from labeldp.trainers.settings.trainer import LabelSource

Floats = NDArray[np.float32]

#: As in `priors`: more of the labels lies along the queried directions than along an average one,
#: and rows with more leverage than this share of all rows are shortened.
_SMOOTHNESS = 10.0
_KEPT_WHOLE = 0.9
_MOST_GROUPS = 1000
_GROUPING_FUNCTIONS = 60
_MOST_STEPS = 100
#: Weights are whole numbers of half a byte. That they are coarse costs little: both parties know
#: them exactly, and the answer is read with the requested weights.
LARGEST = 7
#: Share by which marks of the same rows may differ; those of other rows differ by about 1.
_ROUNDED = 0.01


def groups_of_rows(rows: NDArray[np.floating], *, epsilon: float, seed: int) -> NDArray[np.uint32]:
    """Return numbers of groups of like rows [N], so large that noise is a small part of a count.

    Rows are alike where smooth functions of them are, the smoothest most. Columns have variance 1.
    """
    from sklearn.cluster import MiniBatchKMeans

    count = int(np.clip(np.sqrt(len(rows) * epsilon), 1, min(_MOST_GROUPS, len(rows))))
    functions = SmoothFunctions.learned(rows, count=_GROUPING_FUNCTIONS, seed=seed)
    values = functions(rows) * (functions.strengths / functions.strengths.max()) ** 0.25
    groups = MiniBatchKMeans(count, batch_size=4096, n_init=1, random_state=seed)
    # Clipped: one row far away would be a group of its own, whose count is its label.
    numbers = groups.fit_predict(np.clip(values, -CLIPPED, CLIPPED))
    return np.unique(numbers, return_inverse=True)[1].astype(np.uint32)


class CoarseWeights:
    """Weights of rows in sums [N, M]: whole numbers in -7..7, times `units` [M]."""

    units: Floats

    def no_longer_than_one(self, weights: NDArray[np.int8]) -> tuple[Floats, float]:
        """Return weights [N, M] as `LabelMoments` takes them, and the length they are divided by.

        The longest row decides, for weights of any origin.
        """
        # Not by the question's own word: the other party may have written any weights.
        squared = np.square(self.units, dtype=np.float64)
        longest = max(
            float((np.square(weights[some], dtype=np.float64) @ squared).max())
            for some in blocks(len(weights))
        )
        # A little more, for single precision: no row is longer than 1 then.
        length = float(np.float32(np.sqrt(longest) * (1 + 1e-6)))
        if not (length > 0 and np.isfinite(length)):
            raise ValueError(
                f"the longest row of the directions has length {length:g}; it must be above 0 and "
                "finite"
            )
        return weights * (self.units / np.float32(length)), length

    def marks(self, weights: NDArray[np.floating] | NDArray[np.int8]) -> Floats:
        """Return sums [M] of weights [N, M] with random signs, which tell other rows apart."""
        # The signs are public: marks tell tables apart, and keep nothing secret.
        signs = np.random.default_rng(0).choice(np.array([-1.0, 1.0], np.float32), len(weights))
        found = np.zeros(weights.shape[1])
        for some in blocks(len(weights)):
            found += signs[some] @ weights[some].astype(np.float32)
        return (found * self.units).astype(np.float32)

    def refuse_other_weights(self, whole: Floats, marks: Floats) -> None:
        """Refuse weights [N, M] other than those of which `marks` [M] are."""
        # Weights are rounded otherwise on other processors, a few of them.
        if np.linalg.norm(self.marks(whole) - marks) > _ROUNDED * np.linalg.norm(marks):
            raise ValueError(
                "the features have the ids and columns of the request, but other values: its sums "
                "are of other rows, and a model of them would be useless; give the table that the "
                "request was made of"
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it as arrays by name, for a file."""
        return {name: np.asarray(value) for name, value in vars(self).items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class SumQuestion(CoarseWeights, SmoothFunctions):
    """A question about labels, along coarse weights [N, M], and the way to read its answer.

    The weights pack the functions: entry (i, j) is a number in -7..7 times `units[j]`. Apart from
    the landmarks, nothing here is about single rows.

    Attributes:
        units: Of each direction [M].
        longest: Length of the functions' values at a row above which the row is shortened.
        mixing: Of the functions into the sums: weights^T @ values [M, M].
        totals: Sums of the weights over all rows [M].
    """

    units: Floats
    longest: float
    mixing: NDArray[np.float64]
    totals: NDArray[np.float64]

    @classmethod
    def asked(
        cls, rows: NDArray[np.floating], *, count: int, seed: int
    ) -> tuple[NDArray[np.int8], Self]:
        """Return weights in -7..7 [N, M] for rows [N, D], no row longer than 1, and their question.

        Most rows have a length close to 1; those with more leverage are shortened.
        """
        functions = SmoothFunctions.learned(rows, count=count, seed=seed)
        # A sample is enough for a quantile, and the same rows for every trial.
        sample = functions(rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLE)).astype(int)])
        lengths = np.linalg.norm(sample, axis=1)
        longest = float(np.quantile(lengths, _KEPT_WHOLE))
        # The largest value of a function becomes 7, the most that four bits hold.
        units = np.maximum(np.abs(sample).max(0) / longest / LARGEST, 1e-12).astype(np.float32)
        # Rows that are shortened to less than one unit would leave nothing of a function that
        # tells rare rows apart, and its sums would be noise alone.
        lost = ~_whole(sample, units, longest).any(0)
        kept = np.abs(sample[:, lost] / np.maximum(lengths, longest)[:, None]).max(0)
        units[lost] = np.maximum(kept / LARGEST, 1e-12)
        width = len(units)
        weights = np.empty((len(rows), width), np.int8)
        mixing = np.zeros((width, width))
        totals = np.zeros(width)
        for some in blocks(len(rows)):
            values = functions(rows[some])
            weights[some] = whole = _whole(values, units, longest)
            mixing += (whole * units).T @ values
            totals += (whole * units).sum(0, dtype=np.float64)
        own = {"units": units, "longest": longest, "mixing": mixing, "totals": totals}
        return weights, cls(**vars(functions), **own)

    def soft_labels(
        self,
        rows: NDArray[np.floating],
        sums: NDArray[np.floating],
        *,
        count: int,
        noise_std: float,
        length: float,
        at: NDArray[np.floating] | None = None,
        shares: Floats | None = None,
    ) -> NDArray[np.float64]:
        """Return soft labels [n, K] of rows [n, D] from what `LabelMoments` released [M, K].

        A logistic model along the weights: the sums are all that its likelihood takes of labels.

        Args:
            rows: All rows that were requested, or a random sample of them [n, D].
            sums: Released sums [M, K], in units of `length`.
            count: Number of rows that were requested.
            noise_std: Standard deviation of the noise of `sums`, in the same units.
            length: What the weights were divided by, so that no row is longer than 1.
            at: Rows whose soft labels are returned; `rows` if None.
            shares: What each row's weights were multiplied by [n] (`shortened`); 1 if None.
        """
        num_classes = sums.shape[1]
        noise_std = noise_std * length
        known = np.asarray(sums, np.float64) * length
        # Together the classes are all labels, so that a part of the noise is known.
        known += (self.totals[:, None] - known.sum(1, keepdims=True)) / num_classes
        values, weights = self.read(rows)
        each = np.ones((len(rows), 1), np.float32) if shares is None else shares[:, None]
        linear = self._linear(known, noise_std)
        share = np.float64(len(rows)) / count
        guess = values @ linear + 1 / num_classes
        # The rest of the rows, by a linear model whose sums over all rows are known.
        target = share * (known - self.totals[:, None] / num_classes - self.mixing @ linear)
        target += (each * weights).T @ guess
        rates = project_to_simplex(guess.mean(0, keepdims=True))[0] + 1 / count
        # The linear reading is the start, and stands in for rows that are not in the sample.
        slopes, offsets = fit_logistic(
            weights,
            each,
            target,
            rates / rates.sum(),
            strengths=self.strengths,
            noise_variance=noise_std**2 * (1 - 1 / num_classes),
            share=float(share),
        )
        if at is None:
            return np.asarray(softmax(weights @ slopes + offsets, axis=1))
        parts = (self.read(at[some])[1] @ slopes + offsets for some in blocks(len(at)))
        return np.asarray(softmax(np.concatenate(list(parts)), axis=1))

    def shortened(self, rows: NDArray[np.floating], shares: Floats) -> Self:
        """Return the question whose weights are shorter, each of the rows [N, D] by its factor."""
        mixing = np.zeros_like(self.mixing)
        totals = np.zeros_like(self.totals)
        for some in blocks(len(rows)):
            values, weights = self.read(rows[some])
            weights *= shares[some, None]
            mixing += weights.T @ values
            totals += weights.sum(0, dtype=np.float64)
        return replace(self, mixing=mixing, totals=totals)

    def read(self, rows: NDArray[np.floating]) -> tuple[Floats, Floats]:
        """Values of the functions at rows [N, M], and the weights requested for them."""
        values = self(rows)
        return values, _whole(values, self.units, self.longest) * self.units

    def refuse_other_rows(self, rows: NDArray[np.floating], marks: Floats) -> None:
        """Refuse rows [N, D] that the question was not made of; `marks` [M] are of its weights."""
        whole = np.empty((len(rows), len(self.units)), np.float32)
        for some in blocks(len(rows)):
            whole[some] = _whole(self(rows[some]), self.units, self.longest)
        self.refuse_other_weights(whole, marks)

    def _linear(self, sums: NDArray[np.float64], noise_std: float) -> NDArray[np.float64]:
        """Coefficients [M, K] of the posterior mean of one-hot labels, less the mean 1 / K."""
        mean = 1 / sums.shape[1]
        strengths = self.strengths
        variance = mean * (1 - mean) * _SMOOTHNESS * strengths / strengths.sum()
        normal = self.mixing.T @ self.mixing + np.diag(noise_std**2 / variance)
        known = sums - mean * self.totals[:, None]
        return np.asarray(np.linalg.solve(normal, self.mixing.T @ known))

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the question that `arrays` were taken of; refuse shapes that do not fit."""
        known = {name: np.asarray(arrays[name]) for name in ARRAY_AXES}
        sizes: dict[str, int] = {}
        for name, axes in ARRAY_AXES.items():
            found = known[name].shape
            fits = len(found) == len(axes) and known[name].dtype.kind == "f"
            if not fits or any(
                sizes.setdefault(a, n) != n for a, n in zip(axes, found, strict=True)
            ):
                raise ValueError(f"{name} has shape {found}, which does not fit the other arrays")
        numbers = {name: float(known.pop(name)) for name in ("width", "longest")}
        # mypy cannot tell fields that are arrays from fields that are numbers.
        return cls(**known, **numbers)  # type: ignore[arg-type]


class AnsweredSums(NamedTuple):
    """A question, the sums [M, C] that answer it, the length of its rows and their shares [N]."""

    question: SumQuestion
    sums: NDArray[np.floating]
    length: float
    shares: Floats


def requested_sums(
    numbers: NDArray[np.floating],
    labels: LabelSource,
    *,
    mechanism: LabelMoments | AmountSums,
    seed: int,
    kept: Callable[..., tuple[NDArray[Any], ...]] | None = None,
) -> AnsweredSums:
    """Request sums along smooth functions of all rows [N, D], shortened where persons have several.

    `kept` makes the functions once for all trials.
    """

    def asked(*_: object, count: int, seed: int) -> tuple[NDArray[Any], ...]:
        weights, question = SumQuestion.asked(numbers, count=count, seed=seed)
        arrays = question.arrays()
        return weights, *(arrays[name] for name in ARRAY_AXES)

    # Persons pay, and so their number, not that of rows, decides how many functions noise allows.
    payers = len(numbers) if labels.persons is None else int(labels.persons.max()) + 1
    size = {"count": worthwhile(rows=payers, noise_std=mechanism.noise_std), "seed": seed}
    weights, *arrays = asked(**size) if kept is None else kept("sums", asked, **size)
    question = SumQuestion.of_arrays(dict(zip(ARRAY_AXES, arrays, strict=True)))
    whole, length = question.no_longer_than_one(weights)
    shares = np.ones(len(numbers), np.float32)
    if labels.persons is not None:
        shares = shares_of_persons(whole, labels.persons)
        whole = whole * shares[:, None]
        question = question.shortened(numbers, shares)
    sums = labels.release(mechanism, whole).values
    return AnsweredSums(question, sums, length, shares)


def labels_of_sums(
    numbers: NDArray[np.floating],
    labels: LabelSource,
    *,
    mechanism: LabelMoments,
    seed: int,
    places: NDArray[np.intp] | None = None,
    kept: Callable[..., tuple[NDArray[Any], ...]] | None = None,
) -> NDArray[np.float64]:
    """Return soft labels [n, K] from a release of sums along smooth functions of all rows [N, D].

    They are those of the rows at `places`, to which the reading is fitted too; None stands for all
    rows, and a reading that is fitted to a sample. `kept` is as in `requested_sums`.
    """
    found = requested_sums(numbers, labels, mechanism=mechanism, seed=seed, kept=kept)
    fitted = some_of(len(numbers), seed=seed) if places is None else places
    return found.question.soft_labels(
        numbers[fitted],
        found.sums,
        count=len(numbers),
        noise_std=mechanism.noise_std,
        length=found.length,
        at=numbers if places is None else None,
        shares=found.shares[fitted],
    )


def packed(weights: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Return weights [N, M] two to a byte [N, M / 2 rounded up].

    >>> packed(np.array([[-7, 7, 1]], np.int8)).tolist()
    [[31, 144]]
    """
    whole = np.zeros((len(weights), weights.shape[1] + weights.shape[1] % 2), np.uint8)
    whole[:, : weights.shape[1]] = weights + np.int8(8)
    return np.asarray(whole[:, ::2] * np.uint8(16) + whole[:, 1::2], np.uint8)


def unpacked(stored: NDArray[np.uint8], width: int) -> NDArray[np.int8]:
    """Return the weights [N, `width`] that `packed` stored.

    >>> unpacked(np.array([[31, 152]], np.uint8), 3).tolist()
    [[-7, 7, 1]]
    """
    found = np.empty((len(stored), 2 * stored.shape[1]), np.int8)
    found[:, ::2] = stored >> 4
    found[:, 1::2] = stored & 15
    found -= np.int8(8)
    return found[:, :width]


def _whole(values: Floats, units: Floats, longest: float) -> Floats:
    """Weights in -7..7 of the functions' values [N, M]; none, times the units, is too long."""
    lengths = np.maximum(np.linalg.norm(values, axis=1), longest)
    # Rounded towards 0, which shortens a row.
    whole = np.trunc(values / (lengths[:, None] * units))
    return np.asarray(np.clip(whole, -LARGEST, LARGEST), np.float32)


def fit_logistic(
    weights: Floats,
    row_weights: Floats,
    target: NDArray[np.float64],
    rates: NDArray[np.float64],
    *,
    strengths: NDArray[np.float64],
    noise_variance: float | NDArray[np.float64],
    share: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit a logistic model to sums of one-hot labels; return its slopes [M, K] and offsets [K].

    The prior of its coefficients is the kernel's, times the factor that makes the sums likeliest.

    Args:
        weights: Weights of the rows [n, M].
        row_weights: How much each row counts, in the sums and in the likelihood [n, 1].
        target: Sums over all rows [M, K], with noise.
        rates: Shares of the classes [K].
        strengths: Variance of each coefficient under the kernel [M].
        noise_variance: Variance of the noise of `target`, or of each of its rows [M, 1].
        share: Share of all rows that the n rows are.
    """
    size = len(weights)
    num_classes = len(rates)
    squared = np.square(weights, dtype=np.float32)
    squares = squared.mean(0, dtype=np.float64)
    if not (seen := squares > 0).all():  # sums of weights that are 0 are noise alone
        slopes = np.zeros((len(seen), num_classes))
        noise = np.broadcast_to(noise_variance, (len(seen), 1))[seen]
        rest: Any = {"strengths": strengths[seen], "noise_variance": noise, "share": share}
        found = fit_logistic(weights[:, seen], row_weights, target[seen], rates, **rest)
        slopes[seen], offsets = found
        return slopes, offsets
    prior = strengths / strengths.sum() / squares
    weighted = (row_weights * squared).mean(0, dtype=np.float64)
    twice = (row_weights * row_weights * squared).mean(0, dtype=np.float64)
    rows = row_weights.sum(dtype=np.float64)
    # Of a sum over all rows: what its labels' own chance adds to its variance, and its slope.
    variance = rates * (1 - rates)
    chance = size / share * twice[:, None] * variance
    curvature = size / share * weighted[:, None] * variance
    slopes = (size / share * weighted[:, None] * rates) ** 2 * (
        (1 - rates) ** 2 + np.square(rates).sum() - rates**2
    )
    sums = (row_weights * weights).sum(0, dtype=np.float64)
    found = (target / share - (sums / share)[:, None] * rates) ** 2

    def evidence(factor: float) -> float:
        spread = chance + noise_variance + factor * prior[:, None] * slopes
        return -float((np.log(spread) + found / spread).sum())

    factor = max(np.geomspace(1e-3, 1e4, 71), key=evidence)
    # Noise in a sum weakens it by as much as a stronger prior would.
    penalty = share / (factor * prior[:, None]) * (chance / curvature + noise_variance / curvature)
    scale = 1 / np.sqrt(share * curvature + penalty)
    offsets = 1 / np.sqrt(rows * variance)

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        whitened, shifts = np.split(point, [target.size])
        inner = whitened.reshape(target.shape) * scale
        shift = shifts * offsets + np.log(rates)
        logits = weights @ inner.astype(np.float32) + shift.astype(np.float32)
        normalizer = logsumexp(logits, axis=1, keepdims=True)
        chances = row_weights * np.exp(logits - normalizer)
        value = (row_weights * normalizer).sum(dtype=np.float64) - (target * inner).sum()
        value -= rows * rates @ shift
        value += (penalty * inner**2).sum() / 2
        slope = (weights.T @ chances - target + penalty * inner) * scale
        offset = (chances.sum(0, dtype=np.float64) - rows * rates) * offsets
        return float(value), np.concatenate([slope.ravel(), offset])

    start = np.zeros(target.size + num_classes)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _MOST_STEPS})
    inner, shifts = np.split(best.x, [target.size])
    return inner.reshape(target.shape) * scale, shifts * offsets + np.log(rates)


#: Axes of the arrays of a question: columns and ranks, knots, landmarks, functions.
ARRAY_AXES = {
    "scales": "2D",
    "knots": "QD",
    "landmarks": "LR",
    "projection": "LM",
    "slopes": "RM",
    "strengths": "M",
    "width": "",
    "longest": "",
    "units": "M",
    "mixing": "MM",
    "totals": "M",
}

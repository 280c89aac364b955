"""Directions for label sums of a table in NumPy, packed, and the way to read the answer.

The party that has the features asks for sums of labels along smooth functions of them
(`LabelMoments`), and learns a smooth function from the answer. Here are the functions: the
strongest of a Gaussian kernel between rows and some landmarks among them. Each column of numbers
counts as itself and as its rank, so that heavy tails neither dominate nor vanish. Noise goes into
one sum per function and class, and Bayes' rule under the kernel's own prior says how far each sum
is trusted. Everything in this module is public: labels have no part in it.

The functions are learned from a sample of the rows, so that a million rows take one pass. What was
asked, entry by entry, are the packed weights; `SumQuestion` holds what the answer needs.

>>> rows = np.random.default_rng(0).normal(size=(500, 3))
>>> weights, question = SumQuestion.asked(rows, count=40, seed=0)
>>> weights.shape, weights.dtype
((500, 40), dtype('int8'))
>>> sums = (weights * question.units).T @ np.eye(2)[(rows[:, 0] > 0).astype(int)]
>>> scores = question.scores(rows, sums, noise_std=1e-3)
>>> bool(np.mean((scores[:, 1] > 0.5) == (rows[:, 0] > 0)) > 0.95)
True
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from labeldp.mechanisms import _validate

Floats = NDArray[np.float32]

#: Rows from which the functions are learned, and landmarks among them for each function.
_SAMPLE, _LANDMARKS = 20_000, 1.5
_KNOTS = 129
#: Squared width of the kernel in units of the median squared distance.
_WIDTH = 4.0
#: Standard deviations at which a number is clipped.
_CLIPPED = 4.0
#: Directions below this share of the strongest one are numerical noise.
_LEAST_SHARE = 1e-7
#: As in `priors`: more of the labels lies along the queried directions than along an average one,
#: and rows with more leverage than this share of all rows are shortened.
_SMOOTHNESS, _KEPT_WHOLE = 10.0, 0.9
#: Most functions, and the noise that an average score may have: more functions are drowned by it.
_MOST_FUNCTIONS, _TOLERATED = 400, 0.05
_ROWS_AT_ONCE = 8192
#: Weights are whole numbers of half a byte. That they are coarse costs little: both parties know
#: them exactly, and the answer is read with what was asked.
_LARGEST = 7


def worthwhile(*, rows: int, noise_std: float) -> int:
    """Return how many functions of N rows to ask about, at this noise of a sum.

    With M functions a sum along one of them has a share 1 / sqrt(M) of each row, and a score has
    the noise of M of them.
    """
    _validate.positive(noise_std=noise_std)
    tolerated = int(_TOLERATED * rows / noise_std)
    return max(2, min(tolerated, _MOST_FUNCTIONS))


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothFunctions:
    """M functions of rows [N, D], of mean square 1 on the rows of the sample, the smoothest first.

    Attributes:
        knots: Quantiles of each column of numbers [Q, D]; a column of two values has NaN.
        landmarks: Rows between which the kernel measures, described by `_described` [L, D'].
        width: Squared width of the kernel.
        projection: From the kernel's values at the landmarks to the functions [L, M].
        strengths: Share of the kernel along each function [M].
    """

    knots: Floats
    landmarks: Floats
    width: float
    projection: Floats
    strengths: NDArray[np.float64]

    @classmethod
    def learned(cls, rows: NDArray[np.floating], *, count: int, seed: int) -> Self:
        """Find the `count` strongest functions (or fewer) of standardized rows [N, D]."""
        _validate.whole(count=count, minimum=1)
        generator = np.random.default_rng(seed)
        sample = rows[np.sort(generator.permutation(len(rows))[:_SAMPLE])].astype(np.float32)
        knots = _knots(sample)
        described = _described(sample, knots)
        chosen = generator.permutation(len(described))[: max(2, int(_LANDMARKS * count))]
        landmarks = described[chosen]
        distances = _squared_distances(landmarks, landmarks)
        width = _WIDTH * max(float(np.median(distances)), 1e-30)
        between, turned = eigh(np.exp(-distances / width).astype(np.float64))
        kept = between > _LEAST_SHARE * between[-1]
        root = (turned[:, kept] / np.sqrt(between[kept])).astype(np.float32)
        embedded = np.exp(-_squared_distances(described, landmarks) / width) @ root
        strengths, rotation = eigh((embedded.T @ embedded).astype(np.float64))
        strengths, rotation = strengths[::-1][:count], rotation[:, ::-1][:, :count]
        strong = strengths > _LEAST_SHARE * strengths[0]
        scale = np.sqrt(len(sample) / strengths[strong])
        return cls(
            knots=knots,
            landmarks=landmarks,
            width=width,
            projection=(root @ (rotation[:, strong] * scale)).astype(np.float32),
            strengths=strengths[strong],
        )

    def __call__(self, rows: NDArray[np.floating]) -> Floats:
        """Return the values of the functions [N, M] at rows [N, D]."""
        values = np.empty((len(rows), len(self.strengths)), np.float32)
        for some in _blocks(len(rows)):
            distances = _squared_distances(_described(rows[some], self.knots), self.landmarks)
            values[some] = np.exp(distances / -self.width) @ self.projection
        return values


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS_AT_ONCE) for start in range(0, count, _ROWS_AT_ONCE))


def _knots(rows: Floats) -> Floats:
    """Quantiles of the columns [Q, D]; NaN for those of two values, whose rank adds nothing."""
    knots = np.quantile(rows, np.linspace(0, 1, _KNOTS), axis=0).astype(np.float32)
    two = ((rows == rows.min(0)) | (rows == rows.max(0))).all(0)
    knots[:, two] = np.nan
    return knots


def _described(rows: NDArray[np.floating], knots: Floats) -> Floats:
    """Rows [N, D] clipped, and beside them the ranks of their numbers, of variance 1."""
    plain = np.clip(rows, -_CLIPPED, _CLIPPED, dtype=np.float32)
    ranked = np.flatnonzero(~np.isnan(knots[0]))
    places = np.linspace(-np.sqrt(3), np.sqrt(3), len(knots))
    ranks = [np.interp(rows[:, column], knots[:, column], places) for column in ranked]
    return np.column_stack([plain, *ranks]).astype(np.float32)


def _squared_distances(some: Floats, others: Floats) -> Floats:
    products = some @ others.T
    found = np.square(some).sum(1)[:, None] + np.square(others).sum(1) - 2 * products
    return np.asarray(np.maximum(found, 0), np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class SumQuestion:
    """A question about labels, along coarse weights [N, M], and the way to read its answer.

    Entry (i, j) of the weights is a number in -7..7 times `units[j]`. Apart from the landmarks of
    the functions, nothing here is about single rows.

    Attributes:
        functions: Those that the weights pack.
        units: Of each direction [M].
        mixing: Of the functions into the sums: weights^T @ values [M, M].
        totals: Sums of the weights over all rows [M].
    """

    functions: SmoothFunctions
    units: Floats
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
        sample = functions(rows[np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(int)])
        long = float(np.quantile(np.linalg.norm(sample, axis=1), _KEPT_WHOLE))
        units = np.maximum(np.abs(sample).max(0) / long / _LARGEST, 1e-12).astype(np.float32)
        width = len(units)
        weights = np.empty((len(rows), width), np.int8)
        mixing, totals = np.zeros((width, width)), np.zeros(width)
        for some in _blocks(len(rows)):
            values = functions(rows[some])
            lengths = np.maximum(np.linalg.norm(values, axis=1), long)
            # Rounded towards 0, which shortens a row.
            whole = np.trunc(values / (lengths[:, None] * units))
            weights[some] = whole = np.clip(whole, -_LARGEST, _LARGEST)
            mixing += (whole * units).T @ values
            totals += (whole * units).sum(0, dtype=np.float64)
        return weights, cls(functions=functions, units=units, mixing=mixing, totals=totals)

    def scores(
        self, rows: NDArray[np.floating], sums: NDArray[np.floating], *, noise_std: float
    ) -> NDArray[np.float32]:
        """Return the posterior mean of the one-hot labels [N, K] of rows [N, D].

        `sums` [M, K] are noisy sums of one-hot labels along the weights, `noise_std` the noise of
        each.
        """
        mean, strengths = 1 / sums.shape[1], self.functions.strengths
        variance = mean * (1 - mean) * _SMOOTHNESS * strengths / strengths.sum()
        normal = self.mixing.T @ self.mixing + np.diag(noise_std**2 / variance)
        known = np.asarray(sums, np.float64) - mean * self.totals[:, None]
        coefficients = np.linalg.solve(normal, self.mixing.T @ known).astype(np.float32)
        found = np.empty((len(rows), sums.shape[1]), np.float32)
        for some in _blocks(len(rows)):
            found[some] = self.functions(rows[some]) @ coefficients + np.float32(mean)
        return found

    def no_longer_than_one(self, weights: NDArray[np.int8]) -> tuple[Floats, float]:
        """Return weights [N, M] as `LabelMoments` takes them, and the length they are divided by.

        The longest row decides, whoever made the weights.
        """
        squared = np.square(self.units, dtype=np.float64)
        longest = max(
            float((np.square(weights[some], dtype=np.float64) @ squared).max())
            for some in _blocks(len(weights))
        )
        # A little more, for single precision: no row is longer than 1 then.
        length = float(np.float32(np.sqrt(longest) * (1 + 1e-6)))
        if not (length > 0 and np.isfinite(length)):
            raise ValueError(
                f"the longest row of the directions has length {length:g}; it must be above 0 and "
                "finite"
            )
        return weights * (self.units / np.float32(length)), length

    def soft_labels(
        self,
        rows: NDArray[np.floating],
        sums: NDArray[np.floating],
        *,
        noise_std: float,
        length: float,
    ) -> NDArray[np.float64]:
        """Return soft labels [N, K] of rows [N, D] from what `LabelMoments` released [M, K]."""
        return soft_labels_of(self.scores(rows, sums * length, noise_std=noise_std * length))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it as arrays by name, for a file."""
        own = {name: getattr(self, name) for name in ("units", "mixing", "totals")}
        return {**vars(self.functions), **own, "width": np.array(self.functions.width)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the question that `arrays` were taken of; refuse shapes that do not fit."""
        known = {name: np.asarray(arrays[name]) for name in _SHAPES}
        sizes: dict[str, int] = {}
        for name, axes in _SHAPES.items():
            found = known[name].shape
            fits = len(found) == len(axes) and known[name].dtype.kind == "f"
            if not fits or any(
                sizes.setdefault(a, n) != n for a, n in zip(axes, found, strict=True)
            ):
                raise ValueError(f"{name} has shape {found}, which does not fit the other arrays")
        own = {name: known.pop(name) for name in ("units", "mixing", "totals")}
        width = float(known.pop("width"))
        return cls(functions=SmoothFunctions(**known, width=width), **own)


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
    found[:, ::2], found[:, 1::2] = stored >> 4, stored & 15
    found -= np.int8(8)
    return found[:, :width]


def soft_labels_of(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return probabilities [N, K] of noisy scores [N, K] that keep the mean of every class.

    Scores of a rare class are noise around 0. To clip what is below 0 would add to the class, so
    a threshold is taken off each class first, by which the clipped scores have the mean of the
    scores again.
    """
    centered = scores - (scores.sum(1, keepdims=True) - 1) / scores.shape[1]
    found = np.empty(scores.shape)
    for column, one in enumerate(centered.T.astype(np.float64)):
        mean, low, high = min(max(float(one.mean()), 0.0), 1.0), -1.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            if np.clip(one - middle, 0, 1).mean() > mean:
                low = middle
            else:
                high = middle
        found[:, column] = np.clip(one - high, 0, 1)
    sums = found.sum(1, keepdims=True)
    shares: NDArray[np.float64] = found / np.maximum(sums, 1e-12)
    shares[sums[:, 0] <= 0] = 1 / scores.shape[1]
    return shares


#: Axes of the arrays of a question: columns and ranks, knots, landmarks, functions.
_SHAPES = {
    "knots": "QD",
    "landmarks": "LR",
    "projection": "LM",
    "strengths": "M",
    "width": "",
    "units": "M",
    "mixing": "MM",
    "totals": "M",
}

"""Smooth functions of the rows of a table, found without labels: the strongest of a kernel.

The kernel is Gaussian between rows and some landmarks among them, and a little linear. Each column
of numbers counts as itself and as its rank, so that heavy tails neither dominate nor vanish. The
functions are learned from a sample of the rows, so that a million rows take one pass.

>>> rows = np.random.default_rng(0).normal(size=(500, 3))
>>> functions = SmoothFunctions.learned(rows, count=40, seed=0)
>>> functions(rows).shape
(500, 40)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from labeldp.trainers.data.stored import Stored
from labeldp.trainers.performance import one_blas_thread

Floats = NDArray[np.float32]

#: Rows from which the functions are learned.
SAMPLE = 20_000
#: Landmarks for each function, and quantiles of a column.
_LANDMARKS = 1.5
KNOTS = 129
#: Squared width of the Gaussian kernel in units of the median squared distance, and the mean of the
#: linear kernel on its diagonal, where the Gaussian one is 1: on `conversions` linear models learn
#: as much then as from true labels, and Adult is as without a linear kernel.
_WIDTH = 4.0
_LINEAR = 0.3
#: Standard deviations at which a number is clipped.
CLIPPED = 4.0
#: Directions below this share of the strongest one are numerical noise.
_LEAST_SHARE = 1e-7
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothFunctions(Stored):
    """M functions of rows [N, D], of mean square 1 on the rows of the sample, the smoothest first.

    Attributes:
        scales: Mean and standard deviation of each column [2, D]; of one with two values the
            smaller and their distance, since a rare category would outweigh all numbers otherwise.
        knots: Quantiles of each column in these units [Q, D]; NaN for those of two values.
        landmarks: Rows between which the kernel measures, described by `_described` [L, D'].
        width: Squared width of the kernel.
        projection: From the Gaussian kernel at the landmarks to the functions [L, M].
        slopes: From a row, described likewise, to the functions [D', M].
        strengths: Share of the kernel along each function [M].
    """

    kind: ClassVar[str] = "smooth_functions"

    scales: Floats
    knots: Floats
    landmarks: Floats
    width: float
    projection: Floats
    slopes: Floats
    strengths: NDArray[np.float64]

    @classmethod
    def learned(cls, rows: NDArray[np.floating], *, count: int, seed: int) -> Self:
        """Find the `count` strongest functions (or fewer) of rows [N, D]."""
        generator = np.random.default_rng(seed)
        sample = rows[np.sort(generator.permutation(len(rows))[:SAMPLE])].astype(np.float32)
        scales = _scales(sample)
        knots = np.quantile(
            (sample - scales[0]) / scales[1], np.linspace(0, 1, KNOTS), axis=0
        ).astype(np.float32)
        knots[:, of_two_values(sample)] = np.nan
        described = _described(sample, scales, knots)
        chosen = generator.permutation(len(described))[: max(2, int(_LANDMARKS * count))]
        landmarks = described[chosen]
        distances = _squared_distances(landmarks, landmarks)
        width = _WIDTH * max(float(np.median(distances)), 1e-30)
        between, turned = _eigh(np.exp(-distances / width))
        kept = between > _LEAST_SHARE * between[-1]
        root = (turned[:, kept] / np.sqrt(between[kept])).astype(np.float32)
        linear = np.float32(np.sqrt(_LINEAR / max(np.square(described).sum(1).mean(), 1e-30)))
        gaussian = np.exp(-_squared_distances(described, landmarks) / width) @ root
        embedded = np.hstack([gaussian, linear * described])
        strengths, rotation = _eigh(embedded.T @ embedded)
        strengths = strengths[::-1][:count]
        rotation = rotation[:, ::-1][:, :count]
        strong = strengths > _LEAST_SHARE * strengths[0]
        turned = rotation[:, strong] * np.sqrt(len(sample) / strengths[strong])
        of_kernel, of_row = np.split(turned.astype(np.float32), [root.shape[1]])
        return cls(
            scales=scales,
            knots=knots,
            landmarks=landmarks,
            width=width,
            projection=root @ of_kernel,
            slopes=linear * of_row,
            strengths=strengths[strong],
        )

    def __call__(self, rows: NDArray[np.floating]) -> Floats:
        """Return the values of the functions [N, M] at rows [N, D]."""
        values = np.empty((len(rows), len(self.strengths)), np.float32)
        for some in blocks(len(rows)):
            described = _described(rows[some], self.scales, self.knots)
            distances = _squared_distances(described, self.landmarks)
            values[some] = np.exp(distances / -self.width) @ self.projection
            values[some] += described @ self.slopes
        return values


def blocks(count: int) -> Iterator[slice]:
    """Yield slices of N rows that fit into memory at once."""
    return (slice(start, start + _ROWS_AT_ONCE) for start in range(0, count, _ROWS_AT_ONCE))


def of_two_values(rows: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Tell which columns of rows [N, D] have two values at most [D]."""
    return np.asarray(((rows == rows.min(0)) | (rows == rows.max(0))).all(0))


def _eigh(matrix: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # Of some hundred rows: two threads are no faster, and on a busy machine 60 times as slow.
    with one_blas_thread():
        values, vectors = linalg.eigh(matrix.astype(np.float64))
    return values, vectors


def _scales(rows: Floats) -> Floats:
    two = of_two_values(rows)
    low = rows.min(0)
    scale = np.where(two, rows.max(0) - low, rows.std(0))
    center = np.where(two, low, rows.mean(0))
    return np.stack([center, np.where(scale > 0, scale, 1)]).astype(np.float32)


def _described(rows: NDArray[np.floating], scales: Floats, knots: Floats) -> Floats:
    """Rows [N, D] in their units, clipped, and beside them ranks of variance 1."""
    scaled = ((rows - scales[0]) / scales[1]).astype(np.float32)
    ranked = np.flatnonzero(~np.isnan(knots[0]))
    places = np.linspace(-np.sqrt(3), np.sqrt(3), len(knots))
    ranks = [np.interp(scaled[:, column], knots[:, column], places) for column in ranked]
    return np.column_stack([np.clip(scaled, -CLIPPED, CLIPPED), *ranks]).astype(np.float32)


def _squared_distances(some: Floats, others: Floats) -> Floats:
    products = some @ others.T
    found = np.square(some).sum(1)[:, None] + np.square(others).sum(1) - 2 * products
    return np.asarray(np.maximum(found, 0), np.float32)

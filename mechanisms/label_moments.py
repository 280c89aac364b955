"""Weighted sums of one-hot labels plus Gaussian noise: what a linear model needs of secret labels.

Features are public in label privacy, so a regression of the labels on them touches the labels in
the products weights^T @ one_hot(labels) only: M numbers per class, however many examples there are.
Noise that would drown a single label is small beside sums over all of them. `ClusterHistograms` is
the special case in which every row of the weights is a unit vector.

>>> mechanism = LabelMoments(noise_std=0.1, num_classes=2)
>>> weights = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
>>> moments = mechanism.release(np.array([0, 0, 1]), weights, generator=np.random.default_rng(7))
>>> moments.shape, round(float(mechanism.event.noise_multiplier), 4)
((2, 2), 0.0707)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, Array, as_numpy, like
from labeldp.mechanisms.accounting import GaussianMechanism
from labeldp.mechanisms.randomness import (
    LATTICE,
    AnyGenerator,
    DrawnExactly,
    SecureGenerator,
    as_noise_generator,
    normal,
    on_lattice,
)

#: Rows of norm 1 in single precision are a little longer in double; they are scaled down by it.
ROUNDING = 1e-6
_BLOCK_ROWS = 1 << 14


@dataclass(frozen=True, kw_only=True)
class LabelMoments(GaussianMechanism, DrawnExactly):
    """weights^T @ one_hot(labels) plus Gaussian noise, weights [N, M] public with short rows.

    A substituted label moves the sums by its row of the weights twice, once away and once back
    in: by sqrt(2) at most in L2, since no row is longer than 1.
    """

    failure_probability: ClassVar[float] = 0.0

    def release(self, labels: AnyArray, weights: Array, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy moments, once: sums [M, K] in float64.

        The weights [N, M] must be made without labels, no row longer than 1 (up to `ROUNDING`).
        """
        exact = _validate.labels(labels, num_classes=self.num_classes, secret=True)
        one_hot = np.eye(self.num_classes)
        noisy = noisy_sums(
            lambda rows: one_hot[exact[rows]],
            as_numpy(weights),
            num_labels=len(exact),
            noise_std=self.noise_std,
            generator=generator,
        )
        return like(noisy, labels)


def noisy_sums(
    contributions: Callable[[slice], NDArray[np.float64]],
    weights: NDArray[Any],
    *,
    num_labels: int,
    noise_std: float,
    generator: AnyGenerator,
) -> NDArray[np.float64]:
    """Return weights^T @ contributions plus Gaussian noise [M, C], drawn exactly if secret.

    `contributions` returns those of some rows [n, C], whole numbers.
    """
    _check_weights(weights, num_labels=num_labels)
    rng = as_noise_generator(generator)
    secure = isinstance(rng, SecureGenerator)
    sums = np.zeros(())
    # By blocks: all weights in double precision may not fit into memory.
    for block in _validate.blocks(num_labels, 1, entries=_BLOCK_ROWS):
        rows = weights[block].astype(np.float64)
        part = (_on_lattice(rows) if secure else rows).T
        sums = sums + part @ contributions(block)
    if isinstance(rng, SecureGenerator):
        exact: NDArray[np.float64] = sums / LATTICE
        return exact + on_lattice(normal, rng, scale=noise_std, shape=exact.shape)
    # A row may be longer than 1 by rounding; divided, none moves the sums by more than 1.
    noisy: NDArray[np.float64] = sums / (1 + ROUNDING)
    return noisy + rng.normal(scale=noise_std, size=noisy.shape)


def rows_too_long(weights: NDArray[Any]) -> NDArray[np.intp]:
    """Return which rows [N, M] a release refuses: longer than 1 + `ROUNDING`, or not finite."""
    squares = np.empty(len(weights))
    # A copy of all in double would be large.
    for block in _validate.blocks(len(weights), 1, entries=_BLOCK_ROWS):
        rows = weights[block].astype(np.float64)
        squares[block] = np.einsum("ij,ij->i", rows, rows)
    # NaN is not below anything: what is not finite is caught here too.
    return np.flatnonzero(~(squares <= (1 + ROUNDING) ** 2))


def _on_lattice(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows in whole multiples of 1 / LATTICE, each of them no longer than before and than 1.

    Rounding towards 0 shortens. Sums of whole numbers below 2^53 are exact in double precision, in
    whatever order: eight billion labels have room, and a substituted one moves them by its row.
    """
    steps: NDArray[np.float64] = rows * (LATTICE / (1 + 2 * ROUNDING))
    np.trunc(steps, out=steps)
    # Exact too: squares and their sums are whole, and below 2^53 as long as rows are short.
    if not (np.einsum("ij,ij->i", steps, steps) <= LATTICE**2).all():
        raise ArithmeticError(
            "a row is longer than 1 after rounding; nothing was released: this is a fault of "
            "labeldp, please report it"
        )
    return steps


def _check_weights(weights: NDArray[Any], *, num_labels: int) -> None:
    if weights.ndim != 2 or weights.shape[1] == 0:
        raise ValueError(f"weights has shape {weights.shape}; it must be [N, M], M at least 1")
    _validate.same_length(weights=len(weights), labels=num_labels)
    bad = rows_too_long(weights)
    if bad.size:
        length = float(np.linalg.norm(weights[bad[0]].astype(np.float64)))
        # In full: a row that is too long by rounding would seem to have length 1.
        raise ValueError(
            f"weights row {bad[0]} has length {length:.9g}; the noise is made for rows of length "
            f"at most 1, and {ROUNDING:g} more for rounding: shorten longer rows before the release"
        )

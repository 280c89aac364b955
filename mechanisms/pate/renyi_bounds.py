"""From the probability of a surprise to Renyi divergence: PATE's data-dependent bounds.

When an answer is almost certain, it says little about any single vote. Both bounds here turn
log q, an upper bound on the log probability of any answer but the most likely one, into a curve

    rdp(order) = min(ceiling(order), log(exp(a + t A) + exp(b + t B)) / t),   t = order - 1,

where the ceiling holds for any votes. Gaussian noise: Papernot et al., "Scalable Private Learning
with PATE", ICLR 2018 (arXiv:1802.08908), Theorem 6 with the parameters of Proposition 10. Laplace
noise: Papernot et al., ICLR 2017 (arXiv:1610.05755), Theorem 3, with its condition as in 2018.

A curve depends on a query through log q alone, so equal ones are computed once. The bound holds
below some order only; sorted by log q, the entries that need computing fill a rectangle per block
of rows, small enough for the processor's cache.

>>> rdp_gnmax([-20.0, -0.1], noise_std=40.0, orders=[2.0, 100.0]).round(6)
array([[0.      , 0.023274],
       [0.00125 , 0.0625  ]])
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.mechanisms import _validate

Floats = NDArray[np.float64]

#: Entries of a block: 16,384 doubles and their like stay in a core's second-level cache.
_BLOCK_ENTRIES = 16_384
#: exp() of more than this overflows; such blocks take the slower way.
_LARGE_EXPONENT = 700.0
#: A probability below this is charged as this much: dearer, and finite.
_TINY = 1e-300


def log1mexp(x: Floats) -> Floats:
    """log(1 - exp(x)) for x <= 0, accurate at both ends; -inf at 0."""
    with np.errstate(divide="ignore"):
        near = np.log(-np.expm1(np.maximum(x, -1.0)))
    result: Floats = np.where(x > -math.log(2), near, np.log1p(-np.exp(x)))
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class RenyiCurves:
    """Renyi curves of U kinds of query, each given by the five numbers of the module's formula.

    Attributes:
        head: a, [U].
        head_slope: A, [U].
        tail: b, [U].
        tail_slope: B, [U].
        reach: The formula holds for orders strictly below this, [U]; elsewhere the ceiling does.
        ceiling_slope: The ceiling is min(ceiling_slope * order, ceiling_cap).
        ceiling_cap: `inf` where there is none.
    """

    head: Floats
    head_slope: Floats
    tail: Floats
    tail_slope: Floats
    reach: Floats
    ceiling_slope: float
    ceiling_cap: float = math.inf

    def __len__(self) -> int:
        """U."""
        return len(self.head)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "RenyiCurves":
        """Return the curves at `index`."""
        return RenyiCurves(
            head=self.head[index],
            head_slope=self.head_slope[index],
            tail=self.tail[index],
            tail_slope=self.tail_slope[index],
            reach=self.reach[index],
            ceiling_slope=self.ceiling_slope,
            ceiling_cap=self.ceiling_cap,
        )

    def ceiling(self, orders: Floats) -> Floats:
        """The bound that holds whatever the votes are [A]."""
        return np.minimum(self.ceiling_slope * orders, self.ceiling_cap)

    def _blocks(self, orders: Floats) -> Iterator[tuple[slice, Floats, int]]:
        """Yield (rows, values [rows, C], C): beyond the first C ascending orders, the ceiling."""
        ceiling = self.ceiling(orders)
        steps = orders - 1
        below = np.searchsorted(orders, self.reach, side="left")
        slope = self.tail_slope - self.head_slope
        gap = self.tail - self.head
        height = max(1, _BLOCK_ENTRIES // len(orders))
        buffer = np.empty((height, len(orders)))
        for start in range(0, len(self), height):
            rows = slice(start, min(start + height, len(self)))
            counts = below[rows]
            widest, narrowest = int(counts.max()), int(counts.min())
            values = buffer[: len(counts), :widest]
            np.multiply(slope[rows, None], steps[:widest], out=values)
            values += gap[rows, None]
            # log(e^u + e^v) = u + log1p(e^(v - u)); `values` is v - u
            if widest and values.max() > _LARGE_EXPONENT:
                values[:] = np.logaddexp(0.0, values)
            else:
                np.exp(values, out=values)
                np.log1p(values, out=values)
            values += self.head[rows, None]
            values /= steps[:widest]
            values += self.head_slope[rows, None]
            np.maximum(values, 0.0, out=values)
            np.minimum(values, ceiling[:widest], out=values)  # twenty times faster than np.clip
            if narrowest < widest:
                strip = values[:, narrowest:]
                outside = np.arange(narrowest, widest) >= counts[:, None]
                np.copyto(strip, ceiling[narrowest:widest], where=outside)
            yield rows, values, widest

    def rows(self, orders: Floats) -> Floats:
        """Return every curve at ascending `orders` [U, A]."""
        result = np.empty((len(self), len(orders)))
        ceiling = self.ceiling(orders)
        for rows, values, width in self._blocks(orders):
            result[rows, :width] = values
            result[rows, width:] = ceiling[width:]
        return result

    def weighted_sums(self, weights: Floats, orders: Floats) -> Floats:
        """Return weights [M, U] times curves [U, A] at ascending `orders`: [M, A]."""
        result = np.zeros((len(weights), len(orders)))
        ceiling = self.ceiling(orders)
        for rows, values, width in self._blocks(orders):
            part = weights[:, rows]
            result[:, :width] += part @ values
            if width < len(orders):
                result[:, width:] += part.sum(1)[:, None] * ceiling[width:]
        return result


def gaussian_curves(log_q: Floats, noise_std: float) -> RenyiCurves:
    """Curves of an argmax over counts with Gaussian noise of `noise_std` on each, at log q [U]."""
    precision = noise_std**-2.0
    certain = np.isneginf(log_q)
    finite = np.where(certain, -1.0, log_q)
    # Proposition 10: mu2 = s sqrt(log 1/q), mu1 = mu2 + 1, eps_i = mu_i / s^2
    mu2 = noise_std * np.sqrt(-finite)
    # Both need mu2 > 1: Theorem 6 itself, and log 1/q > eps2 (they coincide for these parameters).
    usable = mu2 > 1
    mu2_safe = np.where(usable, mu2, 2.0)
    log_bound = (mu2_safe - 1) * mu2_safe * precision - mu2_safe * np.log1p(2 / (mu2_safe - 1))
    usable &= finite <= log_bound
    head = np.where(usable, np.log1p(-np.exp(finite)) if usable.any() else 0.0, 0.0)
    exponent = np.where(usable, (finite + mu2_safe * precision) * (1 - 1 / mu2_safe), -1.0)
    head_slope = np.where(usable, head - log1mexp(exponent), 0.0)
    return RenyiCurves(
        head=np.where(certain, 0.0, head),
        head_slope=np.where(certain, 0.0, head_slope),
        tail=np.where(certain, -np.inf, finite),
        tail_slope=np.where(usable & ~certain, (2 * mu2_safe + 1) * precision, 0.0),
        reach=np.where(certain, np.inf, np.where(usable, mu2 + 1, 0.0)),
        ceiling_slope=precision,
    )


def laplace_curves(log_q: Floats, scale: float) -> RenyiCurves:
    """Curves of an argmax over counts with Laplace noise of `scale` on each, at log q [U]."""
    epsilon = 2 / scale
    usable = log_q <= -np.logaddexp(0.0, epsilon)
    safe = np.where(usable, log_q, -1.0 - np.logaddexp(0.0, epsilon))
    head = np.log1p(-np.exp(safe))
    head_slope = head - log1mexp(safe + epsilon)
    return RenyiCurves(
        head=np.where(usable, head, 0.0),
        head_slope=np.where(usable, head_slope, 0.0),
        tail=safe,
        tail_slope=np.full(log_q.shape, epsilon),
        reach=np.where(usable, np.inf, 0.0),
        ceiling_slope=epsilon**2 / 2,
        ceiling_cap=epsilon,
    )


def constant_curves(slope: float) -> RenyiCurves:
    """One curve, slope * order, whatever the votes are."""
    zero = np.zeros(1)
    return RenyiCurves(
        head=zero,
        head_slope=zero,
        tail=zero,
        tail_slope=zero,
        reach=zero,
        ceiling_slope=slope,
    )


def log_surprise(log_p: Floats) -> Floats:
    """Log probability of the rarer outcome of a check that passes with log probability log p."""
    rarer = np.maximum(-np.expm1(log_p), _TINY)
    return np.minimum(log_p, np.log(rarer))


def checked_log_probability(values: ArrayLike, name: str) -> Floats:
    """Return log probabilities as float64 [N], or name the entry that is no log probability."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; it must be [N], at least one query")
    bad = np.flatnonzero(~(array <= 0))
    if bad.size:
        raise ValueError(
            f"{name}[{bad[0]}] is {array[bad[0]]}; the log of a probability is 0 or below"
        )
    return array


def checked_orders(orders: ArrayLike) -> Floats:
    """Return Renyi orders as float64 [A], or name the one that is out of range."""
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"orders has shape {array.shape}; it must be [A], at least one order")
    bad = np.flatnonzero(~((array > 1) & np.isfinite(array)))
    if bad.size:
        raise ValueError(
            f"orders[{bad[0]}] is {array[bad[0]]}; every Renyi order must be finite and above 1"
        )
    return array


def checked_noise(**values: float) -> None:
    """Refuse noise that is not a number, not above 0, or beyond what doubles can square."""
    for name, value in values.items():
        _validate.positive(infinity=False, **{name: value})
        _validate.between(1e-100, 1e100, **{name: value})


def distinct(log_q: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the different values, ascending [U], and where each query's is [N]."""
    values, index = np.unique(log_q, return_inverse=True)
    return values, index


def _every_row(curves: RenyiCurves, index: NDArray[np.intp], orders: Floats) -> Floats:
    ascending, back = np.unique(orders, return_inverse=True)
    table = curves.rows(ascending)
    if not np.array_equal(ascending, orders):
        table = table[:, back]
    return table[index]


def rdp_gnmax(log_q: ArrayLike, noise_std: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of GNMax's answers [N, A] (PATE 2018, Theorem 6 and Propositions 8, 10).

    Args:
        log_q: Bounds from `log_q_gaussian` [N], 0 or below.
        noise_std: Standard deviation of the noise on every count.
        orders: Renyi orders [A], above 1.

    Raises:
        ValueError: log_q above 0 or NaN, noise or orders out of range.
    """
    checked_noise(noise_std=noise_std)
    values, index = distinct(checked_log_probability(log_q, "log_q"))
    return _every_row(gaussian_curves(values, noise_std), index, checked_orders(orders))


def rdp_threshold(log_p: ArrayLike, sigma1: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of Confident-GNMax's check of the largest count [N, A] (PATE 2018, 3.2).

    The check has two outcomes and sensitivity 1: it is GNMax over two classes whose noise is
    sqrt(2) times `sigma1`, and the surprise is its rarer outcome.

    Args:
        log_p: Log probability that the check passes [N], from `log_probability_answered`.
        sigma1: Standard deviation of the noise on the largest count.
        orders: Renyi orders [A], above 1.

    Raises:
        ValueError: log_p above 0 or NaN, noise or orders out of range.
    """
    checked_noise(sigma1=sigma1)
    log_q = log_surprise(checked_log_probability(log_p, "log_p"))
    values, index = distinct(log_q)
    return _every_row(gaussian_curves(values, math.sqrt(2) * sigma1), index, checked_orders(orders))


def rdp_lnmax(log_q: ArrayLike, scale: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of LNMax's answers [N, A] (PATE 2017, Theorem 3).

    Args:
        log_q: Bounds from `log_q_laplace` [N], 0 or below.
        scale: The Laplace distribution's scale b; one answer is 2/b-DP.
        orders: Renyi orders [A], above 1.

    Raises:
        ValueError: log_q above 0 or NaN, scale or orders out of range.
    """
    checked_noise(scale=scale)
    values, index = distinct(checked_log_probability(log_q, "log_q"))
    return _every_row(laplace_curves(values, scale), index, checked_orders(orders))

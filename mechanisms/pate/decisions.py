"""Costs of PATE's decisions, which are below those of the counts that they are made of.

GNMax releases which noisy count is the largest, not the counts, and a check one bit.

**For any votes** and any number of classes docs/decision_accounting.md states a bound on their
Renyi divergences, by a function C of one number for all noise and all orders.
`tests/mechanisms/pate/decision_certificate.py` certifies its table, and has the proofs. With much
noise a decision costs .637 (check) and .641 (answer) of what its counts do. Where the table ends
(kappa above 8: order 320 at sigma 40) the price is that of the counts, which is never exceeded.

**For the votes that were cast** the decision's distribution is computed for these votes and for
every move of one vote, and the divergence is the largest over all moves, in both directions. Like
every price that depends on votes it is private. Where the noise is so small that integrals leave
doubles the price for any votes, which is never too small, stands in.

GNMax: class k wins with probability integral of phi(x - u_k) prod_{j != k} Phi(x - u_j) dx, u the
votes over the noise. A move changes the integrand by a factor that one table per class gives, so
the moved distributions of a histogram are one product of matrices over a trapezoid rule (a step of
0.2: 13 digits). Divergences are sums of terms that are not negative: nothing cancels, however much
noise there is. Threshold: two outcomes and two moves, in closed form.

Time grows as U V^3 G and does not depend on the queries or the classes: U different histograms, V
different counts in each (classes with equal counts share their outcomes and moves), G = 90 + 2.5
(spread / noise) points.

>>> decision_rdp_gnmax(240.0, [2.0, 20.0]).round(8), (np.array([2.0, 20.0]) / 240**2).round(8)
(array([2.2250e-05, 2.2236e-04]), array([3.4720e-05, 3.4722e-04]))
>>> from labeldp.mechanisms.accounting import epsilon_of
>>> run = [Decisions(noise_std=800.0, count=1000, moved=1), Decisions(noise_std=240.0, count=300)]
>>> [round(epsilon_of(events_of(run, each), delta=1e-5), 3) for each in Accounting]
[0.325, 0.376]
>>> exact_rdp_gnmax([[130, 120], [240, 10]], 40.0, [2.0, 20.0]).round(9)
array([[7.910740e-04, 7.901596e-03],
       [6.360000e-07, 2.044800e-05]])
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import (
    Floats,
    checked_counts,
    checked_noise,
    checked_orders,
    checked_votes,
    whole_maximum,
)
from labeldp.mechanisms.accounting import ORDERS, DecisionEvent, GaussianEvent

#: kappa, C(kappa) of a check, C(kappa) of an answer, as certified [105, 3].
TABLE = np.loadtxt(Path(__file__).with_name("decision_table.csv"), delimiter=",", skiprows=1)
_KAPPA, _CHECK, _ANSWER = TABLE.T
#: The most that a third derivative of log f_i along the vote's direction can be: twice its length
#: to the third power, since skewness is at most 2 where densities are log-concave.
_CHECK_THIRD = 2.0
_ANSWER_THIRD = 4 * math.sqrt(2)
_STEP = 0.2
#: Beyond this many standard deviations either side of all modes integrands vanish in doubles.
_MARGIN = 9.0
#: A factor exp(x) with x above this might leave doubles; such histograms cost what any votes do.
_LARGEST = 300.0
#: Shifts below this are expanded, since the difference of two logs would lose their digits.
_TINY = 1e-6
#: Outcomes, after all moves of all histograms, that a core computes the curves of in ten seconds.
MOST_OUTCOMES = 500_000
#: Entries of a block of curves: half a megabyte of doubles stays in a core's second-level cache.
_BLOCK_ENTRIES = 65_536
#: Below this a l is expanded, above that its exponential is taken together with the probability.
_SMALL = 1e-2
_BIG = 30.0


class Accounting(StrEnum):
    """The price of an answer or a check of PATE.

    DECISION: As what is released: the class with the largest noisy count, or one bit.
    COUNTS: As all noisy counts, the published price: for any votes that of the Gaussian mechanism,
        for given votes the bounds of PATE 2018.
    """

    DECISION = "decision"
    COUNTS = "counts"


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """A number of decisions of one kind, with noise of `noise_std` on every count.

    One vote moves so many of the noisy counts: 2 for an answer and for a check with noise on every
    class, 1 for a check of the largest count.
    """

    noise_std: float
    count: int
    moved: int = 2

    def __post_init__(self) -> None:
        checked_noise(noise_std=self.noise_std)
        _validate.whole(count=self.count)
        assert self.moved in (1, 2)

    def rdp(self, orders: ArrayLike = ORDERS) -> Floats:
        """Certified Renyi divergence of the decisions, for any votes [A]."""
        once = decision_rdp_threshold if self.moved == 1 else decision_rdp_gnmax
        return self.count * once(self.noise_std, orders)


def events_of(
    decisions: Sequence[Decisions], accounting: Accounting = Accounting.DECISION
) -> tuple[GaussianEvent, ...]:
    """Return the one event that these decisions are for every label, or none for no decisions."""
    # Squared sensitivity of all noisy counts over their variance
    precision = sum(each.moved * each.count / each.noise_std**2 for each in decisions)
    if not precision:
        return ()
    multiplier = precision**-0.5
    if accounting is Accounting.COUNTS:
        return (GaussianEvent(noise_multiplier=multiplier),)
    rdp = tuple(np.sum([each.rdp() for each in decisions], axis=0).tolist())
    orders = tuple(ORDERS.tolist())
    return (DecisionEvent(noise_multiplier=multiplier, orders=orders, rdp=rdp),)


def decision_rdp_threshold(sigma1: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of a check of one noisy count, for any votes [A].

    Certified; at most order / (2 sigma1^2), the price of the noisy count itself. It holds for a
    count that one vote moves by 1 or less: the largest count of Confident-GNMax, and the largest
    surplus over a student's guess of Interactive-GNMax.
    """
    checked_noise(sigma1=sigma1)
    checked = checked_orders(orders)
    bound = _bound(1 / sigma1, checked, np.log(_CHECK), _CHECK_THIRD)
    return np.minimum(bound, checked / (2 * sigma1**2))


def decision_rdp_gnmax(sigma2: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of the class with the largest noisy count, any votes and classes [A].

    Certified; at most order / sigma2^2, the price of all noisy counts. It also holds for a check
    with noise of `sigma2` on every count, which reveals less.
    """
    checked_noise(sigma2=sigma2)
    checked = checked_orders(orders)
    bound = _bound(1 / sigma2, checked, np.log(_ANSWER), _ANSWER_THIRD)
    return np.minimum(bound, checked / sigma2**2)


def _bound(shift: float, orders: Floats, log_table: Floats, third: float) -> Floats:
    """The formula of docs/decision_accounting.md [A]; infinite where the table ends."""
    both = orders * (orders - 1)
    kappa = shift * np.sqrt(both)
    # log C is convex in kappa, so a straight line between two nodes lies above it.
    log_c = np.interp(kappa, _KAPPA, log_table, right=np.inf)
    spread = np.sqrt(orders) + np.sqrt(orders - 1)
    remainder = third * both * shift**3 / (6 * spread**2)
    with np.errstate(over="ignore"):
        first = np.log1p(kappa**2 * np.exp(log_c))
    result: Floats = (first + remainder) / (orders - 1)
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves:
    """Renyi curves of N queries, of U kinds.

    Attributes:
        index: Kind of each query, 0..U-1 [N].
        kinds: The number U.
        compute: Maps M of the kinds [M] and ascending orders [A] to their curves [M, A].
    """

    index: NDArray[np.intp]
    kinds: int
    compute: Callable[[NDArray[np.intp], Floats], Floats]

    def rows(self, orders: ArrayLike) -> Floats:
        """Return the curve of every query [N, A]."""
        ascending, back = np.unique(checked_orders(orders), return_inverse=True)
        every = np.empty((self.kinds, len(ascending)))
        for rows in _validate.blocks(*every.shape, entries=_BLOCK_ENTRIES):
            every[rows] = self.compute(np.arange(self.kinds)[rows], ascending)
        return every[:, back][self.index]

    def total(self, weights: Floats, orders: Floats) -> Floats:
        """Sum of weights [N] times the curves at ascending orders [A]."""
        per_kind = np.bincount(self.index, weights, self.kinds)
        used = np.flatnonzero(per_kind)
        total = np.zeros(len(orders))
        for rows in _validate.blocks(len(used), len(orders), entries=_BLOCK_ENTRIES):
            total += per_kind[used[rows]] @ self.compute(used[rows], orders)
        return total

    @classmethod
    def tabulated(
        cls, index: NDArray[np.intp], kinds: int, compute: Callable[[Floats], Floats]
    ) -> "Curves":
        """Return curves that are computed for all kinds at once, by ascending orders [U, A]."""
        # Expected and realised costs of a run need the same orders.
        rows = lru_cache(maxsize=1)(lambda orders: compute(np.frombuffer(orders)))
        return cls(
            index=index, kinds=kinds, compute=lambda few, orders: rows(orders.tobytes())[few]
        )


def exact_answers(
    votes: NDArray[np.integer[Any]], noise_std: float, *, most: float = math.inf
) -> Curves:
    """Curves of GNMax's answers to votes [N, K], a kind for each different histogram.

    Where all would take more than `most` outcomes (`MOST_OUTCOMES`), those with the smallest leads
    have the curve for any votes, to which theirs are nearest.
    """
    descending = -np.sort(-votes.astype(np.int64), axis=1)
    histograms, index = np.unique(descending, axis=0, return_inverse=True)
    return Curves.tabulated(
        index.reshape(-1), len(histograms), lambda o: _answer_rows(histograms, noise_std, o, most)
    )


def exact_checks(counts: NDArray[Any], threshold: float, sigma1: float) -> Curves:
    """Curves of checks of counts [N, K], a kind for each different largest count."""
    peaks, index = np.unique(whole_maximum(counts), return_inverse=True)
    x = (peaks - threshold) / sigma1
    return Curves.tabulated(index, len(peaks), lambda o: _check_rows(x, 1 / sigma1, o))


def exact_rdp_gnmax(votes: ArrayLike, noise_std: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of GNMax's answers at these votes, the largest over all moves [N, A].

    Never above order / noise_std^2. It can exceed Theorem 6 of PATE 2018, which covers one
    direction. With spread over noise_std^2 above some hundred it is the price for any votes.
    """
    checked_noise(noise_std=noise_std)
    return exact_answers(checked_votes(votes), noise_std).rows(orders)


def _answer_rows(
    histograms: NDArray[np.int64], noise_std: float, orders: Floats, most: float
) -> Floats:
    """The same for different histograms, counts descending [U, K], at ascending orders [U, A]."""
    result = np.tile(decision_rdp_gnmax(noise_std, orders), (len(histograms), 1))
    shift = 1 / noise_std
    outcomes = 0
    # The largest leads first: rows ascend.
    for row in reversed(range(len(histograms))):
        histogram = histograms[row]
        outcomes += len(np.unique(histogram)) ** 3  # nearly M O of `_moved`
        spread = (histogram[0] - histogram[-1]) / noise_std
        # Beyond it digits run out, and the price for any votes is nearly the same.
        if outcomes <= most and shift * (spread + 2 * _MARGIN + 3 * shift) <= _LARGEST:
            result[row] = _largest(*_moved(histogram, noise_std), orders)
    # The counts themselves have this divergence, and decisions are made of counts.
    return np.minimum(result, orders / noise_std**2)


def _moved(histogram: NDArray[np.int64], noise_std: float) -> tuple[Floats, Floats]:
    """Log probabilities of outcomes [M, O], and what each move adds to them [M, O].

    Classes with equal counts are one outcome as far as they are not in the move: with V different
    counts there are O = V + 2 outcomes, the classes that lose and gain the vote coming last, and
    M <= V^2 moves that differ.
    """
    counts, times = np.unique(histogram, return_counts=True)
    same = np.eye(len(counts), dtype=np.bool_)
    loses, gains = np.nonzero((counts > 0)[:, None] & (~same | (times > 1)))
    behind = (counts - counts[-1]) / noise_std
    shift = 1 / noise_std
    x = np.arange(behind[0] / 2 - _MARGIN - shift, _MARGIN + shift + _STEP, _STEP)
    z = x - behind[:, None]  # [V, G]
    log_cdf = log_ndtr(z)
    log_mass = times @ log_cdf - log_cdf - z**2 / 2
    largest = log_mass.max(axis=1, keepdims=True)
    mass = np.exp(log_mass - largest)  # [V, G], scaled so that rare classes keep their digits
    total = mass.sum(axis=1)
    log_base = np.log(total) + largest[:, 0]
    log_base -= np.logaddexp.reduce(log_base + np.log(times))
    lost = _log_change(z, shift)[loses]  # [M, G]
    gained = _log_change(z, -shift)[gains]
    tilts = (
        (loses, -shift * z[loses] - shift**2 / 2 + gained),
        (gains, shift * z[gains] - shift**2 / 2 + lost),
    )

    def means(function: Callable[[Floats], Floats]) -> Floats:
        """Mean over each outcome's mass of a function of the factor's logarithm [M, O]."""
        others = function(lost + gained) @ mass.T / total
        own = [(function(tilt) * mass[who]).sum(axis=1) / total[who] for who, tilt in tilts]
        return np.column_stack([others, *own])

    change = means(np.expm1)
    log_ratio = np.log1p(np.maximum(change, -0.5))
    if (change < -0.5).any():  # there the factor itself keeps the digits
        log_ratio = np.where(change < -0.5, np.log(np.maximum(means(np.exp), 1e-300)), log_ratio)
    left = times - same[loses].astype(np.float64) - same[gains]
    with np.errstate(divide="ignore"):  # no class of that count is left
        others = log_base + np.log(np.maximum(left, 0.0))
    return np.column_stack([others, log_base[loses], log_base[gains]]), log_ratio


def _log_change(x: Floats, shift: float) -> Floats:
    """Log Phi(x + shift) - log Phi(x)."""
    log_cdf = log_ndtr(x)
    if abs(shift) > _TINY:
        return np.asarray(log_ndtr(x + shift) - log_cdf)
    slope = np.exp(-(x**2) / 2 - log_cdf) / math.sqrt(2 * math.pi)
    return np.asarray(shift * slope * (1 - shift * (x + slope) / 2))


def _largest(log_base: Floats, log_ratio: Floats, orders: Floats) -> Floats:
    """Largest divergence between a distribution and the moved ones, either way [A].

    Log probabilities and what each move adds to them are [M, O].
    """
    best = np.zeros(len(orders))
    for below, ratio in ((log_base + log_ratio, -log_ratio), (log_base, log_ratio)):
        np.maximum(best, _excess_sums(below, ratio, orders).max(axis=0), out=best)
    return np.asarray(np.log1p(best) / (orders - 1))


def _excess_sums(log_below: Floats, log_ratio: Floats, orders: Floats) -> Floats:
    """sum_k q_k (r_k^a - a r_k + a - 1) = sum_k q_k r_k^a - 1 of distributions [M, O]: [M, A].

    r_k is the probability in the distribution above over q_k, below; orders a are [A].
    """
    # The sum is tiny beside its terms: without 1 - a r + a - 1 taken out term by term it would be
    # rounding error.
    below = np.exp(log_below)
    change = np.expm1(np.minimum(log_ratio, _BIG))
    above = np.exp(log_below + log_ratio)
    total = np.zeros((len(log_below), len(orders)))
    powers = [orders**power - orders for power in range(7)]
    for k in range(log_below.shape[1]):
        log_r = log_ratio[:, k, None]
        y = orders * log_r
        terms = np.expm1(np.minimum(y, _BIG)) - orders * change[:, k, None]
        small = np.abs(y) < _SMALL
        if small.any():
            series = np.zeros_like(y)
            for power in range(6, 1, -1):  # sum of (a^m - a) l^m / m! from m = 2
                series = log_r / power * (series + powers[power])
            terms = np.where(small, series * log_r, terms)
        terms *= below[:, k, None]
        big = y > _BIG
        if big.any():
            with np.errstate(over="ignore"):
                whole = np.exp(log_below[:, k, None] + y)
            rest = orders * above[:, k, None] - (orders - 1) * below[:, k, None]
            terms = np.where(big, whole - rest, terms)
        # Each term is convex and at least 0: what is below is rounding.
        total += np.maximum(terms, 0.0)
    return total


def exact_rdp_threshold(
    votes: ArrayLike, threshold: float, sigma1: float, orders: ArrayLike
) -> Floats:
    """Renyi divergence of Confident-GNMax's check at these votes [N, A], both directions.

    The largest count changes by 1 either way: all that a vote can do to it, or to the surplus over
    a student's guess (then votes are floats, less the guess).
    """
    checked_noise(sigma1=sigma1)
    _validate.non_negative(threshold=threshold)
    return exact_checks(checked_counts(votes), threshold, sigma1).rows(orders)


def _check_rows(x: Floats, shift: float, orders: Floats) -> Floats:
    """Divergence of a check whose noiseless count is x above the threshold [U, A]."""
    best = np.zeros((len(x), len(orders)))
    sides = np.column_stack([x, -x])
    log_base = log_ndtr(sides)
    for step in (shift, -shift):
        change = np.stack([_log_change(x, step), _log_change(-x, -step)], axis=1)
        for below, ratio in ((log_base, change), (log_base + change, -change)):
            np.maximum(best, np.log1p(_excess_sums(below, ratio, orders)), out=best)
    return np.minimum(best / (orders - 1), orders * (shift**2 / 2))

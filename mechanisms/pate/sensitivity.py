"""How far one label can move the price of a run of PATE: at the votes, and at every distance.

The data-dependent price of PATE is a function of the secret votes, so it may be published only with
noise that covers how much the price could change: at distance d, the largest change over all votes
that differ from these in at most d teachers (Nissim, Raskhodnikova and Smith 2007; Papernot et al.,
ICLR 2018, arXiv:1802.08908, Appendix B, Algorithms 3 to 5). K classes, T teachers, N queries;
distances are 0..T-1, beyond which nothing new can be reached.

The price of an answer is flat above some q0; one vote moves q within known bounds; and if the price
and what one vote can add to it grow with q (conditions C5 and C6), moving votes greedily finds the
worst votes within any distance. With two classes a query's votes are one number, so the exact price
is a table of T + 1 entries, and no condition is needed. Everything is in logs: q may underflow.

>>> price = AnswerPrice(noise_std=40.0, num_classes=10, order=12.5)
>>> round(price.log_q0, 3), round(price.log_q1, 3), price.conditions(num_teachers=250)
(-3.493, -3.6, (True, True))
>>> sensitivity = local_sensitivity_gnmax([240, 10], 250, noise_std=40.0, order=12.5)
>>> sensitivity.shape, round(float(sensitivity[0]), 8), round(float(sensitivity[-1]), 8)
((250,), 2.33e-06, 0.00047055)
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import as_numpy
from labeldp.mechanisms.pate.decisions import decision_rdp_gnmax, decision_rdp_threshold
from labeldp.mechanisms.pate.exact_costs import exact_rdp_gnmax, exact_rdp_threshold
from labeldp.mechanisms.pate.published_bounds import (
    checked_noise,
    log_probability_answered,
    log_q_gaussian,
    rdp_gnmax,
    rdp_threshold,
)
from labeldp.mechanisms.pate.votes import Floats, checked_counts, checked_votes, whole_maximum

#: Points of log q at which conditions C5 and C6 are checked.
_CONDITION_POINTS = 5_000
#: Differences of prices carry rounding of about this many parts of the largest price.
_ROUNDING = 1e-13
#: Rows are taken in chunks of about this many entries, so that memory does not grow with N.
_CHUNK_ENTRIES = 2**20
#: The same for sensitivities by distance of different queries.
_DISTANCE_ENTRIES = 2**22


class ConditionsFailed(ValueError):
    """The proofs behind smooth sensitivity do not cover these public parameters."""


@dataclass(frozen=True, kw_only=True)
class AnswerPrice:
    """The Renyi price of one GNMax answer as a function of log q, and how one vote moves it.

    q bounds the probability of a surprise. All of it follows from public parameters.
    """

    noise_std: float
    num_classes: int
    order: float

    def __post_init__(self) -> None:
        checked_noise(noise_std=self.noise_std)
        _validate.whole(minimum=2, num_classes=self.num_classes)
        checked_order(self.order)

    @property
    def flat(self) -> float:
        """The price whatever the votes are, order / noise_std**2 (PATE 2018, Prop. 8)."""
        return self.order / self.noise_std**2

    @cached_property
    def log_q0(self) -> float:
        """Log of the q above which the price is flat."""
        # The search starts below the three points beyond which Theorem 6 cannot hold.
        inverse = 1 / self.noise_std
        outermost = max(1 + inverse, (self.order - 0.99) * inverse, inverse)
        high = -(outermost**2)

        def below_flat(log_q: Floats) -> NDArray[np.bool_]:
            # By more than the rounding of either, or a flat bound would pass for one below
            below: NDArray[np.bool_] = self._unclipped(log_q) < self.flat * (1 - _ROUNDING)
            return below

        if below_flat(np.array([high]))[0]:
            return high
        low = 1.5 * high
        while not below_flat(np.array([low]))[0]:
            low *= 1.5
        while high - low > 1e-14 * -low:
            grid = np.linspace(low, high, 66)
            last = int(np.flatnonzero(below_flat(grid[:-1]))[-1])
            if (grid[last], grid[last + 1]) == (low, high):
                break  # neighboring doubles
            low, high = float(grid[last]), float(grid[last + 1])
        return low

    @cached_property
    def log_q1(self) -> float:
        """Log of the q from which one vote can reach q0."""
        return float(self.after_a_vote(np.array([self.log_q0]), direction=-1)[0])

    @cached_property
    def largest_change(self) -> float:
        """The most that one vote can move the price from anywhere, that at q1."""
        return self.flat - float(self.price(np.array([self.log_q1]))[0])

    def _unclipped(self, log_q: Floats) -> Floats:
        return rdp_gnmax(log_q, self.noise_std, [self.order])[:, 0]

    def price(self, log_q: Floats) -> Floats:
        """Price at log q [N]: the data-dependent bound up to q0, and flat above."""
        below = self._unclipped(np.minimum(log_q, self.log_q0))
        below[log_q > self.log_q0] = self.flat
        return below

    def after_a_vote(self, log_q: Floats, *, direction: int) -> Floats:
        """The highest (direction 1) or lowest (-1) log q that one moved vote can lead to [N].

        No gap changes by more than 2 votes. That the worst is a change of all of them at equal gaps
        follows from the concavity of y -> Phi(Phi^-1(y) + t), t > 0, and Jensen.
        """
        log_others = math.log(self.num_classes - 1)
        shift = direction * math.sqrt(2) / self.noise_std
        moved = log_others + log_ndtr(ndtri_exp(log_q - log_others) + shift)
        result: Floats = np.minimum(moved, 0.0)
        return result

    def change(self, log_q: Floats) -> Floats:
        """The most that one vote can move the price at log q [N] (PATE 2018, Algorithm 3)."""
        near_q0 = (self.log_q1 <= log_q) & (log_q <= self.log_q0)
        up = self.after_a_vote(log_q, direction=1)
        down = self.after_a_vote(log_q, direction=-1)
        above, here, below = np.split(self.price(np.concatenate([up, log_q, down])), 3)
        change = np.maximum(np.maximum(above - here, here - below), 0.0)
        return np.where(near_q0, self.largest_change, change)

    def is_constant(self, *, num_teachers: int) -> bool:
        """Whether no votes of `num_teachers` are cheaper than flat, so that nothing is secret."""
        return bool(self._lowest_log_q(num_teachers) > self.log_q0)

    def _lowest_log_q(self, num_teachers: int) -> float:
        _validate.whole(minimum=1, num_teachers=num_teachers)
        unanimous = np.zeros((1, self.num_classes), dtype=np.int64)
        unanimous[0, 0] = num_teachers
        return float(log_q_gaussian(unanimous, self.noise_std)[0])

    def conditions(self, *, num_teachers: int) -> tuple[bool, bool]:
        """Whether C5 and C6 of PATE 2018 hold, on a fine grid of log q.

        C5: the price does not fall as q grows to q0. C6: what one vote can add to the price does
        not fall as q grows to q1. The grid covers every q that the votes of `num_teachers` can
        reach and one vote beyond.
        """
        unanimous = np.array([self._lowest_log_q(num_teachers)])
        lowest = float(self.after_a_vote(unanimous, direction=-1)[0])

        def never_falls(values: Floats) -> bool:
            return bool((np.diff(values) >= -_ROUNDING * self.flat).all())

        def grid(high: float) -> Floats:
            # Even steps in sqrt(log 1/q), which is about even steps in the leader's lead
            far = math.sqrt(-min(lowest, high))
            return -(np.linspace(far, math.sqrt(-high), _CONDITION_POINTS) ** 2)

        c5 = never_falls(self.price(grid(self.log_q0)))
        log_q = grid(self.log_q1)
        rise = self.price(self.after_a_vote(log_q, direction=1)) - self.price(log_q)
        return c5, never_falls(rise)

    def require_conditions(self, *, num_teachers: int) -> None:
        """Refuse parameters for which C5 or C6 fails: `ConditionsFailed`."""
        c5, c6 = self.conditions(num_teachers=num_teachers)
        if c5 and c6:
            return
        failed, meaning = (
            ("C6", "what one vote can add to the price") if c5 else ("C5", "the price of an answer")
        )
        raise ConditionsFailed(
            f"condition {failed} of PATE 2018, Appendix B, fails at noise_std {self.noise_std:g}, "
            f"{self.num_classes} classes and order {self.order:g}: {meaning} is not monotone in q, "
            "so its smooth sensitivity is not covered by the proofs and no sanitized epsilon can "
            "be released; a larger noise_std or a smaller order helps"
        )


def checked_order(order: float) -> None:
    """Refuse a Renyi order that is not a finite number above 1."""
    _validate.number(order=order)
    if not 1 < order < math.inf:
        raise ValueError(f"order is {order!r}; a Renyi order must be a finite number above 1")


def local_sensitivity_gnmax(
    votes: Any, num_teachers: int, noise_std: float, order: float
) -> Floats:
    """Local sensitivity of the price of GNMax answers, at distances 0..T-1: [T], or [N, T].

    Never falls with the distance. An upper bound (PATE 2018, Algorithms 3 to 5), valid where
    `AnswerPrice.conditions` hold, which the publisher must have checked. votes are [K] or [N, K];
    each row sums to `num_teachers`.
    """
    array = as_numpy(votes)
    counts = checked_votes(array[None] if array.ndim == 1 else array).astype(np.int64)
    _validate.whole(minimum=1, num_teachers=num_teachers)
    if counts[0].sum() != num_teachers:
        raise ValueError(
            f"votes sum to {counts[0].sum()}, but num_teachers is {num_teachers}; every teacher "
            "casts exactly one vote"
        )
    price = AnswerPrice(noise_std=noise_std, num_classes=counts.shape[1], order=order)
    counts = -np.sort(-counts, axis=1)
    result = np.empty((len(counts), num_teachers))
    height = max(1, _CHUNK_ENTRIES // (num_teachers + counts.shape[1]))
    for start in range(0, len(counts), height):
        rows = slice(start, start + height)
        path = _log_q_by_distance(counts[rows], num_teachers, price)
        known = ~np.isnan(path)
        part = result[rows]
        part.fill(price.largest_change)
        part[known] = price.change(path[known])
    return result[0] if array.ndim == 1 else result


def _log_q_by_distance(counts: NDArray[np.int64], distances: int, price: AnswerPrice) -> Floats:
    """Move votes, one a step, to where the price is most sensitive, all rows at once [N, T].

    Returns log q at every distance, NaN from where on the largest change is charged. `counts` [N,
    K] are descending, and overwritten.
    """
    result = np.full((len(counts), distances), np.nan)
    log_q = result[:, 0] = log_q_gaussian(counts, price.noise_std)
    rising = np.flatnonzero(log_q < price.log_q1)
    falling = np.flatnonzero(log_q > price.log_q0)
    for distance in range(1, distances):
        # Below q1, take from the leader and give to the second: the fastest way up. It ends before
        # they meet: a lead of one vote has q above exp(-(1 + 1/noise_std)^2), which q0 is not.
        counts[rising, 0] -= 1
        counts[rising, 1] += 1
        # Above q0, take from the largest follower and give to the leader: the fastest way down.
        falling = falling[counts[falling, 1] > 0]
        followers = counts[falling, 1:]
        last_of_largest = (followers == followers[:, :1]).sum(axis=1)  # the row stays descending
        counts[falling, last_of_largest] -= 1
        counts[falling, 0] += 1

        moved = np.concatenate([rising, falling])
        if not moved.size:
            break
        log_q = log_q_gaussian(counts[moved], price.noise_std)
        result[moved, distance] = log_q
        up, down = np.split(log_q, [rising.size])
        rising = rising[up < price.log_q1]
        falling = falling[down > price.log_q0]
    return result


def threshold_prices(*, num_teachers: int, threshold: float, sigma1: float, order: float) -> Floats:
    """Price of the check of the largest count, for every such count 0..T [T+1]."""
    whole = np.zeros((num_teachers + 1, 2))
    whole[:, 0] = np.arange(num_teachers + 1)
    log_p = log_probability_answered(whole, threshold, sigma1)
    return rdp_threshold(log_p, sigma1, [order])[:, 0]


def threshold_changes(prices: Floats) -> Floats:
    """The most that one vote can move the price at every largest count 0..T [T+1]."""
    steps = np.abs(np.diff(prices))
    result: Floats = np.maximum(np.append(steps, 0.0), np.append(0.0, steps))
    return result


def largest_counts(counts: NDArray[Any], *, num_teachers: int) -> NDArray[np.int64]:
    """Largest count of every row, rounded [N], or which row's lies outside 0..T."""
    peak = whole_maximum(counts).astype(np.int64)
    bad = np.flatnonzero((peak < 0) | (peak > num_teachers))
    if bad.size:
        raise ValueError(
            f"the largest count of votes row {bad[0]} is {counts[bad[0]].max():g}; with "
            f"{num_teachers} teachers it must lie in 0..{num_teachers}"
        )
    return peak


def local_sensitivity_threshold(
    votes: Any, num_teachers: int, threshold: float, sigma1: float, order: float
) -> Floats:
    """Local sensitivity of the price of Confident-GNMax's check, by distance: [T], or [N, T].

    The largest change at a largest count exactly 0..T-1 votes away (as PATE 2018 has it; it can
    fall): one vote moves the largest count by at most 1. Sums over queries need the running
    maximum. votes are [K] or [N, K]; for Interactive-GNMax floats, less the student's guess.
    """
    _validate.whole(minimum=1, num_teachers=num_teachers)
    checked_order(order)
    array = as_numpy(votes)
    counts = checked_counts(array[None] if array.ndim == 1 else array)
    prices = threshold_prices(
        num_teachers=num_teachers, threshold=threshold, sigma1=sigma1, order=order
    )
    peaks = largest_counts(counts, num_teachers=num_teachers)
    result = _changes_by_distance(threshold_changes(prices), peaks)
    return result[0] if array.ndim == 1 else result


def _changes_by_distance(changes: Floats, peaks: NDArray[np.int64]) -> Floats:
    """Changes [T + 1] at largest counts exactly 0..T-1 votes away from each of `peaks` [N, T]."""
    num_teachers = len(changes) - 1
    distances = np.arange(num_teachers)
    below, above = peaks[:, None] - distances, peaks[:, None] + distances
    down = np.where(below >= 0, changes[np.maximum(below, 0)], 0.0)
    up = np.where(above <= num_teachers, changes[np.minimum(above, num_teachers)], 0.0)
    # The change at the last count is that at the one before it, which was reached a vote earlier.
    new = distances < np.maximum(peaks, num_teachers - peaks)[:, None]
    return np.where(new, np.maximum(down, up), 0.0)


@dataclass(frozen=True, kw_only=True)
class RunPrices(ABC):
    """Renyi prices of a run's checks and answers at one order; all but `cost` is public.

    Attributes:
        num_teachers: T.
        num_classes: K.
        noise_std: Standard deviation of the noise on every count of an answer.
        order: The Renyi order, above 1.
        threshold: What the noisy largest count must reach; None where nothing is checked.
        sigma1: Standard deviation of the noise on it.
    """

    num_teachers: int
    num_classes: int
    noise_std: float
    order: float
    threshold: float | None = None
    sigma1: float | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        _validate.whole(minimum=1, num_teachers=self.num_teachers)
        checked_noise(noise_std=self.noise_std)
        checked_order(self.order)

    @property
    def answers_are_constant(self) -> bool:
        """Whether an answer costs the same whatever the votes are."""
        return False

    @abstractmethod
    def flat(self, *, checked: int, answered: int) -> float:
        """What so many checks and answers cost whatever the votes are."""

    @abstractmethod
    def largest_change(self, *, checked: int, answered: int) -> float:
        """The most by which one label can move the cost of so many, whatever the votes are."""

    @abstractmethod
    def cost(
        self, votes: NDArray[Any], counts: NDArray[Any], *, answered: NDArray[np.bool_]
    ) -> tuple[float, Floats]:
        """What a run cost, and how much one label can change that by distance [T]: secret, both."""


class BoundedPrices(RunPrices):
    """By the bounds of PATE 2018, for any number of classes."""

    @cached_property
    def answer(self) -> AnswerPrice:
        """Of one answer."""
        return AnswerPrice(noise_std=self.noise_std, num_classes=self.num_classes, order=self.order)

    @cached_property
    def checks(self) -> Floats:
        """Price of a check for every largest count [T + 1]; 0 where nothing is checked."""
        if self.threshold is None or self.sigma1 is None:
            return np.zeros(self.num_teachers + 1)
        return threshold_prices(
            num_teachers=self.num_teachers,
            threshold=self.threshold,
            sigma1=self.sigma1,
            order=self.order,
        )

    @property
    def answers_are_constant(self) -> bool:
        """Whether an answer costs the same whatever the votes are."""
        return self.answer.is_constant(num_teachers=self.num_teachers)

    def flat(self, *, checked: int, answered: int) -> float:
        """See `RunPrices`."""
        answers = self.answer.flat * answered
        if self.sigma1 is None:
            return answers
        return answers + checked * self.order / (2 * self.sigma1**2)

    def largest_change(self, *, checked: int, answered: int) -> float:
        """See `RunPrices`."""
        answers = answered * self.answer.largest_change
        return answers + checked * float(threshold_changes(self.checks).max())

    def cost(
        self, votes: NDArray[Any], counts: NDArray[Any], *, answered: NDArray[np.bool_]
    ) -> tuple[float, Floats]:
        """See `RunPrices`; `ConditionsFailed` where sensitivities are not proven."""
        rdp, sensitivity = cost_of_answers(votes, price=self.answer, answered=answered)
        if self.threshold is None:
            return rdp, sensitivity
        peaks = largest_counts(counts, num_teachers=self.num_teachers)
        rdp_checks, of_checks = cost_of_checks(peaks, prices=self.checks)
        return rdp + rdp_checks, sensitivity + of_checks


def cost_of_answers(
    votes: NDArray[np.integer[Any]], *, price: AnswerPrice, answered: NDArray[np.bool_]
) -> tuple[float, Floats]:
    """Cost of the answers that were given to votes [N, K], and its sensitivity by distance [T]."""
    num_teachers = int(votes[0].sum())
    sensitivity = np.zeros(num_teachers)
    rdp = price.flat * int(answered.sum())
    if price.is_constant(num_teachers=num_teachers):
        return rdp, sensitivity
    price.require_conditions(num_teachers=num_teachers)
    if answered.any():
        descending = -np.sort(-votes[answered].astype(np.int64), axis=1)
        histograms, multiplicity = np.unique(descending, axis=0, return_counts=True)
        rdp = float(multiplicity @ price.price(log_q_gaussian(histograms, price.noise_std)))
        height = max(1, _DISTANCE_ENTRIES // num_teachers)
        for start in range(0, len(histograms), height):
            rows = slice(start, start + height)
            sensitivity += multiplicity[rows] @ local_sensitivity_gnmax(
                histograms[rows], num_teachers, price.noise_std, price.order
            )
    return rdp, sensitivity


def cost_of_checks(peaks: NDArray[np.int64], *, prices: Floats) -> tuple[float, Floats]:
    """Cost of checks of largest counts [N], and its sensitivity by distance [T].

    `prices` are those of largest counts 0..T.
    """
    num_teachers = len(prices) - 1
    kinds, multiplicity = np.unique(peaks, return_counts=True)
    sensitivity = np.zeros(num_teachers)
    height = max(1, _DISTANCE_ENTRIES // num_teachers)
    for start in range(0, len(kinds), height):
        rows = slice(start, start + height)
        by_distance = _changes_by_distance(threshold_changes(prices), kinds[rows])
        # When d labels changed, each query may be at any distance up to d from where it was.
        sensitivity += multiplicity[rows] @ np.maximum.accumulate(by_distance, axis=1)
    return float(multiplicity @ prices[kinds]), sensitivity


class ExactPrices(RunPrices):
    """Exact prices of two classes, for every number of votes; both directions of a change."""

    @cached_property
    def answers(self) -> Floats:
        """Price of an answer where a class has 0..T votes [T + 1]."""
        return np.asarray(exact_rdp_gnmax(self._histograms, self.noise_std, [self.order])[:, 0])

    @cached_property
    def checks(self) -> Floats:
        """Price of a check likewise [T + 1]; 0 where nothing is checked."""
        if self.threshold is None or self.sigma1 is None:
            return np.zeros(self.num_teachers + 1)
        found = exact_rdp_threshold(self._histograms, self.threshold, self.sigma1, [self.order])
        return np.asarray(found[:, 0])

    def flat(self, *, checked: int, answered: int) -> float:
        """See `RunPrices`."""
        answers = answered * float(decision_rdp_gnmax(self.noise_std, [self.order])[0])
        if self.sigma1 is None:
            return answers
        return answers + checked * float(decision_rdp_threshold(self.sigma1, [self.order])[0])

    def largest_change(self, *, checked: int, answered: int) -> float:
        """See `RunPrices`."""
        answers, checks = (
            float(threshold_changes(part).max()) for part in (self.answers, self.checks)
        )
        return answered * answers + checked * checks

    def cost(
        self, votes: NDArray[Any], counts: NDArray[Any], *, answered: NDArray[np.bool_]
    ) -> tuple[float, Floats]:
        """See `RunPrices`."""
        count = votes[:, 0].astype(np.intp)
        rdp, sensitivity = 0.0, np.zeros(self.num_teachers)
        for prices, asked in ((self.answers, count[answered]), (self.checks, count)):
            numbers = np.bincount(asked, minlength=self.num_teachers + 1)
            rdp += float(numbers @ prices)
            sensitivity += _worst_within(threshold_changes(prices), self.num_teachers) @ numbers
        return rdp, sensitivity

    @property
    def _histograms(self) -> NDArray[np.int64]:
        """Votes [T + 1, 2]."""
        first = np.arange(self.num_teachers + 1)
        return np.stack([first, self.num_teachers - first], axis=1)


def _worst_within(changes: Floats, distances: int) -> Floats:
    """The largest change within 0..D-1 places of every number of votes [D, T + 1]."""
    result = np.empty((distances, len(changes)))
    worst = changes.copy()
    for distance in range(distances):
        result[distance] = worst
        wider = worst.copy()
        np.maximum(wider[1:], worst[:-1], out=wider[1:])
        np.maximum(wider[:-1], worst[1:], out=wider[:-1])
        worst = wider
    return result

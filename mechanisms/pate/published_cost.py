"""Publishing what PATE cost: an epsilon that is safe to show, with the price of showing it.

The data-dependent epsilon of PATE is computed from secret votes. This module publishes an upper
bound on it, with noise scaled to its smooth sensitivity (Nissim, Raskhodnikova and Smith 2007;
Papernot et al., ICLR 2018, arXiv:1802.08908, Appendix B). The paper publishes D + SS * N(0, s^2), D
the Renyi cost and SS its smooth sensitivity. A bound on D read from it needs SS, which is secret
too. Here instead:

1. One changed label moves log SS by at most beta. So log SS is published with Gaussian noise of
   beta * `sensitivity_multiplier` and raised by z standard deviations: a public U, above SS but for
   a probability of tail/2. Renyi cost: order / (2 sensitivity_multiplier^2).
2. D is published with Gaussian noise of U * `cost_multiplier`. Where U covers SS, the change that
   one label makes to D is at most U, and the Renyi cost is order / (2 cost_multiplier^2). Where U
   falls short, privacy is given up: tail/2, part of delta.
3. Raised by z standard deviations again, the noisy cost is a bound but for a probability of tail/2,
   part of delta too.
4. D is the *realised* cost: every check, and the answers that were given. It is public
   which queries were answered; given that, D depends on the votes through the prices alone.

**Meaning.** The number is random and known only after the answers: not a guarantee, but an upper
bound, after the fact, on the cost of this run. But for a probability of `tail` it is at least the
sum of the run's Renyi costs at its order, its own price included, which a Renyi filter of that
order (Feldman and Zrnic 2021) compares with a budget. With two classes D is exact. With more it is
the sum of the bounds of Theorem 6 of PATE 2018, from these votes to changed ones only.

Order, noise and tail must be fixed before the votes are seen, by `public_rule` and
`ReleaseNoise.public` or rules like them. A second release of the same votes costs again.

**Sensitivity.** At distance d it is the largest change of the cost over all votes that differ from
these in at most d of T teachers, d from 0 to T-1 (PATE 2018, Algorithms 3 to 5). The price of an
answer is flat above some q0; one vote moves q within known bounds; and if the price and the rise
that one vote can add to it grow with q (conditions C5 and C6), moving votes greedily finds the
worst votes within any distance. With two classes a query's votes are one number, so the exact price
is a table of T + 1 entries, and no condition is needed. Everything is in logs: q may underflow.

>>> price = AnswerPrice(noise_std=40.0, num_classes=10, order=12.5)
>>> round(price.log_q0, 3), round(price.log_q1, 3), price.conditions(num_teachers=250)
(-3.493, -3.6, (True, True))

>>> votes = np.tile([[248, 2], [235, 15]], (500, 1))
>>> released = release_epsilon(votes, noise_std=40.0, threshold=200.0, sigma1=150.0,
...     delta=1e-5, order=8.0, generator=np.random.default_rng(0))
>>> round(released.epsilon, 2), round(released.epsilon_data_independent, 2)
(2.34, 4.54)
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import maximum_filter1d
from scipy.special import log_ndtr, ndtri, ndtri_exp

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import (
    Floats,
    as_numpy,
    checked_counts,
    checked_mask,
    checked_noise,
    checked_orders,
    checked_votes,
    whole_maximum,
)
from labeldp.mechanisms.accounting import Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate.accounting import (
    log_probability_answered,
    log_q_gaussian,
    rdp_gnmax,
    rdp_threshold,
)
from labeldp.mechanisms.pate.decisions import (
    decision_rdp_gnmax,
    decision_rdp_threshold,
    exact_rdp_gnmax,
    exact_rdp_threshold,
)
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    NoiseGenerator,
    SecureGenerator,
    as_noise_generator,
    rounded_sum,
)

#: Part of delta that a published bound may fail with: one policy for sweeps and the command line.
TAIL_SHARE = 0.01
#: Guess of the smooth sensitivity, as a share of the most that it could be with any votes.
GUESS_SHARE = 0.1
#: The same for exact costs of two classes, which are smaller, and vary more for their size. Chosen
#: on the published votes of 250 forests on UCI Adult, and on no other votes.
EXACT_GUESS_SHARE = 0.3
#: Costs of up to 100 are computed to 1e-10 or better, and so is what one label moves them by: less
#: than this share of a sensitivity that the least noise is made for, at multipliers of up to 100.
_ROUNDING_SHARE = 1e-5
_LEAST_NOISE = 1e-3
#: Points of log q at which conditions C5 and C6 are checked.
_CONDITION_POINTS = 5_000
#: Differences of prices carry rounding of about this many parts of the largest price.
_ROUNDING = 1e-13
#: Sensitivities by distance are taken in chunks of about this many entries.
_DISTANCE_ENTRIES = 2**20


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
        checked_orders([self.order])

    @property
    def flat(self) -> float:
        """The price for any votes, order / noise_std**2 (PATE 2018, Prop. 8)."""
        return self.order / self.noise_std**2

    @cached_property
    def log_q0(self) -> float:
        """Log of the q above which the price is flat."""
        # The search starts below the two points beyond which Theorem 6 cannot hold.
        inverse = 1 / self.noise_std
        outermost = max(1 + inverse, (self.order - 0.99) * inverse)
        high = -(outermost**2)

        def below_flat(log_q: Floats) -> NDArray[np.bool_]:
            # By more than the rounding of either, or a flat bound would pass for one below
            return np.asarray(self._unclipped(log_q) < self.flat * (1 - _ROUNDING))

        if below_flat(np.array([high]))[0]:
            return high
        low = 1.5 * high
        while not below_flat(np.array([low]))[0]:
            low *= 1.5
        while high - low > 1e-14 * -low:
            grid = np.linspace(low, high, 66)
            last = int(np.flatnonzero(below_flat(grid[:-1]))[-1])
            low = float(grid[last])
            high = float(grid[last + 1])
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
        return np.asarray(np.minimum(moved, 0.0))

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

        C5: the price does not fall as q grows to q0. C6: the rise that one vote can add to it does
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
        held = self.conditions(num_teachers=num_teachers)
        if not all(held):
            raise ConditionsFailed(
                f"condition {'C6' if held[0] else 'C5'} of PATE 2018, Appendix B, fails at "
                f"noise_std {self.noise_std:g}, {self.num_classes} classes and order "
                f"{self.order:g}, so no sanitized epsilon is proven; take a larger noise_std or a "
                "smaller order"
            )


def local_sensitivity_gnmax(
    votes: ArrayLike, num_teachers: int, noise_std: float, order: float
) -> Floats:
    """Local sensitivity of the price of GNMax answers, at distances 0..T-1: [T], or [N, T].

    Never falls with the distance. An upper bound (PATE 2018, Algorithms 3 to 5), valid where
    `AnswerPrice.conditions` hold, which the publisher must have checked. votes are [K] or [N, K];
    each row sums to `num_teachers`.
    """
    array = as_numpy(votes)
    counts = checked_votes(np.atleast_2d(array)).astype(np.int64)
    if counts[0].sum() != num_teachers:
        raise ValueError(
            f"votes sum to {counts[0].sum()}, but num_teachers is {num_teachers}; every teacher "
            "casts exactly one vote"
        )
    price = AnswerPrice(noise_std=noise_std, num_classes=counts.shape[1], order=order)
    counts = -np.sort(-counts, axis=1)
    result = np.empty((len(counts), num_teachers))
    width = num_teachers + counts.shape[1]
    for rows in _validate.blocks(len(counts), width, entries=_DISTANCE_ENTRIES):
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
    return np.asarray(np.maximum(np.append(steps, 0.0), np.append(0.0, steps)))


def local_sensitivity_threshold(
    votes: ArrayLike, num_teachers: int, threshold: float, sigma1: float, order: float
) -> Floats:
    """Local sensitivity of the price of Confident-GNMax's check of votes [K], by distance [T].

    The largest change at a largest count exactly 0..T-1 votes away (as PATE 2018 has it; it can
    fall): one vote moves the largest count by at most 1. Sums over queries need the running
    maximum. For Interactive-GNMax votes are floats, less the student's guess.
    """
    _validate.whole(minimum=1, num_teachers=num_teachers)
    counts = checked_counts(as_numpy(votes)[None])
    peak = int(whole_maximum(counts)[0])
    if not 0 <= peak <= num_teachers:
        raise ValueError(
            f"the largest count of votes is {counts.max():g}; with {num_teachers} teachers it must "
            f"lie in 0..{num_teachers}"
        )
    prices = threshold_prices(
        num_teachers=num_teachers, threshold=threshold, sigma1=sigma1, order=order
    )
    changes = np.pad(threshold_changes(prices), num_teachers)  # counts below 0 and above T: 0
    here = num_teachers + peak
    distances = np.arange(num_teachers)
    result: Floats = np.maximum(changes[here - distances], changes[here + distances])
    # The change at the last count is that at the one before it, which was reached a vote earlier.
    result[max(peak, num_teachers - peak) :] = 0.0
    return result


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Renyi prices of a run's checks and answers at one order.

    For two classes they are exact, for both directions of a change; for more they are the bounds of
    PATE 2018. All but `cost` is public. `noise_std` is that of the answers, `sigma1` that of the
    check; without `threshold` and `sigma1` nothing is checked.
    """

    num_teachers: int
    num_classes: int
    noise_std: float
    order: float
    threshold: float | None = None
    sigma1: float | None = None

    @cached_property
    def answer(self) -> AnswerPrice:
        """Price of one answer, by the bounds."""
        return AnswerPrice(noise_std=self.noise_std, num_classes=self.num_classes, order=self.order)

    @cached_property
    def exact_answers(self) -> Floats | None:
        """Exact price of an answer where a class of two has 0..T votes [T + 1]."""
        if self.num_classes > 2:
            return None
        return np.asarray(exact_rdp_gnmax(self._histograms, self.noise_std, [self.order])[:, 0])

    @cached_property
    def checks(self) -> Floats:
        """Price of a check for every largest count [T + 1]; 0 where nothing is checked."""
        if self.threshold is None or self.sigma1 is None:
            return np.zeros(self.num_teachers + 1)
        if self.num_classes == 2:
            votes = self._histograms
            orders = [self.order]
            return exact_rdp_threshold(votes, self.threshold, self.sigma1, orders)[:, 0]
        return threshold_prices(
            num_teachers=self.num_teachers,
            threshold=self.threshold,
            sigma1=self.sigma1,
            order=self.order,
        )

    def flat(self, *, checked: int, answered: int) -> float:
        """The most that so many checks and answers cost with any votes."""
        answer = self.answer.flat
        check = 0.0
        if self.num_classes == 2:
            answer = float(decision_rdp_gnmax(self.noise_std, [self.order])[0])
        if self.sigma1 is not None and self.num_classes == 2:
            check = float(decision_rdp_threshold(self.sigma1, [self.order])[0])
        elif self.sigma1 is not None:
            check = self.order / (2 * self.sigma1**2)
        return answer * answered + checked * check

    def largest_change(self, *, checked: int, answered: int) -> float:
        """The most by which one label can move the cost of so many, with any votes."""
        exact = self.exact_answers
        check = float(threshold_changes(self.checks).max())
        answer = self.answer.largest_change if exact is None else threshold_changes(exact).max()
        return float(answered * answer + checked * check)

    def cost(self, votes: NDArray[Any], *, answered: NDArray[np.bool_]) -> tuple[float, Floats]:
        """Cost of a run, and how much one label can change it by distance [T]: both are secret.

        Raises `ConditionsFailed` where sensitivities are not proven.
        """
        if self.exact_answers is None:
            of_answers = cost_of_answers(
                votes[answered], price=self.answer, num_teachers=self.num_teachers
            )
        else:
            of_answers = _tabulated_cost(self.exact_answers, votes[answered])
        of_checks = _tabulated_cost(self.checks, votes)
        return of_answers[0] + of_checks[0], of_answers[1] + of_checks[1]

    @property
    def _histograms(self) -> NDArray[np.int64]:
        """Votes [T + 1, 2]."""
        first = np.arange(self.num_teachers + 1)
        return np.stack([first, self.num_teachers - first], axis=1)


def cost_of_answers(
    votes: NDArray[np.integer[Any]], *, price: AnswerPrice, num_teachers: int
) -> tuple[float, Floats]:
    """Cost of answers to votes [N, K] by the bounds, and its sensitivity by distance [T]."""
    sensitivity = np.zeros(num_teachers)
    if price.is_constant(num_teachers=num_teachers):
        return price.flat * len(votes), sensitivity
    price.require_conditions(num_teachers=num_teachers)
    if not len(votes):
        return 0.0, sensitivity
    descending = -np.sort(-votes.astype(np.int64), axis=1)
    histograms, multiplicity = np.unique(descending, axis=0, return_counts=True)
    rdp = float(multiplicity @ price.price(log_q_gaussian(histograms, price.noise_std)))
    for rows in _validate.blocks(len(histograms), num_teachers, entries=_DISTANCE_ENTRIES):
        sensitivity += multiplicity[rows] @ local_sensitivity_gnmax(
            histograms[rows], num_teachers, price.noise_std, price.order
        )
    return rdp, sensitivity


def _tabulated_cost(prices: Floats, votes: NDArray[Any]) -> tuple[float, Floats]:
    """Cost of queries whose prices [T + 1] go by the largest count, and its sensitivity [T].

    When d labels changed, each query may be at any distance up to d from where it was.
    """
    numbers = np.bincount(votes.max(axis=1).astype(np.intp), minlength=len(prices))
    worst = threshold_changes(prices)
    sensitivity = np.empty(len(prices) - 1)
    for distance in range(len(sensitivity)):
        sensitivity[distance] = worst @ numbers
        worst = maximum_filter1d(worst, 3, mode="nearest")
    return float(numbers @ prices), sensitivity


@dataclass(frozen=True, kw_only=True)
class ReleaseNoise:
    """How much noise a release gets; to be fixed before the votes are seen.

    Attributes:
        beta: How fast sensitivities are discounted with distance. Larger makes smooth sensitivity
            smaller and its own release noisier.
        sensitivity_multiplier: Noise on log SS, in units of beta.
        cost_multiplier: Noise on the cost, in units of the published bound on SS.
    """

    beta: float
    sensitivity_multiplier: float
    cost_multiplier: float

    def __post_init__(self) -> None:
        _validate.positive(
            beta=self.beta,
            sensitivity_multiplier=self.sensitivity_multiplier,
            cost_multiplier=self.cost_multiplier,
        )

    def rdp(self, order: float) -> float:
        """Renyi cost of both steps of a release at `order`."""
        return (self.sensitivity_multiplier**-2 + self.cost_multiplier**-2) * order / 2

    @classmethod
    def public(cls, *, order: float, tail: float, sensitivity_guess: float) -> "ReleaseNoise":
        """The noise that is best if the guess of the smooth sensitivity is right.

        beta is such that the bound on smooth sensitivity usually lies exp(0.8), about twice, above
        it. Both steps then cost order / s^2 at noise s and add 2 z s guess to the bound, the sum of
        which is least at s^3 = order / (z guess). The guess must be from public knowledge only.
        """
        checked_orders([order])
        _validate.between(0, 1, tail=tail)
        _validate.positive(sensitivity_guess=sensitivity_guess)
        deviations = -float(ndtri(tail / 2))
        multiplier = (order / (deviations * sensitivity_guess)) ** (1 / 3)
        return cls(
            beta=0.8 / (deviations * multiplier),
            sensitivity_multiplier=multiplier,
            cost_multiplier=multiplier,
        )


@lru_cache(maxsize=256)  # a plan prices each trial twice, and two classes take .1 s each time
def public_rule(
    *,
    queries: int,
    answers: int,
    noise_std: float,
    threshold: float | None = None,
    sigma1: float | None = None,
    teachers: int,
    classes: int,
    delta: float,
) -> tuple[float, float]:
    """Return the Renyi order, and a guess of the smooth sensitivity at it, by public facts alone.

    The guess decides how much noise is drawn, not whether the bound holds. The order is best if
    answers cost a third of their worst case and the release a twelfth of the order.

    Args:
        queries: Number of queries that are checked.
        answers: Number of answers that are planned, not of those that were given.
        noise_std: Standard deviation of the answers' noise.
        threshold: Of the check; None without one.
        sigma1: Standard deviation of the check's noise; None without a check.
        teachers: Number of teachers.
        classes: Number of classes.
        delta: Delta at which the cost is stated.
    """
    _validate.between(0, 1, delta=delta)
    prices = Prices(
        num_teachers=teachers,
        num_classes=classes,
        noise_std=noise_std,
        order=2.0,
        threshold=threshold,
        sigma1=sigma1,
    )
    # At order 2, so half of it for each unit of order.
    expected_slope = prices.flat(checked=queries, answered=answers) / 2 / 3
    order = 1 + math.sqrt(-math.log(delta) / (expected_slope + 1 / 12))
    order = max(1.5, round(2 * order) / 2)
    largest = replace(prices, order=order).largest_change(checked=queries, answered=answers)
    return order, (EXACT_GUESS_SHARE if classes == 2 else GUESS_SHARE) * max(largest, 1e-12)


def log_smooth_sensitivity(ls_by_distance: ArrayLike, beta: float) -> float:
    """Log of `smooth_sensitivity`, which may underflow; -inf where nothing moves."""
    _validate.non_negative(beta=beta)
    array = np.asarray(as_numpy(ls_by_distance), dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"ls_by_distance has shape {array.shape}; it must be [D], an entry per distance"
        )
    good = (array >= 0) & np.isfinite(array)
    rule = "a sensitivity is finite, 0 or above"
    _validate.refuse_entries(~good, array, "ls_by_distance", rule)
    with np.errstate(divide="ignore"):
        return float((np.log(array) - beta * np.arange(array.size)).max())


def smooth_sensitivity(ls_by_distance: ArrayLike, beta: float) -> float:
    """Largest of sensitivities at distances 0, 1, ..., discounted by exp(-beta) per label.

    It bounds the local sensitivity, and one changed label changes it by at most a factor of
    exp(beta).
    """
    return math.exp(log_smooth_sensitivity(ls_by_distance, beta))


@dataclass(frozen=True, kw_only=True)
class SanitizedEpsilon:
    """The numbers that may be published about the cost of answering; every field of it.

    Attributes:
        epsilon: An upper bound, after the fact, on the cost of the answers and of this release at
            `delta`: a random number, not the (epsilon, delta) of a mechanism, and with more than
            two classes a bound in one direction only (see the module's text).
        delta: At which costs are stated, tail included.
        tail: Part of delta: the probability that noise broke the bound or fell short of its scale.
        order: The Renyi order, fixed beforehand.
        rdp: The published upper bound on the Renyi cost of the answers.
        rdp_release: The Renyi cost of publishing it, contained in epsilon.
        beta: Parameter of the smooth sensitivity.
        sensitivity_bound: The published upper bound on the smooth sensitivity.
        noise_std: Standard deviation of the noise in `rdp`; 0 where nothing was secret.
        epsilon_data_independent: The cost of the answers with any votes, at the same order and
            delta (no release needed). Where it is the smaller, sanitizing was not worth it.
    """

    epsilon: float
    delta: float
    tail: float
    order: float
    rdp: float
    rdp_release: float
    beta: float
    sensitivity_bound: float
    noise_std: float
    epsilon_data_independent: float


def _widened(noise: float, generator: NoiseGenerator) -> float:
    """Secure noise that covers rounding as well: what a label moves is computed in floats."""
    if isinstance(generator, SecureGenerator):
        return max(noise, _LEAST_NOISE) * (1 + _ROUNDING_SHARE)
    return noise


def _raised(value: float, noise_std: float, deviations: float, generator: NoiseGenerator) -> float:
    """The value plus so many standard deviations, plus noise."""
    if isinstance(generator, SecureGenerator):
        return rounded_sum(value + deviations * noise_std, noise_std, generator=generator)
    return value + (deviations + float(generator.standard_normal())) * noise_std


def release_epsilon(
    votes: ArrayLike,
    *,
    noise_std: float,
    threshold: float | None = None,
    sigma1: float | None = None,
    answered: ArrayLike | None = None,
    delta: float,
    order: float,
    tail: float | None = None,
    noise: ReleaseNoise | None = None,
    conversion: Conversion | str = Conversion.IMPROVED,
    generator: AnyGenerator,
) -> SanitizedEpsilon:
    """Publish a bound on what GNMax or Confident-GNMax answers cost.

    Args:
        votes: Counts [N, K] of every query that was checked, one vote per teacher.
        noise_std: Standard deviation of the noise on every count of an answer (sigma2).
        threshold: Threshold of Confident-GNMax's check; without it, nothing was checked.
        sigma1: Standard deviation of the check's one noise, with `threshold`.
        answered: Whether each query was answered, boolean [N]; default: all.
        delta: In (0, 1), for everything together.
        order: The Renyi order, fixed before the votes were seen (`public_rule`).
        tail: The part of delta for the noise of the release; a hundredth unless given.
        noise: Fixed before the votes were seen; `ReleaseNoise.public` with a tenth of the largest
            sensitivity that any votes could have unless given.
        conversion: How the Renyi cost becomes epsilon.
        generator: Source of the noise.

    Raises:
        ConditionsFailed: Smooth sensitivity is not proven for these public parameters.
    """
    array = checked_votes(votes)
    checked_orders([order])
    _validate.between(0, 1, delta=delta)
    tail = TAIL_SHARE * delta if tail is None else tail
    _validate.between(0, delta, tail=tail)
    if (threshold is None) != (sigma1 is None):
        raise ValueError(
            f"threshold is {threshold} and sigma1 is {sigma1}; a check needs both, and plain GNMax "
            "neither"
        )
    mask = np.ones(len(array), np.bool_) if answered is None else checked_mask(answered, len(array))
    if threshold is None and not mask.all():
        raise ValueError("answered leaves queries out, but without a threshold all are answered")
    prices = Prices(
        num_teachers=int(array[0].sum()),
        num_classes=array.shape[1],
        noise_std=noise_std,
        order=order,
        threshold=threshold,
        sigma1=sigma1,
    )
    cost, sensitivity = prices.cost(array, answered=mask)
    flat = prices.flat(checked=len(array), answered=int(mask.sum()))

    def epsilon(rdp: float, at: float) -> float:
        return epsilon_from_rdp([order], [rdp], at, conversion)[0]

    rdp = flat
    rdp_release = 0.0
    beta = 0.0
    bound = 0.0
    noise_of_cost = 0.0
    if sensitivity.any():  # otherwise all votes cost the same: nothing to hide
        if noise is None:
            largest = prices.largest_change(checked=len(array), answered=len(array))
            guess = GUESS_SHARE * largest
            noise = ReleaseNoise.public(order=order, tail=tail, sensitivity_guess=guess)
        # Noise is drawn in the order of the module's text: SS, then D.
        beta = noise.beta
        # What a normal variable exceeds with probability tail/2.
        deviations = -float(ndtri(tail / 2))
        rng = as_noise_generator(generator)
        noise_of_bound = beta * _widened(noise.sensitivity_multiplier, rng)
        log_smooth = log_smooth_sensitivity(sensitivity, beta)
        bound = math.exp(min(_raised(log_smooth, noise_of_bound, deviations, rng), 700.0))
        noise_of_cost = _widened(bound * noise.cost_multiplier, rng)
        raised = _raised(cost, noise_of_cost, deviations, rng)
        rdp = min(max(raised, 0.0), flat)  # both limits are public
        rdp_release = noise.rdp(order)
    return SanitizedEpsilon(
        epsilon=epsilon(rdp + rdp_release, delta - tail),
        delta=delta,
        tail=tail,
        order=order,
        rdp=rdp,
        rdp_release=rdp_release,
        beta=beta,
        sensitivity_bound=bound,
        noise_std=noise_of_cost,
        epsilon_data_independent=epsilon(flat, delta),
    )

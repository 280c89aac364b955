"""The three prices of a run of an aggregator, and the noise that meets a target price.

By default the target holds for any votes: with these parameters, K answers to at most N queries
cost no more, whatever the teachers say and whatever the noise does. `Basis.EXPECTED` aims at the
papers' expected cost instead, which allows less noise and guarantees less.

>>> setting = calibrate_gnmax(epsilon=2.0, delta=1e-5, max_answers=100)
>>> round(setting.aggregator.noise_std, 1), setting.epsilon <= 2.0
(24.4, True)
>>> votes = np.array([[240, 10], [130, 120], [250, 0]])
>>> price = price_of_answers(
...     setting.aggregator, votes, delta=1e-5, generator=np.random.default_rng(0))
>>> price.expected.epsilon <= price.realised.epsilon <= price.data_independent.epsilon
True
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    DecisionEvent,
    GaussianEvent,
    PureEvent,
    epsilon_from_rdp,
    epsilon_of,
    gaussian_rdp,
    pure_rdp,
)
from labeldp.mechanisms.pate.accounting import PateCost, QueryCosts, expected_of_settings
from labeldp.mechanisms.pate.aggregators import Aggregator, Answers, ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.votes import Floats, checked_votes
from labeldp.mechanisms.randomness import AnyGenerator

A = TypeVar("A", LNMax, GNMax, ConfidentGNMax)
B = TypeVar("B", LNMax, GNMax)

#: Shares of the budget that are tried for the checks, the rest being for the answers.
_CHECK_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
#: Thresholds that are tried, as fractions of the teachers.
_THRESHOLDS = tuple(np.linspace(0.1, 1.2, 23).tolist())
#: Factors on the noise that are tried when votes are allowed to lower the price.
_FACTORS: tuple[float, ...] = tuple(np.geomspace(1.0, 0.3, 20).tolist())
#: With more noise than this nothing is left of any vote.
MOST_NOISE = 1e15
#: What a solver's result is nudged by until its price is within the target.
_NUDGE = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class PatePrice:
    """What one run of an aggregator costs.

    Attributes:
        expected: The papers' kind of number: an average over the noise, private, not a guarantee.
        realised: What these answers cost with these votes: private.
        data_independent: What these answers cost with any votes, as a Renyi curve; publishable.
        data_independent_exact: The same by exact composition, never more; publishable.
        answers: The answers that `realised` and `data_independent` are about.
    """

    expected: PateCost[float]
    realised: PateCost[float]
    data_independent: PateCost[float]
    data_independent_exact: float
    answers: Answers


def expected_for(
    costs: QueryCosts,
    *,
    max_answers: int | None,
    delta: float,
    conversion: Conversion = Conversion.IMPROVED,
) -> PateCost[float]:
    """Expected cost up to the query at which `max_answers` answers are expected; None for all.

    That query is the first at which the expected number, rounded down, reaches `max_answers`; where
    none does, all queries are charged, and `answered` of the result says how many are expected.
    """
    if max_answers is None:
        return costs.expected(delta=delta, conversion=conversion)
    _validate.whole(minimum=1, max_answers=max_answers)
    if max_answers > len(costs):
        raise ValueError(f"max_answers is {max_answers}, but there are only {len(costs)} queries")
    expected = np.cumsum(np.exp(costs.log_probability))
    stop = min(int(np.searchsorted(expected, max_answers)), len(costs) - 1)
    return costs.head(stop + 1).expected(delta=delta, conversion=conversion)


def price_for_any_votes(
    aggregator: Aggregator,
    *,
    checked: int,
    answered: int,
    delta: float,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> PateCost[float]:
    """What so many checks and answers cost whatever the votes are; order `inf` marks pure DP.

    Interactive-GNMax costs what its Confident-GNMax does.
    """
    _validate.between(0, 1, delta=delta)
    rdp = np.zeros(len(ORDERS))
    pure = 0.0
    if isinstance(aggregator, LNMax):
        once = 2 / aggregator.scale
        pure = once * answered
        rdp = answered * pure_rdp(once, ORDERS)
    for event in aggregator.events(checked=checked, answered=answered, accounting=accounting):
        if isinstance(event, DecisionEvent):
            rdp = rdp + np.asarray(event.rdp)
        elif isinstance(event, GaussianEvent):
            rdp = rdp + gaussian_rdp(event.noise_multiplier, ORDERS)
        else:
            assert isinstance(event, PureEvent)  # counted above, answer by answer
    epsilon, order = epsilon_from_rdp(ORDERS, rdp, delta, conversion)
    if isinstance(aggregator, LNMax) and pure <= epsilon:
        epsilon, order = pure, np.inf
    return PateCost(epsilon=epsilon, order=order, answered=float(answered))


def price_of_answers(
    aggregator: Aggregator,
    votes: Any,
    *,
    delta: float,
    generator: AnyGenerator,
    max_answers: int | None = None,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> PatePrice:
    """Answer the queries once, up to `max_answers`, and price that: the three prices."""
    _validate.between(0, 1, delta=delta)
    counts = checked_votes(votes)
    answers = aggregator.respond(counts, generator=generator, max_answers=max_answers)
    return price_of_given_answers(
        aggregator,
        counts,
        answers,
        delta=delta,
        max_answers=max_answers,
        conversion=conversion,
        accounting=accounting,
    )


def price_of_given_answers(
    aggregator: Aggregator,
    votes: Any,
    answers: Answers,
    *,
    delta: float,
    max_answers: int | None = None,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> PatePrice:
    """Price answers of this aggregator to these votes, which stopped after `max_answers`."""
    costs = aggregator.costs(votes, accounting)
    checked, answered = answers.checked, answers.answered
    any_votes = price_for_any_votes(
        aggregator,
        checked=checked,
        answered=answered,
        delta=delta,
        conversion=conversion,
        accounting=accounting,
    )
    events = aggregator.events(checked=checked, answered=answered, accounting=accounting)
    return PatePrice(
        expected=expected_for(costs, max_answers=max_answers, delta=delta, conversion=conversion),
        realised=costs.head(checked).realised(
            answers.by_teachers[:checked], delta=delta, conversion=conversion
        ),
        data_independent=any_votes,
        data_independent_exact=min(epsilon_of(events, delta=delta), any_votes.epsilon),
        answers=answers,
    )


class Basis(StrEnum):
    """What the target epsilon is a target of.

    DATA_INDEPENDENT: The cost of N checks and K answers for any votes: a guarantee.
    EXPECTED: The papers' expected cost with these votes: an average, private, and smaller.
    """

    DATA_INDEPENDENT = "data_independent"
    EXPECTED = "expected"


@dataclass(frozen=True, kw_only=True)
class CalibratedAggregator(Generic[A]):
    """An aggregator and its price, computed anew and at most the target.

    `chosen_from_votes`: parameters depend on the votes. Such a choice is itself a query that
    nothing here charges: make it on public votes, or give the parameters. `expected_answers` is
    None where all queries are answered.
    """

    aggregator: A
    epsilon: float
    delta: float
    basis: Basis
    chosen_from_votes: bool
    expected_answers: float | None


def least_noise(price: Callable[[float], float], target: float) -> float:
    """Smallest noise whose price is within the target; prices fall as noise rises."""
    low, high = 1.0, 1.0
    while price(high) > target:
        high *= 2
        if high > MOST_NOISE:
            raise ValueError(
                f"epsilon is {target}; at this delta Renyi orders up to {ORDERS[-1]:.0f} show no "
                f"less than {price(high):.4g}, whatever the noise: raise epsilon or delta"
            )
    while price(low) <= target:
        low /= 2
    log_noise = brentq(lambda x: price(math.exp(x)) - target, math.log(low), math.log(high))
    noise = math.exp(float(log_noise))
    while price(noise) > target:
        noise *= _NUDGE
    return noise


@dataclass(frozen=True, kw_only=True)
class _Target:
    """What a calibration aims at, and how it prices; its arguments of these names."""

    epsilon: float
    delta: float
    max_answers: int
    conversion: Conversion
    accounting: Accounting = Accounting.DECISION

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.between(0, 1, delta=self.delta)
        _validate.whole(minimum=1, max_answers=self.max_answers)

    def guaranteed(self, aggregator: Aggregator, *, checked: int) -> float:
        """Epsilon for any votes of all answers, and of so many checks."""
        return price_for_any_votes(
            aggregator,
            checked=checked,
            answered=self.max_answers,
            delta=self.delta,
            conversion=self.conversion,
            accounting=self.accounting,
        ).epsilon

    def expected(self, aggregator: ConfidentGNMax, votes: NDArray[Any]) -> float:
        """Epsilon to expect with these votes."""
        costs = aggregator.costs(votes, self.accounting)
        return expected_for(
            costs, max_answers=self.max_answers, delta=self.delta, conversion=self.conversion
        ).epsilon

    def always_answering(self, at: Callable[[float], B]) -> CalibratedAggregator[B]:
        """The aggregator with the least noise, of those that answer every query."""
        checked = self.max_answers
        noise = least_noise(lambda x: self.guaranteed(at(x), checked=checked), self.epsilon)
        return CalibratedAggregator(
            aggregator=at(noise),
            epsilon=self.guaranteed(at(noise), checked=checked),
            delta=self.delta,
            basis=Basis.DATA_INDEPENDENT,
            chosen_from_votes=False,
            expected_answers=None,
        )


def calibrate_gnmax(
    *,
    epsilon: float,
    delta: float,
    max_answers: int,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> CalibratedAggregator[GNMax]:
    """GNMax whose `max_answers` answers cost at most `epsilon`, for any votes."""
    target = _Target(
        epsilon=epsilon,
        delta=delta,
        max_answers=max_answers,
        conversion=conversion,
        accounting=accounting,
    )
    return target.always_answering(lambda noise_std: GNMax(noise_std=noise_std))


def calibrate_lnmax(
    *,
    epsilon: float,
    delta: float,
    max_answers: int,
    conversion: Conversion = Conversion.IMPROVED,
) -> CalibratedAggregator[LNMax]:
    """LNMax whose `max_answers` answers cost at most `epsilon`, for any votes."""
    target = _Target(epsilon=epsilon, delta=delta, max_answers=max_answers, conversion=conversion)
    return target.always_answering(lambda scale: LNMax(scale=scale))


# More parameters than others: its siblings' ways to price, and the two parts that its budget has.
def calibrate_confident_gnmax(
    votes: Any,
    *,
    epsilon: float,
    delta: float,
    max_answers: int,
    threshold: float | None = None,
    check_share: float | None = None,
    basis: Basis = Basis.DATA_INDEPENDENT,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> CalibratedAggregator[ConfidentGNMax]:
    """Confident-GNMax that answers up to `max_answers` of these queries for at most `epsilon`.

    The budget is split between the checks of all N queries and the K answers; `check_share` is the
    checks' part. Threshold and split are the ones with the most correct answers to expect, unless
    they are given. With `Basis.EXPECTED` settings are compared by the published bounds, and the one
    that is chosen is scaled to the target by the price of `accounting`.
    """
    target = _Target(
        epsilon=epsilon,
        delta=delta,
        max_answers=max_answers,
        conversion=conversion,
        accounting=accounting,
    )
    counts = checked_votes(votes)

    def price(aggregator: ConfidentGNMax) -> float:
        if basis is Basis.EXPECTED:
            return target.expected(aggregator, counts)
        return target.guaranteed(aggregator, checked=len(counts))

    settings = _settings(target, counts, threshold=threshold, check_share=check_share, basis=basis)
    aggregator = _scaled(
        _most_correct(target, counts, settings, basis), price, epsilon=epsilon, basis=basis
    )
    return CalibratedAggregator(
        aggregator=aggregator,
        epsilon=price(aggregator),
        delta=delta,
        basis=basis,
        chosen_from_votes=threshold is None or check_share is None or basis is Basis.EXPECTED,
        expected_answers=float(np.exp(aggregator.costs(counts).log_probability).sum()),
    )


def _settings(
    target: _Target,
    votes: NDArray[Any],
    *,
    threshold: float | None,
    check_share: float | None,
    basis: Basis,
) -> Floats:
    """Rows (sigma1, sigma2, threshold) to try [S, 3]."""
    if target.max_answers > len(votes):
        raise ValueError(
            f"max_answers is {target.max_answers}, but there are only {len(votes)} queries"
        )
    if threshold is not None:
        _validate.non_negative(threshold=threshold)
    if check_share is not None:
        _validate.between(0, 1, check_share=check_share)
    shares = _CHECK_SHARES if check_share is None else (check_share,)
    noise = [_split_noise(target, share, num_queries=len(votes)) for share in shares]
    teachers = int(votes[0].sum())
    thresholds = (
        sorted({round(fraction * teachers) for fraction in _THRESHOLDS})
        if threshold is None
        else [threshold]
    )
    return np.array(
        [
            (factor * sigma1, factor * sigma2, tau)
            for factor in (_FACTORS if basis is Basis.EXPECTED else (1.0,))
            for sigma1, sigma2 in noise
            for tau in thresholds
        ]
    )


def _split_noise(target: _Target, share: float, *, num_queries: int) -> tuple[float, float]:
    """Noise of checks and answers whose price just meets the target, the checks paying `share`."""
    checks, answers = num_queries / share, 2 * target.max_answers / (1 - share)

    def at(scale: float) -> ConfidentGNMax:
        return ConfidentGNMax(
            threshold=0.0, sigma1=scale * math.sqrt(checks), sigma2=scale * math.sqrt(answers)
        )

    def price(scale: float) -> float:
        return target.guaranteed(at(scale), checked=num_queries)

    # The price does not depend on the threshold.
    found = at(least_noise(price, target.epsilon))
    return found.sigma1, found.sigma2


def _most_correct(
    target: _Target, votes: NDArray[Any], settings: Floats, basis: Basis
) -> ConfidentGNMax:
    """The setting with the most correct answers to expect, among those within the target."""
    cost, correct = expected_of_settings(
        votes,
        settings,
        delta=target.delta,
        max_answers=target.max_answers,
        conversion=target.conversion,
    )
    wanted = correct.copy()
    if basis is Basis.EXPECTED and (cost.epsilon <= target.epsilon).any():
        wanted[cost.epsilon > target.epsilon] = -1.0
    sigma1, sigma2, threshold = settings[int(wanted.argmax())].tolist()
    return ConfidentGNMax(threshold=threshold, sigma1=sigma1, sigma2=sigma2)


def _scaled(
    chosen: ConfidentGNMax,
    price: Callable[[ConfidentGNMax], float],
    *,
    epsilon: float,
    basis: Basis,
) -> ConfidentGNMax:
    """The same with so much noise that its price is within the target, and hardly more."""

    def at(factor: float) -> ConfidentGNMax:
        return replace(chosen, sigma1=chosen.sigma1 * factor, sigma2=chosen.sigma2 * factor)

    factor = 1.0
    if basis is Basis.EXPECTED:
        factor = _least_factor(lambda scale: price(at(scale)), epsilon)
    while price(at(factor)) > epsilon:
        factor *= _NUDGE
    return at(factor)


def _least_factor(price: Callable[[float], float], target: float) -> float:
    """Factor on the noise that uses up what the grid of factors has left of the target.

    Data-dependent prices are not monotone in the noise: this stays within a step of the grid, and
    what it returns has been priced.
    """
    within, above = 1.0, _FACTORS[1]
    while price(within) > target:
        within, above = within / _FACTORS[1], within
    for _ in _FACTORS:  # an exact price leaves more than a step of what the published one used
        if price(above) > target:
            break
        within, above = above, above * _FACTORS[1]
    else:  # votes that agree cost less and less, whatever the noise
        return within
    for _ in range(12):
        middle = math.sqrt(within * above)
        if price(middle) <= target:
            within = middle
        else:
            above = middle
    return within

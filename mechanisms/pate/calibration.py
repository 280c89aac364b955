"""From a target epsilon to an aggregator's noise, re-priced after solving.

By default the target holds for any votes: with these parameters, K answers to at most N queries
cost no more, whatever the teachers say and whatever the noise does. `Basis.EXPECTED` aims at the
papers' expected cost instead, which allows less noise and guarantees less.

>>> setting = calibrate_gnmax(epsilon=2.0, delta=1e-5, max_answers=100)
>>> round(setting.aggregator.noise_std, 1), setting.epsilon <= 2.0
(24.4, True)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.optimize import brentq

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import ORDERS, Conversion
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.decision_events import Accounting
from labeldp.mechanisms.pate.many_settings import expected_of_settings
from labeldp.mechanisms.pate.pricing import expected_for, price_for_any_votes
from labeldp.mechanisms.pate.renyi_bounds import Floats
from labeldp.mechanisms.pate.votes import checked_votes

A = TypeVar("A", LNMax, GNMax, ConfidentGNMax)

#: Shares of the budget that are tried for the checks, the rest being for the answers.
_CHECK_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
#: Thresholds that are tried, as fractions of the teachers.
_THRESHOLDS = tuple(np.linspace(0.1, 1.2, 23).tolist())
#: Factors on the noise that are tried when votes are allowed to lower the price.
_FACTORS: tuple[float, ...] = tuple(np.geomspace(1.0, 0.3, 20).tolist())
#: With more noise than this nothing is left of any vote.
_MOST_NOISE = 1e15
#: What a solver's result is nudged by until its price is within the target.
_NUDGE = 1 + 1e-12


class Basis(StrEnum):
    """What the target epsilon is a target of.

    DATA_INDEPENDENT: The cost of N checks and K answers for any votes: a guarantee.
    EXPECTED: The papers' expected cost with these votes: an average, private, and smaller.
    """

    DATA_INDEPENDENT = "data_independent"
    EXPECTED = "expected"


@dataclass(frozen=True, kw_only=True)
class CalibratedAggregator(Generic[A]):
    """An aggregator and its price.

    Attributes:
        aggregator: With the noise that was found.
        epsilon: Its price, computed anew; at most the target.
        delta: Of the price.
        basis: What was priced.
        chosen_from_votes: Whether parameters depend on the votes: such a choice is itself a query
            that nothing here charges. Make it on votes that are public, or give the parameters.
        expected_answers: Answers to expect with these votes; None where all queries are answered.
    """

    aggregator: A
    epsilon: float
    delta: float
    basis: Basis
    chosen_from_votes: bool
    expected_answers: float | None


def _least_noise(price: Callable[[float], float], target: float) -> float:
    """Smallest noise whose price is within the target; prices fall as noise rises."""
    low, high = 1.0, 1.0
    while price(high) > target:
        high *= 2
        if high > _MOST_NOISE:
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


def _check_target(epsilon: float, delta: float, max_answers: int) -> None:
    _validate.positive(epsilon=epsilon)
    _validate.between(0, 1, delta=delta)
    _validate.whole(minimum=1, max_answers=max_answers)


def calibrate_gnmax(
    *,
    epsilon: float,
    delta: float,
    max_answers: int,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> CalibratedAggregator[GNMax]:
    """GNMax whose `max_answers` answers cost at most `epsilon`, for any votes.

    Args:
        epsilon: Target, above 0.
        delta: In (0, 1).
        max_answers: K, at least 1.
        conversion: From Renyi curves.
        accounting: The price of decisions, or the published one of counts.

    Raises:
        ValueError: An argument out of range.
    """
    _check_target(epsilon, delta, max_answers)

    def price(noise_std: float) -> float:
        return price_for_any_votes(
            GNMax(noise_std=noise_std),
            checked=max_answers,
            answered=max_answers,
            delta=delta,
            conversion=conversion,
            accounting=accounting,
        ).epsilon

    noise_std = _least_noise(price, epsilon)
    return CalibratedAggregator(
        aggregator=GNMax(noise_std=noise_std),
        epsilon=price(noise_std),
        delta=delta,
        basis=Basis.DATA_INDEPENDENT,
        chosen_from_votes=False,
        expected_answers=None,
    )


def calibrate_lnmax(
    *,
    epsilon: float,
    delta: float,
    max_answers: int,
    conversion: Conversion = Conversion.IMPROVED,
) -> CalibratedAggregator[LNMax]:
    """LNMax whose `max_answers` answers cost at most `epsilon`, for any votes.

    Arguments and errors as for `calibrate_gnmax`; there is one price only.
    """
    _check_target(epsilon, delta, max_answers)

    def price(scale: float) -> float:
        return price_for_any_votes(
            LNMax(scale=scale),
            checked=max_answers,
            answered=max_answers,
            delta=delta,
            conversion=conversion,
        ).epsilon

    scale = _least_noise(price, epsilon)
    return CalibratedAggregator(
        aggregator=LNMax(scale=scale),
        epsilon=price(scale),
        delta=delta,
        basis=Basis.DATA_INDEPENDENT,
        chosen_from_votes=False,
        expected_answers=None,
    )


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

    The budget is split between the checks of all N queries and the K answers. Threshold and split
    are the ones with the most correct answers to expect, unless they are given. With
    `Basis.EXPECTED` settings are compared by the published bounds, and the one that is chosen is
    scaled to the target by the price that was asked for.

    Args:
        votes: Counts [N, K], one vote per teacher.
        epsilon: Target, above 0.
        delta: In (0, 1).
        max_answers: Answers that are wanted, from 1 to N.
        threshold: Of the check; chosen from the votes if None.
        check_share: Share of the budget for the checks, in (0, 1); chosen from the votes if None.
        basis: What the target is a target of.
        conversion: From Renyi curves.
        accounting: The price of decisions, or the published one of counts.

    Raises:
        ValueError: Votes that are none (the row is named), an argument out of range, more answers
            than queries.
    """
    _check_target(epsilon, delta, max_answers)
    counts = checked_votes(votes)
    num_queries = len(counts)
    if max_answers > num_queries:
        raise ValueError(f"max_answers is {max_answers}, but there are only {num_queries} queries")
    if threshold is not None:
        _validate.non_negative(threshold=threshold)
    if check_share is not None:
        _validate.between(0, 1, check_share=check_share)

    def guaranteed(aggregator: ConfidentGNMax) -> float:
        return price_for_any_votes(
            aggregator,
            checked=num_queries,
            answered=max_answers,
            delta=delta,
            conversion=conversion,
            accounting=accounting,
        ).epsilon

    def expected(aggregator: ConfidentGNMax) -> float:
        costs = aggregator.costs(counts, accounting)
        return expected_for(
            costs, max_answers=max_answers, delta=delta, conversion=conversion
        ).epsilon

    shares = _CHECK_SHARES if check_share is None else (check_share,)
    noise = [
        _split_noise(guaranteed, epsilon, share, num_queries=num_queries, max_answers=max_answers)
        for share in shares
    ]
    settings = _settings(noise, threshold, teachers=int(counts[0].sum()), basis=basis)
    outcome = expected_of_settings(
        counts, settings, delta=delta, max_answers=max_answers, conversion=conversion
    )
    wanted = outcome.correct.copy()
    if basis is Basis.EXPECTED and (outcome.epsilon <= epsilon).any():
        wanted[outcome.epsilon > epsilon] = -1.0
    sigma1, sigma2, tau = settings[int(wanted.argmax())].tolist()

    def scaled(factor: float) -> ConfidentGNMax:
        return ConfidentGNMax(threshold=tau, sigma1=sigma1 * factor, sigma2=sigma2 * factor)

    price = guaranteed if basis is Basis.DATA_INDEPENDENT else expected
    factor = 1.0
    if basis is Basis.EXPECTED:
        factor = _least_factor(lambda scale: expected(scaled(scale)), epsilon)
    while price(scaled(factor)) > epsilon:
        factor *= _NUDGE
    aggregator = scaled(factor)
    return CalibratedAggregator(
        aggregator=aggregator,
        epsilon=price(aggregator),
        delta=delta,
        basis=basis,
        chosen_from_votes=threshold is None or check_share is None or basis is Basis.EXPECTED,
        expected_answers=float(np.exp(aggregator.costs(counts).log_probability).sum()),
    )


def _split_noise(
    price: Callable[[ConfidentGNMax], float],
    epsilon: float,
    share: float,
    *,
    num_queries: int,
    max_answers: int,
) -> tuple[float, float]:
    """Noise of checks and answers whose price just meets the target, the checks paying `share`."""
    checks, answers = num_queries / share, 2 * max_answers / (1 - share)

    def at(scale: float) -> ConfidentGNMax:
        return ConfidentGNMax(
            threshold=0.0, sigma1=scale * math.sqrt(checks), sigma2=scale * math.sqrt(answers)
        )

    # The price does not depend on the threshold.
    found = at(_least_noise(lambda scale: price(at(scale)), epsilon))
    return found.sigma1, found.sigma2


def _settings(
    noise: list[tuple[float, float]], threshold: float | None, *, teachers: int, basis: Basis
) -> Floats:
    """Rows (sigma1, sigma2, threshold) to try [S, 3]."""
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

"""The three prices of a run of an aggregator, and the noise that meets a target price.

The target holds for any votes: with these parameters, K answers to at most N queries cost no more,
for any votes and any draw of the noise.

>>> votes = np.array([[240, 10], [130, 120], [250, 0]])
>>> aggregator = calibrate_confident_gnmax(votes, epsilon=2.0, delta=1e-5, max_answers=2)
>>> price_for_any_votes(aggregator, checked=3, answered=2, delta=1e-5).epsilon <= 2.0
True
>>> answers = aggregator.respond(votes, generator=np.random.default_rng(0))
>>> price = price_of_answers(aggregator, votes, answers, delta=1e-5)
>>> price.realised.epsilon <= price.data_independent.epsilon
True
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import LARGEST_WHOLE_SCALE, checked_votes
from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    brentq,
    epsilon_from_rdp,
    epsilon_of,
    pure_rdp,
    renyi_curve,
)
from labeldp.mechanisms.pate.accounting import PateCost
from labeldp.mechanisms.pate.aggregators import Aggregator, Answers, ConfidentGNMax, LNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.published_bounds import log_probability_answered, log_q_gaussian

#: Shares of the budget that are tried for the checks, the rest being for the answers.
_CHECK_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
#: Thresholds that are tried, as fractions of the teachers.
_THRESHOLDS = tuple(np.linspace(0.1, 1.2, 23).tolist())
#: A solver's result is raised by this factor until its price is within the target.
_NUDGE = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class PatePrice:
    """The cost of one run of an aggregator.

    Attributes:
        expected: The papers' kind of number: an average over the noise, private, not a guarantee.
        realised: The cost of these answers with these votes: private.
        data_independent: The cost of these answers with any votes, as a Renyi curve; publishable.
        data_independent_exact: The same by exact composition, never more; publishable.
    """

    expected: PateCost
    realised: PateCost
    data_independent: PateCost
    data_independent_exact: float


@_validate.plain_numbers
def price_for_any_votes(
    aggregator: Aggregator,
    *,
    checked: int,
    answered: int,
    delta: float,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> PateCost:
    """Cost of so many checks and answers for any votes; order `inf` marks pure DP."""
    _validate.between(0, 1, delta=delta)
    events = aggregator.events(checked=checked, answered=answered, accounting=accounting)
    (_, rdp), pure = renyi_curve(events), math.inf
    if isinstance(aggregator, LNMax):  # Renyi curves add up answer by answer, below the pure cost
        pure = 2 / aggregator.scale * answered
        rdp = answered * pure_rdp(2 / aggregator.scale, ORDERS)
    epsilon, order = epsilon_from_rdp(ORDERS, rdp, delta, conversion)
    if pure <= epsilon:
        epsilon, order = pure, np.inf
    return PateCost(epsilon=epsilon, order=order, answered=float(answered))


def price_of_answers(
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
        expected=costs.until(max_answers).cost(delta=delta, conversion=conversion),
        realised=costs.head(checked).cost(
            answered=answers.by_teachers[:checked], delta=delta, conversion=conversion
        ),
        data_independent=any_votes,
        data_independent_exact=min(epsilon_of(events, delta=delta), any_votes.epsilon),
    )


def least_noise(price: Callable[[float], float], target: float) -> float:
    """Smallest noise whose price is within the target; prices fall as noise rises."""
    low, high = 1.0, 1.0
    while price(high) > target:
        if high >= LARGEST_WHOLE_SCALE:
            raise ValueError(
                f"epsilon is {target}; at this delta, Renyi orders up to {ORDERS[-1]:.0f} prove no "
                f"less than {price(high):.4g} with any noise; raise epsilon or delta"
            )
        high *= 2
    while price(low) <= target:
        low /= 2
    log_noise = brentq(lambda x: price(math.exp(x)) - target, math.log(low), math.log(high))
    noise = math.exp(float(log_noise))
    while price(noise) > target:
        noise *= _NUDGE
    return noise


@_validate.plain_numbers
def calibrate_confident_gnmax(
    votes: Any,
    *,
    epsilon: float,
    delta: float,
    max_answers: int,
    accounting: Accounting = Accounting.DECISION,
) -> ConfidentGNMax:
    """Confident-GNMax that answers up to `max_answers` of these queries for at most `epsilon`.

    The budget is split between the checks of all N queries and the K answers. Threshold and split
    are the ones with the most correct answers to expect. Such a choice is itself a query that
    nothing here charges: make it on public votes.
    """
    _validate.positive(epsilon=epsilon)
    _validate.between(0, 1, delta=delta)
    counts = checked_votes(votes)
    _validate.enough_queries(max_answers, len(counts))
    teachers = int(counts[0].sum())
    thresholds = sorted({float(round(fraction * teachers)) for fraction in _THRESHOLDS})

    def price(aggregator: ConfidentGNMax) -> float:
        return price_for_any_votes(
            aggregator,
            checked=len(counts),
            answered=max_answers,
            delta=delta,
            accounting=accounting,
        ).epsilon

    def split(share: float) -> ConfidentGNMax:
        """The noise of checks and answers whose price meets the target, the checks paying it."""
        checks, answers = len(counts) / share, 2 * max_answers / (1 - share)

        def at(scale: float) -> ConfidentGNMax:
            return ConfidentGNMax(
                threshold=0.0,  # changes no price
                sigma1=scale * math.sqrt(checks),
                sigma2=scale * math.sqrt(answers),
            )

        return at(least_noise(lambda scale: price(at(scale)), epsilon))

    best, most = None, -1.0
    for share in _CHECK_SHARES:
        noise = split(share)
        right = -np.expm1(log_q_gaussian(counts, noise.sigma2))
        for tau in thresholds:
            tried = replace(noise, threshold=tau)
            correct = _correct_answers(counts, tried, right, max_answers)
            if correct > most:
                best, most = tried, correct
    assert best is not None
    return best


def _correct_answers(
    votes: NDArray[Any], aggregator: ConfidentGNMax, right: NDArray[Any], max_answers: int
) -> float:
    """Lower bound on the answers to expect that are the teachers' plurality.

    `right` is the least probability of such an answer to each query [N]. Where more answers are
    expected than `max_answers`, they are the first ones of queries in random order.
    """
    answered = np.exp(log_probability_answered(votes, aggregator.threshold, aggregator.sigma1))
    return float(answered @ right * min(1.0, max_answers / max(answered.sum(), 1e-300)))

"""The three prices of a run of an aggregator, side by side.

>>> import numpy as np
>>> from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
>>> aggregator = ConfidentGNMax(threshold=200.0, sigma1=150.0, sigma2=40.0)
>>> votes = np.array([[240, 10], [130, 120], [250, 0]])
>>> price = price_of_answers(aggregator, votes, delta=1e-5, generator=np.random.default_rng(0))
>>> price.expected
PateCost(epsilon=0.1088, order=74, answered=1.556)
>>> price.realised.epsilon <= price.data_independent.epsilon
True
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

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
from labeldp.mechanisms.pate.aggregators import Aggregator, Answers, LNMax
from labeldp.mechanisms.pate.decision_events import Accounting
from labeldp.mechanisms.pate.query_costs import PateCost, QueryCosts
from labeldp.mechanisms.pate.votes import checked_votes
from labeldp.mechanisms.randomness import AnyGenerator


@dataclass(frozen=True, kw_only=True)
class PatePrice:
    """What one run of an aggregator costs.

    Attributes:
        expected: The papers' kind of number: an average over the noise, private, no guarantee.
        realised: What these answers cost with these votes: private.
        data_independent: What these answers cost with any votes, as a Renyi curve; publishable.
        data_independent_exact: The same by exact composition, never more; publishable.
        answers: The answers that `realised` and `data_independent` are about.
    """

    expected: PateCost
    realised: PateCost
    data_independent: PateCost
    data_independent_exact: float
    answers: Answers


def expected_for(
    costs: QueryCosts,
    *,
    max_answers: int | None,
    delta: float,
    conversion: Conversion = Conversion.IMPROVED,
) -> PateCost:
    """Expected cost up to the query at which `max_answers` answers are expected.

    That query is the first at which the expected number, rounded down, reaches `max_answers`; where
    none does, all queries are charged, and `answered` of the result says how many are expected.

    Args:
        costs: Of N queries.
        max_answers: From 1 to N; None for all queries.
        delta: In (0, 1).
        conversion: From Renyi curves.

    Raises:
        ValueError: More answers than queries, delta out of range.
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
) -> PateCost:
    """What so many checks and answers cost whatever the votes are; order `inf` marks pure DP.

    Args:
        aggregator: Any but Interactive-GNMax, which costs what its Confident-GNMax does.
        checked: Queries looked at.
        answered: Queries answered.
        delta: In (0, 1).
        conversion: From Renyi curves.
        accounting: The price of decisions, or the published one of counts.

    Raises:
        ValueError: Counts or delta out of range.
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
    """Answer the queries once and say what that costs, by all three counts.

    Args:
        aggregator: LNMax, GNMax or Confident-GNMax.
        votes: Counts [N, K], one vote per teacher.
        delta: In (0, 1).
        generator: Source of the aggregator's noise.
        max_answers: Stop after so many answers.
        conversion: From Renyi curves.
        accounting: The price of decisions, or the published one of counts.

    Raises:
        ValueError: Not vote counts (the row is named), more answers than queries, delta out of
            range.
    """
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
    """Price answers that were given: to see both prices of the same answers.

    Args:
        aggregator: LNMax, GNMax or Confident-GNMax.
        votes: Counts [N, K], one vote per teacher.
        answers: Of this aggregator to these votes.
        delta: In (0, 1).
        max_answers: After how many the answers stopped.
        conversion: From Renyi curves.
        accounting: The price of decisions, or the published one of counts.

    Raises:
        ValueError: Not vote counts (the row is named), delta out of range.
    """
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

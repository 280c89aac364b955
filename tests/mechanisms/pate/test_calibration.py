"""The price of a run for any votes, and the least noise that just meets a target."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    epsilon_from_rdp,
    pure_rdp,
)
from labeldp.mechanisms.pate.accounting import PateCost
from labeldp.mechanisms.pate.aggregators import (
    Aggregator,
    ConfidentGNMax,
    GNMax,
    LNMax,
    least_noise,
    price_for_any_votes,
)
from labeldp.mechanisms.pate.decisions import Accounting


@pytest.mark.parametrize("make", [lambda x: GNMax(noise_std=x), lambda x: LNMax(scale=x)])
@pytest.mark.parametrize("conversion", Conversion)
@pytest.mark.parametrize("target", [0.1, 2.0, 30.0])
def test_the_least_noise_just_meets_the_target(
    make: Callable[[float], Aggregator], conversion: Conversion, target: float
) -> None:
    def price(noise: float) -> float:
        return price_for_any_votes(
            make(noise), checked=64, answered=64, delta=1e-5, conversion=conversion
        ).epsilon

    assert target * (1 - 1e-6) <= price(least_noise(price, target)) <= target
    with pytest.raises(ValueError, match="raise epsilon or delta"):
        least_noise(lambda noise: 1.0 + price(noise), 0.9)


def test_prices_for_any_votes_are_those_of_the_formulas() -> None:
    def price(aggregator: Aggregator, answered: int, **how: Any) -> PateCost:
        return price_for_any_votes(
            aggregator, checked=answered, answered=answered, delta=1e-5, **how
        )

    laplace = LNMax(scale=20.0)
    few, many = price(laplace, 3), price(laplace, 400)
    assert (few.epsilon, few.order, few.answered) == pytest.approx((0.3, math.inf, 3.0))
    expected = epsilon_from_rdp(ORDERS, 400 * pure_rdp(0.1, ORDERS), 1e-5)
    assert (many.epsilon, many.order) == pytest.approx(expected) and many.epsilon < 40
    for conversion in Conversion:
        normal = price(
            GNMax(noise_std=20.0), 50, conversion=conversion, accounting=Accounting.COUNTS
        )
        expected = epsilon_from_rdp(ORDERS, 50 * ORDERS / 20**2, 1e-5, conversion)
        assert (normal.epsilon, normal.order) == pytest.approx(expected)


AGGREGATORS: list[Aggregator] = [
    LNMax(scale=20.0),
    GNMax(noise_std=20.0),
    ConfidentGNMax(threshold=60.0, sigma1=40.0, sigma2=20.0),
]
MIXED = np.random.default_rng(1).multinomial(100, [0.75, 0.15, 0.1], size=200)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("accounting", Accounting)
@pytest.mark.parametrize("conversion", Conversion)
def test_no_votes_cost_more(
    aggregator: Aggregator, accounting: Accounting, conversion: Conversion
) -> None:
    answers = aggregator.respond(MIXED, generator=np.random.default_rng(0), max_answers=50)
    checked = answers.checked
    any_votes = price_for_any_votes(
        aggregator,
        checked=checked,
        answered=answers.answered,
        delta=1e-5,
        conversion=conversion,
        accounting=accounting,
    )
    costs = aggregator.costs(MIXED, accounting)
    realised = costs.head(checked).cost(
        answered=answers.by_teachers[:checked], delta=1e-5, conversion=conversion
    )
    expected = costs.until(50).cost(delta=1e-5, conversion=conversion)
    assert answers.answered == realised.answered == any_votes.answered == 50
    assert 0 < realised.epsilon <= any_votes.epsilon
    assert 50 <= expected.answered < 51
    has_check = isinstance(aggregator, ConfidentGNMax)
    assert expected.epsilon == pytest.approx(realised.epsilon, rel=0.2 if has_check else 1e-12)

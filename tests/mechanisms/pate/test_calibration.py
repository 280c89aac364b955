"""The three prices of a run, and calibrated aggregators: within the target, not far below it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    epsilon_from_rdp,
    gaussian_epsilon,
    pure_rdp,
)
from labeldp.mechanisms.pate.accounting import PateCost
from labeldp.mechanisms.pate.aggregators import Aggregator, ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.calibration import (
    calibrate_confident_gnmax,
    least_noise,
    price_for_any_votes,
    price_of_answers,
)
from labeldp.mechanisms.pate.decisions import Accounting

LEADERS = np.random.default_rng(1).integers(60, 101, size=400)
VOTES = np.stack([LEADERS, 100 - LEADERS], axis=1)


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


@pytest.mark.parametrize("target", [1e-3, 0.7, 1.0, 50.0])
def test_the_least_noise_of_a_price_that_is_its_inverse(target: float) -> None:
    noise = least_noise(lambda noise: 1 / noise, target)
    assert 1 / noise <= target and noise == pytest.approx(1 / target, rel=1e-9)


def test_confident_gnmax_stays_within_the_target_whatever_happens() -> None:
    wanted: dict[str, Any] = {"epsilon": 1.5, "delta": 1e-5, "max_answers": 100}
    found, by_counts = (
        calibrate_confident_gnmax(VOTES, **wanted, accounting=each) for each in Accounting
    )
    for aggregator, accounting in ((found, Accounting.DECISION), (by_counts, Accounting.COUNTS)):
        price = price_for_any_votes(
            aggregator, checked=400, answered=100, delta=1e-5, accounting=accounting
        )
        assert 1.5 * (1 - 1e-6) <= price.epsilon <= 1.5
    assert found.sigma1 * found.sigma2 < 0.7 * by_counts.sigma1 * by_counts.sigma2
    # One of the shares that are tried, of 400 checks and 100 answers, which move two counts each.
    ratio = (found.sigma1 / found.sigma2) ** 2
    splits = [2 * (1 - share) / share for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)]
    assert any(ratio == pytest.approx(split) for split in splits)
    assert found.threshold > 100
    assert np.exp(found.costs(VOTES).log_probability).sum() > 90
    for seed in range(5):
        answers = found.respond(VOTES, generator=np.random.default_rng(seed), max_answers=100)
        run = price_of_answers(found, VOTES, answers, delta=1e-5, max_answers=100)
        assert run.realised.epsilon <= run.data_independent.epsilon * (1 + 1e-12)
        assert run.data_independent.epsilon <= 1.5 and run.expected.epsilon <= 1.5


AGGREGATORS: list[Aggregator] = [
    LNMax(scale=20.0),
    GNMax(noise_std=20.0),
    ConfidentGNMax(threshold=60.0, sigma1=40.0, sigma2=20.0),
]
MIXED = np.random.default_rng(1).multinomial(100, [0.75, 0.15, 0.1], size=200)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("conversion", Conversion)
def test_prices_of_one_run(aggregator: Aggregator, conversion: Conversion) -> None:
    answers = aggregator.respond(MIXED, generator=np.random.default_rng(0), max_answers=50)
    price, counts = (
        price_of_answers(
            aggregator,
            MIXED,
            answers,
            delta=1e-5,
            max_answers=50,
            conversion=conversion,
            accounting=each,
        )
        for each in Accounting
    )
    assert answers.answered == price.realised.answered == price.data_independent.answered == 50
    assert price.data_independent == price_for_any_votes(
        aggregator, checked=answers.checked, answered=50, delta=1e-5, conversion=conversion
    )
    if isinstance(aggregator, GNMax):
        exact = gaussian_epsilon(noise_multiplier=20.0 / math.sqrt(2 * 50), delta=1e-5)
        assert counts.data_independent_exact == pytest.approx(exact, rel=1e-12)
    assert 0 < price.realised.epsilon <= price.data_independent.epsilon
    assert 0 < price.data_independent_exact <= price.data_independent.epsilon
    assert 50 <= price.expected.answered < 51
    if isinstance(aggregator, ConfidentGNMax):
        assert answers.checked > 50
        assert price.expected.epsilon == pytest.approx(price.realised.epsilon, rel=0.2)
    else:
        assert answers.checked == 50
        assert price.expected == price.realised
    if isinstance(aggregator, LNMax):
        assert counts == price
    else:  # the same answers, priced as published
        assert price.realised.epsilon < 0.9 * counts.realised.epsilon
        assert price.expected.epsilon < 0.9 * counts.expected.epsilon
        assert price.data_independent.epsilon < 0.9 * counts.data_independent.epsilon
        assert price.data_independent_exact <= counts.data_independent_exact

"""Many settings at once: the same numbers as one at a time."""

import math
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import Conversion
from labeldp.mechanisms.pate.accounting import confident_gnmax_costs, expected_of_settings
from labeldp.mechanisms.pate.published_bounds import log_q_gaussian

VOTES = np.random.default_rng(1).multinomial(100, [0.7, 0.1, 0.2], size=300)


@pytest.mark.parametrize("conversion", Conversion)
def test_settings_cost_what_each_costs_alone(conversion: Conversion) -> None:
    generator = np.random.default_rng(2)
    settings = np.stack(
        [
            generator.uniform(10, 60, size=150),
            generator.choice([8.0, 15.0, 31.5], size=150),  # more than 64 share one
            generator.uniform(0, 120, size=150),
        ],
        axis=1,
    )
    together, correct = expected_of_settings(VOTES, settings, delta=1e-6, conversion=conversion)
    for s in range(0, 150, 7):
        sigma1, sigma2, threshold = settings[s].tolist()
        costs = confident_gnmax_costs(VOTES, threshold=threshold, sigma1=sigma1, sigma2=sigma2)
        alone = costs.expected(delta=1e-6, conversion=conversion)
        assert together.epsilon[s] == pytest.approx(alone.epsilon, rel=1e-12)
        assert together.order[s] == alone.order
        assert together.answered[s] == pytest.approx(alone.answered, rel=1e-12)
        right = -np.expm1(log_q_gaussian(VOTES, sigma2)) * np.exp(costs.log_probability)
        assert correct[s] == pytest.approx(right.sum(), rel=1e-12)


def test_so_many_answers_cost_their_share_of_the_queries() -> None:
    twice = np.concatenate([VOTES, VOTES])
    setting = [[30.0, 15.0, 60.0]]
    once, _ = expected_of_settings(VOTES, setting, delta=1e-5)
    share, _ = expected_of_settings(twice, setting, delta=1e-5, max_answers=round(once.answered[0]))
    assert share.epsilon[0] == pytest.approx(once.epsilon[0], rel=0.01)
    assert share.answered[0] == round(once.answered[0])
    more, _ = expected_of_settings(VOTES, setting, delta=1e-5, max_answers=300)
    assert more.epsilon[0] == once.epsilon[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([[1.0, 1.0]], r"must be \[S, 3\]"),
        ([], r"must be \[S, 3\]"),
        ([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]], "settings row 1: sigma1 is 0.0"),
        ([[1.0, -2.0, 1.0]], "settings row 0: sigma2 is -2.0"),
        ([[1.0, 2.0, math.nan]], "settings row 0: threshold is NaN"),
    ],
)
def test_bad_settings_are_refused_by_row(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expected_of_settings(VOTES, settings, delta=1e-5)


def test_bad_votes_and_deltas_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1 sums to 5"):
        expected_of_settings([[3, 1], [3, 2]], [[1.0, 1.0, 1.0]], delta=1e-5)
    with pytest.raises(ValueError, match="delta is"):
        expected_of_settings(VOTES, [[1.0, 1.0, 1.0]], delta=0.0)

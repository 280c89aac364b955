"""Calibrated aggregators: within the target, not far below it, for every seed."""

import math
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import Conversion
from labeldp.mechanisms.pate.calibration import (
    Basis,
    calibrate_confident_gnmax,
    calibrate_gnmax,
    calibrate_lnmax,
    expected_for,
    price_for_any_votes,
    price_of_answers,
)
from labeldp.mechanisms.pate.decisions import Accounting
from tests.shared_material import shared_path

LEADERS = np.random.default_rng(1).integers(60, 101, size=400)
VOTES = np.stack([LEADERS, 100 - LEADERS], axis=1)


@pytest.mark.parametrize("calibrate", [calibrate_gnmax, calibrate_lnmax])
@pytest.mark.parametrize("conversion", Conversion)
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 30.0])
def test_noise_that_just_meets_the_target(
    calibrate: Any, conversion: Conversion, epsilon: float
) -> None:
    found = calibrate(epsilon=epsilon, delta=1e-5, max_answers=64, conversion=conversion)
    again = price_for_any_votes(
        found.aggregator, checked=64, answered=64, delta=1e-5, conversion=conversion
    )
    assert found.epsilon == again.epsilon
    assert epsilon * (1 - 1e-6) <= found.epsilon <= epsilon
    assert not found.chosen_from_votes


def test_decisions_need_less_noise_than_counts() -> None:
    noise = {
        accounting: calibrate_gnmax(
            epsilon=0.5, delta=1e-5, max_answers=100, accounting=accounting
        ).aggregator.noise_std
        for accounting in Accounting
    }
    assert noise[Accounting.DECISION] < 0.81 * noise[Accounting.COUNTS]
    found = {
        accounting: calibrate_confident_gnmax(
            VOTES, epsilon=0.5, delta=1e-5, max_answers=100, accounting=accounting
        )
        for accounting in Accounting
    }
    for setting in found.values():
        assert 0.5 * (1 - 1e-6) <= setting.epsilon <= 0.5
    by_decision, by_counts = (found[each].aggregator for each in Accounting)
    assert by_decision.sigma1 * by_decision.sigma2 < 0.7 * by_counts.sigma1 * by_counts.sigma2
    # Votes that agree cost less and less, the less noise the less: the search ends all the same.
    unanimous = calibrate_confident_gnmax(
        [[100, 0]] * 50, epsilon=1.0, delta=1e-5, max_answers=50, basis=Basis.EXPECTED
    )
    assert unanimous.epsilon <= 1.0


def test_confident_gnmax_stays_within_the_target_whatever_happens() -> None:
    found = calibrate_confident_gnmax(VOTES, epsilon=1.5, delta=1e-5, max_answers=100)
    assert 1.5 * (1 - 1e-6) <= found.epsilon <= 1.5 and found.basis is Basis.DATA_INDEPENDENT
    assert found.chosen_from_votes
    assert found.expected_answers is not None and found.expected_answers > 90
    for seed in range(5):
        price = price_of_answers(
            found.aggregator,
            VOTES,
            delta=1e-5,
            generator=np.random.default_rng(seed),
            max_answers=100,
        )
        assert price.realised.epsilon <= price.data_independent.epsilon * (1 + 1e-12)
        assert price.data_independent.epsilon <= 1.5
        assert price.expected.epsilon <= 1.5


def test_given_parameters_leave_nothing_to_choose_from_votes() -> None:
    settings = [
        calibrate_confident_gnmax(
            votes, epsilon=1.5, delta=1e-5, max_answers=100, threshold=70.0, check_share=0.25
        )
        for votes in (VOTES, np.tile([50, 50], (400, 1)))
    ]
    assert settings[0].aggregator == settings[1].aggregator
    assert not settings[0].chosen_from_votes
    assert settings[0].aggregator.threshold == 70.0


def test_the_expected_basis_needs_less_noise() -> None:
    guaranteed, expected = (
        calibrate_confident_gnmax(VOTES, epsilon=1.5, delta=1e-5, max_answers=100, basis=basis)
        for basis in (Basis.DATA_INDEPENDENT, Basis.EXPECTED)
    )
    assert expected.aggregator.sigma2 < guaranteed.aggregator.sigma2
    assert 1.3 < expected.epsilon <= 1.5 and expected.chosen_from_votes
    costs = expected.aggregator.costs(VOTES)
    assert expected_for(costs, max_answers=100, delta=1e-5).epsilon == expected.epsilon


def test_adult_votes_of_table_1() -> None:
    """524 answers for 1.90 with the paper's conversion; the search finds a setting as good."""
    with np.load(shared_path("data", "votes", "adult_votes_250.npz")) as arrays:
        votes = arrays["not_phd"][:1500]
    found = calibrate_confident_gnmax(
        votes,
        epsilon=1.90,
        delta=1e-5,
        max_answers=524,
        basis=Basis.EXPECTED,
        conversion=Conversion.MIRONOV,
    )
    assert found.epsilon <= 1.90
    assert found.expected_answers is not None and found.expected_answers >= 500


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0"),
        ({"epsilon": math.nan}, "epsilon is NaN"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"max_answers": 0}, "max_answers is 0"),
        ({"max_answers": 401}, "only 400 queries"),
        ({"threshold": -1.0}, "threshold is -1.0"),
        ({"check_share": 1.0}, "check_share is 1.0"),
        ({"votes": [[3, 1], [3, 2]], "max_answers": 1}, "row 1 sums to 5"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    arguments = {"votes": VOTES, "epsilon": 1.0, "delta": 1e-5, "max_answers": 10, **change}
    with pytest.raises(ValueError, match=message):
        calibrate_confident_gnmax(**arguments)


def test_targets_that_no_noise_meets_are_refused() -> None:
    with pytest.raises(ValueError, match="raise epsilon or delta"):
        calibrate_gnmax(epsilon=0.01, delta=1e-9, max_answers=1, conversion=Conversion.MIRONOV)

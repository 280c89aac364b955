"""guess_risk: closed forms, riskcal's numbers, and the best attack on real mechanisms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import norm

from labeldp.mechanisms.accounting import GaussianEvent, PureEvent
from labeldp.mechanisms.calibration import price_gaussian
from labeldp.mechanisms.guess_risk import (
    gaussian_mu,
    guess_after,
    guess_after_gaussian,
    guess_rise,
    guesses_after,
    percent,
    risk_in_words,
)
from tests.mechanisms.test_ledger import line

PRIORS = (0.05, 0.1, 0.5, 0.9)
#: By riskcal 1.5.1: roots of p q + (1 - p) get_beta_from_gdp(1, 1 - q) = p for these p.
OF_GAUSSIAN = (0.2285232149775113, 0.3289993895287874, 0.6914624612740131, 0.9254443766143097)


@given(
    prior=st.floats(1e-3, 0.999),
    mu=st.floats(0.05, 6.0),
    epsilon=st.floats(0.0, 6.0),
    delta=st.floats(0.0, 0.5),
)
def test_a_guess_is_where_the_trade_off_curve_says(
    prior: float, mu: float, epsilon: float, delta: float
) -> None:
    """P q + (1 - p) f(1 - q) = p, f the least share of errors; up to p = 1/2 for a pair."""
    right = guess_after_gaussian(prior, mu=mu)
    wrong = norm.cdf(norm.ppf(right) - mu)
    assert prior * right + (1 - prior) * wrong == pytest.approx(prior, rel=1e-7)
    right = guess_after(prior, epsilon=epsilon, delta=delta)
    ends = (1 - delta - math.exp(epsilon) * (1 - right), math.exp(-epsilon) * (right - delta))
    found = prior * right + (1 - prior) * max(0.0, *ends)
    assert found >= prior * (1 - 1e-9)
    assert prior > 0.5 or found == pytest.approx(prior, rel=1e-9)


def test_closed_forms_and_limits() -> None:
    of_gaussian = [guess_after_gaussian(prior, mu=1.0) for prior in PRIORS]
    assert of_gaussian == pytest.approx(OF_GAUSSIAN, rel=1e-9)
    for prior in PRIORS:
        odds = prior / (1 - prior) * math.e
        assert guess_after(prior, epsilon=1.0) == pytest.approx(odds / (1 + odds), rel=1e-14)
        assert guess_after(prior, epsilon=0.0) == prior and guess_rise(prior, epsilon=0.0) == 0.0
        assert guess_after(prior, epsilon=math.inf) == 1.0
        assert guess_after(prior, epsilon=1.0, delta=1.0) == pytest.approx(1.0, rel=1e-14)
        assert guess_after_gaussian(prior, mu=1e-9) == pytest.approx(prior, rel=1e-8)
        assert guess_after_gaussian(prior, mu=60.0) == pytest.approx(1.0, rel=1e-12)
    for mu in (0.01, 1.0, 7.0):
        assert guess_after_gaussian(0.5, mu=mu) == pytest.approx(ndtr(mu / 2), rel=1e-12)
    assert risk_in_words(epsilon=math.inf).endswith("at most 100% after")


def test_the_risk_in_words_has_delta_and_the_smaller_bound_in_it() -> None:
    with_delta = {p: guess_after(p, epsilon=1.0, delta=0.1) for p in (0.1, 0.5)}
    assert guesses_after(epsilon=1.0, delta=0.1) == with_delta
    assert guesses_after(epsilon=1.0) == {p: guess_after(p, epsilon=1.0) for p in (0.1, 0.5)}
    for price, expected in (
        ({"epsilon": 1.0}, ("23.2", "73.2")),
        ({"epsilon": 1.0, "delta": 0.1}, ("30.9", "75.8")),
        ({"epsilon": 1.0, "delta": 0.1, "mu": 1.0}, ("30.9", "69.2")),
        ({"epsilon": 0.0}, ("10", "50")),
    ):
        at_tenth, at_half = expected
        assert risk_in_words(**price) == (
            f"right with 10% before, at most {at_tenth}% after; "
            f"50% before, at most {at_half}% after"
        )
    assert [percent(share) for share in (0.3, 0.07, 0.0701)] == ["30", "7", "7.1"]


@pytest.mark.parametrize("shown", [0.0, 1e-3, 0.2])
@pytest.mark.parametrize("candidates", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_the_best_attack_on_randomized_response_that_shows_some_labels_attains_it(
    epsilon: float, candidates: int, shown: float
) -> None:
    odds = np.where(np.eye(candidates, dtype=bool), math.exp(epsilon), 1.0)
    noisy = odds / odds.sum(axis=1, keepdims=True)
    law = np.hstack([(1 - shown) * noisy, shown * np.eye(candidates)])
    # It is (epsilon, shown)-DP: of any event, at most so much lies above e^epsilon times another's.
    excess = np.maximum(law[:, None] - math.exp(epsilon) * law[None, :], 0).sum(axis=2)
    assert excess.max() == pytest.approx(shown, abs=1e-12)
    # The best attack guesses, for each output, the label that gives it most often; labels uniform.
    advantage = (law.max(axis=0).sum() - 1) / candidates
    bound = guess_rise(1 / candidates, epsilon=epsilon, delta=shown)
    assert advantage == pytest.approx(bound, rel=1e-12, abs=1e-15)
    assert bound <= guess_rise(1 / candidates, epsilon=epsilon) + shown


def test_mu_is_that_of_gaussian_noise_alone() -> None:
    gaussian = line(GaussianEvent(noise_multiplier=2.0))
    epsilon = price_gaussian(noise_std=2 * math.sqrt(2), delta=1e-5)
    found = gaussian_mu([gaussian], epsilon=epsilon, delta=1e-5)
    assert found == pytest.approx(0.5, rel=1e-9)
    assert guesses_after(epsilon=epsilon, delta=1e-5, mu=found)[0.5] == pytest.approx(ndtr(0.25))
    pure, failing = line(PureEvent(epsilon=1.0)), line(gaussian.event, 1e-6)
    little = price_gaussian(noise_std=20 * math.sqrt(2), delta=1e-5)
    assert 0 < little < 1 and gaussian_mu([gaussian], epsilon=little, delta=1e-5) is not None
    assert gaussian_mu([gaussian], epsilon=0.0, delta=1e-5) is None
    for others in ([], [gaussian, pure], [failing]):
        assert gaussian_mu(others, epsilon=epsilon, delta=1e-5) is None

"""guess_risk: closed forms, riskcal's numbers, and the best attack on real mechanisms."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from labeldp.mechanisms.accounting import Event, GaussianEvent, PureEvent
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
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
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.vault import Charge

#: By riskcal 1.5.1: mu -> roots of p q + (1 - p) get_beta_from_gdp(mu, 1 - q) = p for these p, and
#: 1 - get_bayes_risk_from_gdp(mu, p) for the last two of them.
PRIORS = (0.05, 0.1, 0.5, 0.9)
OF_GAUSSIANS = {
    0.1: (0.06054000555813224, 0.11660405214885619, 0.5199388058383725, 0.9018448946832063),
    0.5: (0.11879659486332418, 0.1985929344448013, 0.5987063256829237, 0.9109547704938668),
    1.0: (0.2285232149775113, 0.3289993895287874, 0.6914624612740131, 0.9254443766143097),
    2.0: (0.5183431892402685, 0.6119459050230467, 0.8413447460685429, 0.9568828783358941),
    4.0: (0.9163069568325789, 0.9379137059644872, 0.977249868051821, 0.9931015228849431),
}
BAYES_SUCCESS = {
    0.1: (0.5199388058383725, 0.9),
    0.5: (0.5987063256829237, 0.9000001687250665),
    1.0: (0.6914624612740131, 0.9013363060994688),
    2.0: (0.8413447460685429, 0.9299393141414609),
    4.0: (0.9772498680518208, 0.9877995560888349),
}
#: Likewise by get_beta_from_adp, and get_advantage_from_adp.
OF_PAIRS = {
    (0.5, 0.0): ((0.07984616815180755, 0.1548280989602546), 0.24491866240370913),
    (1.0, 1e-5): ((0.12516974638835535, 0.23197699699090707), 0.4621225360884372),
    (2.0, 0.01): ((0.2872045165434232, 0.456344529775491), 0.7639782143962072),
    (4.0, 0.1): ((0.767657203444663, 0.8726378047823926), 0.9676248220682352),
}


def test_riskcal_agrees() -> None:
    for mu, expected in OF_GAUSSIANS.items():
        found = [guess_after_gaussian(prior, mu=mu) for prior in PRIORS]
        assert found == pytest.approx(expected, rel=1e-9)
        at_half, at_most = BAYES_SUCCESS[mu]
        assert found[2] == pytest.approx(at_half, rel=1e-12)
        assert found[3] >= at_most  # of two values; the bound holds for any number
    for (epsilon, delta), (low_priors, advantage) in OF_PAIRS.items():
        found = [guess_after(prior, epsilon=epsilon, delta=delta) for prior in PRIORS]
        assert found[:2] == pytest.approx(low_priors, rel=1e-9)
        assert 2 * found[2] - 1 == pytest.approx(advantage, rel=1e-12)


def test_closed_forms_and_limits() -> None:
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
    for given, expected in (
        ({"epsilon": 1.0}, ("23.2", "73.2")),
        ({"epsilon": 1.0, "delta": 0.1}, ("30.9", "75.8")),
        ({"epsilon": 1.0, "delta": 0.1, "mu": 1.0}, ("30.9", "69.2")),
        ({"epsilon": 0.0}, ("10", "50")),
    ):
        at_tenth, at_half = expected
        assert risk_in_words(**given) == (
            f"right with 10% before, at most {at_tenth}% after; "
            f"50% before, at most {at_half}% after"
        )
    assert [percent(share) for share in (0.3, 0.07, 0.0701)] == ["30", "7", "7.1"]


@pytest.mark.parametrize("classes", [2, 5, 10])
def test_no_attack_on_a_mechanism_exceeds_it_and_randomized_response_attains_it(
    classes: int,
) -> None:
    """The best attack guesses the most probable label, here under a uniform prior."""
    rr = RandomizedResponse(epsilon=2.0, num_classes=classes)
    assert guess_after(1 / classes, epsilon=2.0) == pytest.approx(rr.keep_probability, rel=1e-12)
    labels = np.random.default_rng(0).integers(classes, size=200_000)
    for noise, bound in (
        (LaplaceNoise(epsilon=2.0, num_classes=classes), guess_after(1 / classes, epsilon=2.0)),
        (
            GaussianNoise(noise_std=1.0, num_classes=classes),
            guess_after_gaussian(1 / classes, mu=math.sqrt(2)),
        ),
    ):
        noisy = noise.release(labels, generator=np.random.default_rng(1))
        right = float((noise.log_likelihood(noisy).argmax(1) == labels).mean())
        error = math.sqrt(right * (1 - right) / len(labels))
        assert 1 / classes + 0.05 < right < bound + 4 * error
    # Two classes under Gaussian noise are the two normal distributions of mu-Gaussian DP.
    assert classes > 2 or right == pytest.approx(bound, abs=4 * error)


def a_charge(event: Event, failure_probability: float = 0.0) -> Charge:
    return Charge(
        key="k",
        mechanism={},
        event=event,
        indices=None,
        failure_probability=failure_probability,
    )


def test_mu_is_that_of_gaussian_noise_alone() -> None:
    gaussian = a_charge(GaussianEvent(noise_multiplier=2.0))
    epsilon = price_gaussian(noise_std=2 * math.sqrt(2), delta=1e-5)
    found = gaussian_mu([gaussian], epsilon=epsilon, delta=1e-5)
    assert found == pytest.approx(0.5, rel=1e-9)
    assert guesses_after(epsilon=epsilon, delta=1e-5, mu=found)[0.5] == pytest.approx(ndtr(0.25))
    pure, failing = a_charge(PureEvent(epsilon=1.0)), a_charge(gaussian.event, 1e-6)
    little = price_gaussian(noise_std=20 * math.sqrt(2), delta=1e-5)
    assert 0 < little < 1 and gaussian_mu([gaussian], epsilon=little, delta=1e-5) is not None
    assert gaussian_mu([gaussian], epsilon=0.0, delta=1e-5) is None
    for others in ([], [gaussian, pure], [failing]):
        assert gaussian_mu(others, epsilon=epsilon, delta=1e-5) is None

"""one_run_curves: bounds of a family keep their promise, beat the pure bound, follow the curves."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from labeldp.mechanisms.accounting import gaussian_epsilon
from labeldp.mechanisms.auditing.one_run import one_run_lower_bound
from labeldp.mechanisms.auditing.tight_one_run import (
    Curve,
    GaussianCurve,
    PureCurve,
    RandomizedResponseCurve,
    f_dp_lower_bound,
)


def test_curve_of_randomized_response_by_enumeration() -> None:
    epsilon, classes = 1.5, 4
    keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    other = (1 - keep) / (classes - 1)
    smallest_wrong = RandomizedResponseCurve(num_classes=classes).smallest_wrong(epsilon)
    # claiming a set of outputs for label 0: right under label 0, wrong under label 1
    for subset in range(2**classes):
        outputs = [output for output in range(classes) if subset >> output & 1]
        right = sum(keep if output == 0 else other for output in outputs)
        wrong = sum(keep if output == 1 else other for output in outputs)
        assert smallest_wrong(right) <= wrong + 1e-12
    assert smallest_wrong(keep) == pytest.approx(other)
    assert smallest_wrong(1 - other) == pytest.approx(1 - keep)
    # two classes: the worst of all epsilon-DP mechanisms
    binary = RandomizedResponseCurve(num_classes=2).smallest_wrong(epsilon)
    pure = PureCurve().smallest_wrong(epsilon)
    for likelihood in np.linspace(0, 1, 21):
        assert binary(likelihood) == pytest.approx(pure(likelihood), abs=1e-12)


def test_gaussian_curve_is_that_of_its_epsilon() -> None:
    epsilon = gaussian_epsilon(noise_multiplier=1.25, delta=1e-5)
    smallest_wrong = GaussianCurve(delta=1e-5).smallest_wrong(epsilon)
    for right in (0.01, 0.5, 0.99):
        expected = norm.cdf(norm.ppf(right) - 1 / 1.25)
        assert smallest_wrong(right) == pytest.approx(expected, rel=1e-6)


def audit_gaussian(multiplier: float, canaries: int, seed: int) -> tuple[int, int]:
    """Guesses and right ones of the best attack on N(0, (sqrt 2 multiplier)^2) per coordinate."""
    generator = np.random.default_rng([seed, canaries])
    coins = generator.integers(2, size=canaries)
    # the difference of the two coordinates is all that counts: mean +-1, sd 2 multiplier
    difference = (1 - 2 * coins) + 2 * multiplier * generator.standard_normal(canaries)
    guesses = canaries // 4
    surest = np.argsort(-np.abs(difference))[:guesses]
    return guesses, int(((difference < 0) == (coins == 1))[surest].sum())


@pytest.mark.parametrize("multiplier", [0.5, 1.0])
def test_gaussian_bounds_keep_their_promise_and_beat_the_pure_bound(multiplier: float) -> None:
    epsilon = gaussian_epsilon(noise_multiplier=multiplier, delta=1e-5)
    curve = GaussianCurve(delta=1e-5)
    bounds, pure = [], []
    for seed in range(100):
        guesses, correct = audit_gaussian(multiplier, 300, seed)
        counts = {"canaries": 300, "guesses": guesses, "correct": correct}
        bounds.append(f_dp_lower_bound(**counts, curve=curve))
        pure.append(one_run_lower_bound(**counts, delta=1e-5))
    allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100)
    assert (np.array(bounds) > epsilon).mean() <= allowed
    assert np.mean(bounds) > np.mean(pure) + 0.5
    assert np.mean(bounds) > 0.45 * epsilon


@pytest.mark.parametrize("curve", [PureCurve(), RandomizedResponseCurve(num_classes=10)])
def test_randomized_response_bounds_keep_their_promise(curve: Curve) -> None:
    epsilon = 2.0
    odds = math.exp(epsilon)
    generator = np.random.default_rng(3)
    bounds = []
    for _ in range(200):
        guesses = int(generator.binomial(300, (odds + 1) / (odds + 9)))
        correct = int(generator.binomial(guesses, odds / (odds + 1)))
        bounds.append(f_dp_lower_bound(canaries=300, guesses=guesses, correct=correct, curve=curve))
    assert (np.array(bounds) > epsilon).mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)
    assert np.mean(bounds) > 1.0


def test_nothing_proven_and_bad_input() -> None:
    for curve in (PureCurve(), GaussianCurve(delta=1e-5)):
        assert f_dp_lower_bound(canaries=100, guesses=50, correct=25, curve=curve) == 0.0
        assert f_dp_lower_bound(canaries=100, guesses=0, correct=0, curve=curve) == 0.0
        with pytest.raises(ValueError, match="correct is 6, guesses 5"):
            f_dp_lower_bound(canaries=10, guesses=5, correct=6, curve=curve)
    with pytest.raises(ValueError, match="num_classes is 1"):
        RandomizedResponseCurve(num_classes=1)
    with pytest.raises(ValueError, match="delta is 0"):
        GaussianCurve(delta=0.0)

"""Calibration: never over the target, never far below it, and the inverse of the price."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.calibration import (
    calibrate_gaussian,
    calibrate_laplace,
    calibrate_randomized_response,
    price_bit_flip,
    price_gaussian,
    price_laplace,
)
from labeldp.mechanisms.randomized_response import (
    RandomizedResponse,
    epsilon_from_keep_probability,
)

TARGETS = [1e-3, 0.1, 0.3, 1.0, 2.1, math.pi, 8.0, 30.0]


@given(target=st.floats(1e-3, 30.0), classes=st.sampled_from([2, 10]))
@example(target=math.pi, classes=2)
@example(target=2.1, classes=10)
@settings(max_examples=300, deadline=None)
def test_pure_mechanisms_are_never_over_the_target_and_never_far_below(
    target: float, classes: int
) -> None:
    kept = calibrate_randomized_response(epsilon=target, num_classes=classes)
    found = [
        price_laplace(scale=calibrate_laplace(epsilon=target)),
        epsilon_from_keep_probability(keep_probability=kept, num_classes=classes),
    ]
    assert max(found) <= target
    # A keep probability near 1 has few digits left: at epsilon = 30 about three.
    assert min(found) == pytest.approx(target, rel=1e-9 if target < 15 else 1e-3)


@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-2])
@pytest.mark.parametrize("target", TARGETS)
def test_gaussian_noise_is_never_over_the_target_and_never_far_below(
    target: float, delta: float
) -> None:
    noise_std = calibrate_gaussian(epsilon=target, delta=delta)
    found = price_gaussian(noise_std=noise_std, delta=delta)
    assert found <= target
    assert found == pytest.approx(target, rel=1e-9)
    event = GaussianNoise(noise_std=noise_std, num_classes=10).event
    assert epsilon_of([event], delta=delta) == pytest.approx(found, rel=1e-9)
    assert price_gaussian(noise_std=noise_std * (1 - 1e-6), delta=delta) > target


def test_prices_are_those_of_the_mechanisms() -> None:
    assert price_laplace(scale=0.5) == 4.0
    laplace = LaplaceNoise(epsilon=2.1, num_classes=10)
    assert price_laplace(noise_std=laplace.noise_std) == pytest.approx(2.1)
    kept = RandomizedResponse(epsilon=2.1, num_classes=10).keep_probability
    response = epsilon_from_keep_probability(keep_probability=kept, num_classes=10)
    assert response == pytest.approx(2.1) == pytest.approx(math.log(kept * 9 / (1 - kept)))
    flips = BitFlip(epsilon=2.1, num_classes=10).flip_probability
    assert price_bit_flip(flip_probability=flips) == pytest.approx(2.1)


def test_extremes_end_in_an_answer_or_a_reason() -> None:
    assert calibrate_randomized_response(epsilon=500.0, num_classes=2) == 1 - 2**-53
    assert 2 / calibrate_laplace(epsilon=1e-12) <= 1e-12
    with pytest.raises(ValueError, match="costs so little"):
        calibrate_randomized_response(epsilon=1e-18, num_classes=3)


def test_bad_input_is_refused() -> None:
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon is"):
            calibrate_laplace(epsilon=epsilon)
        with pytest.raises(ValueError, match="epsilon is"):
            calibrate_gaussian(epsilon=epsilon, delta=1e-5)
        with pytest.raises(ValueError, match="epsilon is"):
            calibrate_randomized_response(epsilon=epsilon, num_classes=10)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta is"):
            calibrate_gaussian(epsilon=1.0, delta=delta)
    with pytest.raises(ValueError, match="num_classes is 1"):
        calibrate_randomized_response(epsilon=1.0, num_classes=1)
    with pytest.raises(ValueError, match="give one of the two"):
        price_laplace()
    with pytest.raises(ValueError, match="give one of the two"):
        price_laplace(scale=1.0, noise_std=1.0)
    with pytest.raises(ValueError, match="noise_std is 0"):
        price_laplace(noise_std=0.0)
    for flips in (0.0, 0.5, 0.7, math.nan):
        with pytest.raises(ValueError, match="flip_probability is"):
            price_bit_flip(flip_probability=flips)

"""Are the draws what the formulas say? A million of each, against the exact distribution.

With the generator of seeded noise and with that of secret noise, under keys that are fixed here.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.randomized_response import (
    NoNoise,
    epsilon_from_keep_probability,
)
from labeldp.mechanisms.randomness import cryptographic_generator

Make = Callable[[int], np.random.Generator]

DRAWS = 1_000_000
#: A correct sampler fails a test at this level once in ten thousand seeds; the seeds are fixed.
LEVEL = 1e-4


@pytest.fixture(params=["PCG64", "AES"])
def make(request: pytest.FixtureRequest) -> Make:
    """Maps a number to a generator of its own."""
    if request.param == "PCG64":
        return np.random.default_rng
    return lambda number: cryptographic_generator(number.to_bytes(16, "little"))


def noise_of(
    mechanism: LaplaceNoise | GaussianNoise, make: Make, *, classes: int = 4
) -> NDArray[np.float64]:
    labels = np.random.default_rng(1).integers(0, classes, size=DRAWS // classes)
    noisy = mechanism.release(labels, generator=make(2))
    return np.asarray(noisy - np.eye(classes)[labels]).ravel()


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_laplace_noise_has_the_scale_of_its_epsilon(epsilon: float, make: Make) -> None:
    noise = noise_of(LaplaceNoise(epsilon=epsilon, num_classes=4), make)
    assert stats.kstest(noise, stats.laplace(scale=2 / epsilon).cdf).pvalue > LEVEL
    # The same test sees a scale that is off by one percent.
    assert stats.kstest(noise, stats.laplace(scale=2.02 / epsilon).cdf).pvalue < LEVEL


def test_gaussian_noise_has_the_requested_standard_deviation(make: Make) -> None:
    noise = noise_of(GaussianNoise(noise_std=1.7, num_classes=4), make)
    assert stats.kstest(noise, stats.norm(scale=1.7).cdf).pvalue > LEVEL
    assert stats.kstest(noise, stats.norm(scale=1.7 * 1.01).cdf).pvalue < LEVEL


def test_noise_is_independent_between_coordinates(make: Make) -> None:
    noise = noise_of(LaplaceNoise(epsilon=1.0, num_classes=4), make).reshape(-1, 4)
    correlation = np.corrcoef(noise.T) - np.eye(4)
    assert np.abs(correlation).max() < 4 / math.sqrt(len(noise))


def test_lying_more_often_than_by_chance_costs_as_well() -> None:
    low = epsilon_from_keep_probability(keep_probability=0.01, num_classes=2)
    high = epsilon_from_keep_probability(keep_probability=0.99, num_classes=2)
    assert low == pytest.approx(high)


def test_log_likelihoods_are_those_of_the_distributions() -> None:
    generator = np.random.default_rng(5)
    noisy = generator.normal(size=(50, 3))
    laplace, gaussian = (
        LaplaceNoise(epsilon=1.3, num_classes=3),
        GaussianNoise(noise_std=0.8, num_classes=3),
    )
    for mechanism, distribution in (
        (laplace, stats.laplace(scale=laplace.scale)),
        (gaussian, stats.norm(scale=0.8)),
    ):
        exact = np.stack(
            [distribution.logpdf(noisy - np.eye(3)[c]).sum(1) for c in range(3)], axis=1
        )
        mine = mechanism.log_likelihood(noisy)
        difference = (exact - exact[:, :1]) - (mine - mine[:, :1])
        assert np.abs(difference).max() < 1e-12


def test_no_noise_costs_everything_and_says_so() -> None:
    mechanism = NoNoise(num_classes=3)
    labels = np.array([0, 2, 1])
    assert (mechanism.release(labels, generator=np.random.default_rng(0)) == labels).all()
    assert mechanism.event.epsilon == math.inf

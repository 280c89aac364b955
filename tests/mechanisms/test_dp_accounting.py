"""Every mechanism's price against Google's dp-accounting, which was written by somebody else."""

import pytest

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.cluster_prior import ClusterHistograms
from labeldp.mechanisms.randomized_response import RandomizedResponse

dp_accounting = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")


@pytest.mark.parametrize("noise_std", [0.5, 2.0, 10.0])
def test_gaussian_noise(noise_std: float) -> None:
    event = GaussianNoise(noise_std=noise_std, num_classes=10).event
    expected = dp_accounting.get_epsilon_gaussian(event.noise_multiplier, 1e-5)
    assert epsilon_of([event], delta=1e-5) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_laplace_noise(epsilon: float) -> None:
    mechanism = LaplaceNoise(epsilon=epsilon, num_classes=10)
    distribution = pld.from_laplace_mechanism(mechanism.scale, sensitivity=2.0)
    # It cuts tails off and counts them as leaks, hence a delta; and works on a grid of 1e-4.
    assert distribution.get_epsilon_for_delta(1e-8) == pytest.approx(epsilon, abs=2e-4)


@pytest.mark.parametrize("num_classes", [2, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_randomized_response(epsilon: float, num_classes: int) -> None:
    mechanism = RandomizedResponse(epsilon=epsilon, num_classes=num_classes)
    # Its parameter is the probability that the label is drawn anew, the old one included.
    resampled = (1 - mechanism.keep_probability) * num_classes / (num_classes - 1)
    distribution = pld.from_randomized_response(resampled, num_classes)
    assert distribution.get_epsilon_for_delta(0.0) == pytest.approx(epsilon, abs=2e-4)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_discrete_laplace_noise(epsilon: float) -> None:
    event = ClusterHistograms(epsilon=epsilon, num_classes=10).event
    distribution = pld.from_discrete_laplace_mechanism(epsilon / 2, sensitivity=2)
    assert distribution.get_epsilon_for_delta(0.0) == pytest.approx(event.epsilon, abs=2e-4)

"""ClusterHistograms: the noise is discrete Laplace, the whole costs epsilon, priors are priors."""

import math

import numpy as np
import pytest
import torch

from labeldp.mechanisms.cluster_prior import ClusterHistograms, prior_from_histograms
from labeldp.mechanisms.randomness import SecureGenerator


def test_counts_are_exact_without_noise_and_cover_empty_clusters() -> None:
    mechanism = ClusterHistograms(epsilon=200.0, num_classes=3)
    labels, clusters = np.array([0, 0, 2, 1, 2]), np.array([0, 0, 0, 2, 2])
    counts = mechanism.release(labels, clusters, generator=np.random.default_rng(1))
    np.testing.assert_array_equal(counts, [[2, 0, 1], [0, 0, 0], [0, 1, 1]])


@pytest.mark.parametrize("secure", [False, True])
def test_noise_is_discrete_laplace_of_half_of_epsilon(secure: bool) -> None:
    mechanism, labels = ClusterHistograms(epsilon=0.8, num_classes=2), torch.zeros(20_000).long()
    bits = np.random.default_rng(0)
    generator = SecureGenerator(bits=bits) if secure else bits
    counts = mechanism.release(labels, torch.arange(20_000), generator=generator).numpy()
    expected = math.sqrt(2 * math.exp(-0.4)) / (1 - math.exp(-0.4))
    assert (counts - [1, 0]).std() == pytest.approx(expected, rel=0.03)


def test_priors_are_probabilities_of_each_example_s_cluster() -> None:
    counts = np.array([[3, -1, 1], [-2, -1, 0], [0, 5, 0]])
    clusters = np.array([2, 0, 1, 0])
    prior = prior_from_histograms(counts, clusters)
    quarters = np.array([[0, 4, 0], [3, 0, 1], [4 / 3, 4 / 3, 4 / 3], [3, 0, 1]])
    np.testing.assert_allclose(prior, quarters / 4)
    smooth = prior_from_histograms(counts, clusters, smoothing=1.0)
    np.testing.assert_allclose(smooth[1], [4 / 7, 1 / 7, 2 / 7])
    assert (smooth > 0).all()
    tensor = prior_from_histograms(torch.from_numpy(counts), torch.from_numpy(clusters))
    np.testing.assert_allclose(tensor.numpy(), prior)


@pytest.mark.parametrize(
    ("labels", "clusters", "message"),
    [
        ([0, 1], [0], "clusters has 1 entries and labels 2"),
        ([0, 1], [0, 2], "3 clusters of 2 labels"),
        ([0, 1], [0, -1], r"clusters\[1\] is -1"),
        ([0, 3], [0, 1], r"labels\[1\] is not one of the classes"),
        ([0, 1], [0.0, 1.0], "float64"),
    ],
)
def test_bad_clusters_are_refused(labels: list[int], clusters: list[float], message: str) -> None:
    mechanism = ClusterHistograms(epsilon=1.0, num_classes=3)
    with pytest.raises(ValueError, match=message):
        mechanism.release(np.array(labels), np.array(clusters), generator=np.random.default_rng())


def test_bad_histograms_are_refused() -> None:
    for epsilon in (0.0, math.nan, math.inf, 1e-12):
        with pytest.raises(ValueError, match="epsilon is"):
            ClusterHistograms(epsilon=epsilon, num_classes=3)
    counts = np.array([[1.0, 2.0], [math.nan, 0.0]])
    with pytest.raises(ValueError, match="counts row 1"):
        prior_from_histograms(counts, np.array([0]))
    with pytest.raises(ValueError, match=r"clusters\[1\] is 1"):
        prior_from_histograms(counts[:1], np.array([0, 1]))
    with pytest.raises(ValueError, match="smoothing is -1"):
        prior_from_histograms(counts[:1], np.array([0]), smoothing=-1.0)
    with pytest.raises(ValueError, match="counts has shape"):
        prior_from_histograms(np.ones(3), np.array([0]))

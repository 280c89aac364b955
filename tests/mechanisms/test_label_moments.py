"""Noisy sums of labels: what they are, that a label moves them no further than is paid for."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms import label_moments
from labeldp.mechanisms.accounting import L2_SENSITIVITY
from labeldp.mechanisms.label_moments import ROUNDING, LabelMoments
from labeldp.mechanisms.randomness import AnyGenerator, SecureGenerator
from labeldp.mechanisms.rr_with_prior import ClusterHistograms, TwoClassHistograms

WEIGHTS = np.random.default_rng(0).normal(size=(40, 6))
WEIGHTS /= np.linalg.norm(WEIGHTS, axis=1).max()
LABELS = np.random.default_rng(1).integers(0, 3, 40)
#: So little noise that the sums show through.
QUIET = LabelMoments(noise_std=1e-9, num_classes=3)


def test_many_rows_are_summed_block_by_block() -> None:
    labels = np.random.default_rng(1).integers(0, 3, 40_000)
    weights: NDArray[Any] = np.full((40_000, 2), 0.7, dtype=np.float32)
    moments = QUIET.release(labels, weights, generator=np.random.default_rng(2))
    np.testing.assert_allclose(moments[0], 0.7 * np.bincount(labels), rtol=1e-5)


def test_no_label_moves_the_sums_further_than_the_noise_is_made_for() -> None:
    rng = np.random.default_rng(2)
    exact = QUIET.release(LABELS, WEIGHTS, generator=rng)
    longest = 0.0
    for row in range(len(LABELS)):
        for other in range(3):
            changed = LABELS.copy()
            changed[row] = other
            moved = QUIET.release(changed, WEIGHTS, generator=rng) - exact
            longest = max(longest, float(np.linalg.norm(moved)))
    assert 0.999 * L2_SENSITIVITY < longest <= L2_SENSITIVITY


def test_the_noise_is_gaussian_with_the_stated_standard_deviation() -> None:
    mechanism = LabelMoments(noise_std=3.0, num_classes=3)
    rng = np.random.default_rng(3)
    draws = np.array([mechanism.release(LABELS, WEIGHTS, generator=rng) for _ in range(4000)])
    noise = (draws - WEIGHTS.T @ np.eye(3)[LABELS]).ravel()  # 72,000 draws
    assert abs(noise.mean()) < 5 * 3.0 / math.sqrt(noise.size)
    assert abs(noise.std() / 3.0 - 1) < 5 / math.sqrt(2 * noise.size)
    assert abs((noise**4).mean() / 3.0**4 - 3) < 5 * math.sqrt(96 / noise.size)


def test_a_row_longer_by_rounding_moves_the_sums_no_further_and_any_longer_is_refused(
    generator: AnyGenerator,
) -> None:
    """Of 400 entries that lie just below a step of the lattice: rounding up would show."""
    labels = np.array([0, 1, 2])
    rows = np.full((3, 400), 0.05 * (1 + 0.9 * ROUNDING))
    first, second = (
        QUIET.release(chosen, rows, generator=generator) for chosen in (labels, labels[[1, 1, 2]])
    )
    moved = float(np.linalg.norm(second - first))
    assert 0.9999 * L2_SENSITIVITY < moved <= L2_SENSITIVITY
    with pytest.raises(ValueError, match="row 1 has length"):
        QUIET.release(labels, rows * [[1], [1 + 0.2 * ROUNDING], [1]], generator=generator)
    with pytest.raises(ArithmeticError, match="nothing was released"):  # the last barrier
        label_moments._on_lattice(rows * 1.1)


# ClusterHistograms: the noise is discrete Laplace, the whole costs epsilon, priors are priors.


def test_counts_are_exact_without_noise_and_cover_empty_clusters() -> None:
    mechanism = ClusterHistograms(epsilon=200.0, num_classes=3)
    labels, clusters = np.array([0, 0, 2, 1, 2]), np.array([0, 0, 0, 2, 2])
    counts = mechanism.release(labels, clusters, generator=np.random.default_rng(1))
    np.testing.assert_array_equal(counts, [[2, 0, 1], [0, 0, 0], [0, 1, 1]])


@pytest.fixture(params=[False, True])
def generator(request: pytest.FixtureRequest) -> AnyGenerator:
    bits = np.random.default_rng(0)
    return SecureGenerator(bits=bits) if request.param else bits


def test_noise_is_discrete_laplace_of_half_of_epsilon(generator: AnyGenerator) -> None:
    mechanism = ClusterHistograms(epsilon=0.8, num_classes=2)
    labels = torch.zeros(20_000).long()
    counts = mechanism.release(labels, torch.arange(20_000), generator=generator).numpy()
    expected = math.sqrt(2 * math.exp(-0.4)) / (1 - math.exp(-0.4))
    assert (counts - [1, 0]).std() == pytest.approx(expected, rel=0.03)


def test_two_classes_need_half_the_noise_and_their_counts_add_up(generator: AnyGenerator) -> None:
    mechanism, labels = TwoClassHistograms(epsilon=0.4), np.arange(40_000) % 2
    counts = mechanism.release(labels, np.arange(40_000) // 2, generator=generator)
    assert (counts.sum(1) == 2).all()
    expected = math.sqrt(2 * math.exp(-0.4)) / (1 - math.exp(-0.4))
    assert (counts[:, 1] - 1).std() == pytest.approx(expected, rel=0.03)
    # As much as noise of this size in each count, of which the difference is read.
    assert mechanism.noise_std == pytest.approx(math.sqrt(2) * expected)
    with pytest.raises(ValueError, match="num_classes is 3, and these counts are of two classes"):
        TwoClassHistograms(epsilon=1.0, num_classes=3)

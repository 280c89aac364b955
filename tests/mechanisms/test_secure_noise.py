"""Secure noise: on the lattice, of the right distribution and price, and never seeded."""

import math
import sys

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import kstest

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.randomness import OsEntropy, SeededNoise
from labeldp.mechanisms.secure_noise import (
    LATTICE,
    SecureGaussianNoise,
    SecureLaplaceNoise,
    secure_gaussian,
    secure_laplace,
)
from labeldp.mechanisms.vault import LabelVault
from tests.mechanisms.privacy_loss import assert_private, events_of

opendp = pytest.importorskip("opendp")

#: Secure noise takes a hundred times as long as NumPy's: fewer runs than elsewhere.
FEW_RUNS = 60_000


def test_noise_has_the_distribution_it_is_named_after() -> None:
    # Nobody can seed this noise: a test fails by chance once in a million times.
    laplace = secure_laplace(scale=1.5, shape=(100, 300))
    assert laplace.shape == (100, 300)
    assert kstest(laplace.ravel(), "laplace", args=(0, 1.5)).pvalue > 1e-6
    gaussian = secure_gaussian(noise_std=0.7, shape=(30_000,))
    assert kstest(gaussian, "norm", args=(0, 0.7)).pvalue > 1e-6


@pytest.mark.parametrize("label", [0, 1])
def test_outputs_of_both_labels_lie_on_one_lattice(label: int) -> None:
    """Where floating-point noise gives its label away: outputs near 0 on a finer grid."""
    labels = np.full(3000, label)
    for mechanism in (
        SecureLaplaceNoise(epsilon=1.0, num_classes=2),
        SecureGaussianNoise(noise_std=1.0, num_classes=2),
    ):
        noisy = mechanism.release(labels, generator=np.random.default_rng())
        np.testing.assert_array_equal(noisy * LATTICE, np.round(noisy * LATTICE))
    floating = LaplaceNoise(epsilon=1.0, num_classes=2)
    gaps = floating.release(labels, generator=np.random.default_rng(1)) * LATTICE
    assert (gaps != np.round(gaps)).any()


def test_privacy_loss_over_many_runs() -> None:
    def runs(epsilon: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        mechanism = SecureLaplaceNoise(epsilon=epsilon, num_classes=2)
        samples = []
        for label in (0, 1):
            labels = np.full(FEW_RUNS, label)
            noisy = mechanism.release(labels, generator=np.random.default_rng())
            loss = np.subtract(*mechanism.log_likelihood(noisy).T)
            samples.append(events_of(loss, edges=np.linspace(-0.99, 0.99, 4) * epsilon))
        return samples[0], samples[1]

    assert_private(runs, epsilon=2.0)


def test_prices_are_sound() -> None:
    assert SecureLaplaceNoise(epsilon=0.3, num_classes=2).event.epsilon == 0.3
    noise_std = 3.0
    secure = SecureGaussianNoise(noise_std=noise_std, num_classes=2)
    plain = GaussianNoise(noise_std=noise_std, num_classes=2)
    exact = epsilon_of([plain.event], delta=1e-5)
    assert exact < epsilon_of([secure.event], delta=1e-5) < 1.25 * exact
    noisy = np.array([[0.3, 1.2]])
    np.testing.assert_array_equal(secure.log_likelihood(noisy), plain.log_likelihood(noisy))


def test_the_vault_releases_it_and_a_seed_is_refused() -> None:
    vault = LabelVault(labels=np.array([0, 1, 1]), num_classes=2)
    for mechanism in (
        SecureLaplaceNoise(epsilon=1.0, num_classes=2),
        SecureGaussianNoise(noise_std=2.0, num_classes=2),
    ):
        assert vault.release(mechanism, noise=OsEntropy(draw=3)).values.shape == (3, 2)
        with pytest.raises(ValueError, match="cannot be repeated"):
            vault.release(mechanism, noise=SeededNoise(seed=1))
        with pytest.raises(ValueError, match="cannot be repeated"):
            mechanism.release(np.array([0]), generator=np.random.default_rng(7))
        with pytest.raises(ValueError, match="cannot be repeated"):
            mechanism.release(np.array([0]), generator=torch.Generator().manual_seed(7))


def test_a_missing_opendp_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.delitem(sys.modules, "opendp.prelude", raising=False)
    with pytest.raises(ImportError, match=r"labeldp\[secure\]"):
        secure_laplace(scale=1.0, shape=(2,))


def test_bad_input_is_refused() -> None:
    for scale in (0.0, -1.0, math.nan, math.inf, 1e9):
        with pytest.raises(ValueError, match="scale is"):
            secure_laplace(scale=scale, shape=(2,))
        with pytest.raises(ValueError, match="noise_std is"):
            SecureGaussianNoise(noise_std=scale, num_classes=2)
    with pytest.raises(ValueError, match=r"labels\[0\] is 2"):
        SecureLaplaceNoise(epsilon=1.0, num_classes=2).release(
            np.array([2]), generator=np.random.default_rng()
        )

"""Noise is drawn as it is priced, or its scale is refused where the mechanism is named."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.amounts import BINS, AmountChannel, AmountNoise, AmountSums, ErrorSums
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.randomness import OsEntropy, SecureEntropy, discrete_laplace
from labeldp.mechanisms.selection import selection_price
from labeldp.mechanisms.vault import LabelVault
from tests.mechanisms.test_declared_failures import every_mechanism
from tests.mechanisms.test_mechanisms import CLASSES, LABELS, MECHANISMS, labels_for

WITH_SCALE: tuple[Callable[[float], Any], ...] = (
    lambda scale: GNMax(noise_std=scale),
    lambda scale: LNMax(scale=scale),
    lambda scale: ConfidentGNMax(threshold=1.0, sigma1=scale, sigma2=1.0),
    lambda scale: GaussianNoise(noise_std=scale, num_classes=2),
    lambda scale: LabelMoments(noise_std=scale, num_classes=2),
    lambda scale: AmountSums(noise_std=scale),
    lambda scale: discrete_laplace(np.random.default_rng(0), scale=scale, shape=(3,)),
    lambda scale: discrete_laplace(SecureEntropy().generator(""), scale=scale, shape=(3,)),
)


@pytest.mark.parametrize("make", WITH_SCALE)
@pytest.mark.parametrize("scale", [1e14, 1e19, 1e300, 1e-10])
def test_noise_that_no_sampler_draws_is_refused(make: Any, scale: float) -> None:
    with pytest.raises(ValueError, match=r"is .* drawn as it is priced from 1e-09 to"):
        make(scale)


def test_an_epsilon_whose_noise_is_not_drawn_is_refused_by_every_mechanism() -> None:
    for kind in every_mechanism():
        names = {entry.name for entry in fields(kind)}
        if "epsilon" in names:
            sizes = {"num_classes": 3, "coverage": 0.9, "candidates": 3}
            others: Any = {name: size for name, size in sizes.items() if name in names}
            with pytest.raises(ValueError, match="epsilon is 1e-20; it must be at least 2e-06"):
                kind(epsilon=1e-20, **others)
    with pytest.raises(ValueError, match=r"mean_trials is 1e\+19"):
        selection_price(epsilon=1.0, mean_trials=1e19, distribution="geometric")


def test_the_largest_noise_of_whole_numbers_shows_no_digit_of_what_it_hides() -> None:
    """Neither by saturating nor by ending in zeros: as 64-bit and double numbers do further out."""
    for source in (np.random.default_rng(3), SecureEntropy().generator("")):
        noise = discrete_laplace(source, scale=2.0**46, shape=(400,))
        assert len(np.unique(noise)) == 400 and np.abs(noise).max() < 2**53
        for bit in range(40):
            assert 120 < int((noise >> bit & 1).sum()) < 280


@pytest.mark.parametrize("epsilon", [2e-6, 1e-3, 500.0])
def test_the_least_and_the_largest_epsilon_of_every_mechanism_can_be_drawn(epsilon: float) -> None:
    requests: list[tuple[Any, ...]] = [
        *((case.make(epsilon), *case.public(30)) for case in MECHANISMS.values()),
        (CorrectCount(epsilon=epsilon), LABELS),
        (ErrorSums(epsilon=epsilon), np.linspace(0, 1, 30)),
        *(
            (AmountChannel(epsilon=epsilon, kind=each), np.full(BINS, 1 / BINS))
            for each in AmountNoise
            if epsilon >= 1e-3  # its program is not solved below, and so nothing is released
        ),
    ]
    for mechanism, *public in requests:
        for noise in (OsEntropy(), SecureEntropy()):
            vault = LabelVault(labels=labels_for(mechanism), num_classes=CLASSES)
            drawn = vault.release(mechanism, *public, noise=noise).values
            assert np.isfinite(drawn.astype(float)).all()

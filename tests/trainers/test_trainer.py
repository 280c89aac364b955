"""What trainers' settings and trainers say unless they say otherwise, and how fields replace it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.trainer import PlannedCharge


@dataclass(frozen=True, kw_only=True)
class Unsure(GaussianNoise):
    """Noise that may fall short."""

    failure_probability: ClassVar[float] = 4e-6


def test_each_of_several_releases_may_fail_as_the_ledger_has_it() -> None:
    mechanism = Unsure(noise_std=4.0, num_classes=2)
    planned = PlannedCharge.of(mechanism, releases=3)
    vault = LabelVault(labels=np.arange(30) % 2, num_classes=2)
    for rows in np.array_split(np.arange(30), 3):
        vault.release(mechanism, indices=rows)
    delta = delta_of_total(vault.charges(), delta=1e-5)
    assert delta_of_total([planned], delta=1e-5) == pytest.approx(delta) == pytest.approx(2.4e-5)
    epsilon = epsilon_of_prices([planned], delta=delta)
    assert epsilon == pytest.approx(vault.epsilon(delta=delta), rel=1e-12)

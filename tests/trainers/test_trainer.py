"""What trainers' settings and trainers say unless they say otherwise, and how fields replace it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import (
    AlibiConfig,
    ConvexConfig,
)
from labeldp.trainers.settings.pate import PateConfig
from labeldp.trainers.trainer import PlannedCharge
from tests.trainers.tiny_data import digits


def test_pate_refuses_data_by_the_protocol() -> None:
    data, _ = digits(train=50)
    with pytest.raises(ValueError, match="teachers is 250"):
        PateConfig().check_data(data)


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


def test_a_trainer_without_figures_of_its_own_has_none() -> None:
    data, labels = digits(train=20)
    cpu = Performance(device=Device.CPU)
    threads = torch.get_num_threads()
    for config in (AlibiConfig(epochs=1), ConvexConfig()):
        trainer = config.start(data=data, labels=labels, seed=0, performance=cpu)
        assert trainer.figures() == {}
    assert torch.get_num_threads() == threads

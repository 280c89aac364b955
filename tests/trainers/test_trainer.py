"""What trainers' settings and trainers say unless they say otherwise, and how fields replace it."""

import pickle
from dataclasses import dataclass, field, replace
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
    AlibiPriorConfig,
    ConvexConfig,
    PriorSettings,
    PriorSource,
)
from labeldp.trainers.settings.pate import EnsembleConfig, PateConfig
from labeldp.trainers.trainer import PlannedCharge, TrainerDefaults
from tests.trainers.tiny_data import digits


@dataclass(frozen=True, kw_only=True)
class WithTeachers(TrainerDefaults):
    """Settings that have a field where the default is an attribute."""

    ensemble: EnsembleConfig = field(default_factory=EnsembleConfig)


def test_settings_say_neither_teachers_nor_a_prior_and_take_all_data() -> None:
    data, _ = digits(train=10)
    for config in (AlibiConfig(), ConvexConfig()):
        assert config.ensemble is None and config.prior is None
        config.check_data(data)


def test_a_field_of_the_same_name_is_what_is_read() -> None:
    few = EnsembleConfig(teachers=3, queries=5)
    config = WithTeachers(ensemble=few)
    assert config.ensemble is few and config.prior is None
    assert WithTeachers().ensemble == EnsembleConfig()
    assert AlibiPriorConfig().prior.source is PriorSource.CLUSTERS
    assert PateConfig(prior=PriorSettings()).prior == PriorSettings()


def test_what_was_read_changes_no_comparison_and_travels() -> None:
    """The default is cached in the object: nothing that compares or stores settings may see it."""
    asked, other = AlibiConfig(), AlibiConfig()
    assert asked.ensemble is None and asked.prior is None
    assert asked == other and hash(asked) == hash(other) and repr(asked) == repr(other)
    assert replace(asked, epsilon=2.0) == AlibiConfig(epsilon=2.0)
    again = pickle.loads(pickle.dumps(asked))
    assert again == other and again.ensemble is None


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

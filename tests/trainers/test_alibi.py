"""ALIBI on digits: it learns, repeats, resumes to the bit, says when it diverges, and refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from labeldp.mechanisms.vault import Release
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.alibi import Alibi
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.methods import AlibiConfig, Noise
from tests.trainers.tiny_data import SeededSource, digits, table

ON_CPU = Performance(device=Device.CPU)
QUICK = AlibiConfig(epochs=4, width=32, epsilon=4.0, learning_rate=0.1)


def started(
    config: AlibiConfig,
    given: tuple[PublicData, SeededSource] | None = None,
    *,
    seed: int = 0,
    performance: Performance = ON_CPU,
) -> Alibi:
    data, labels = digits() if given is None else given
    trainer: Alibi = config.start(data=data, labels=labels, seed=seed, performance=performance)
    return trainer


def trained(config: AlibiConfig, **how: Any) -> Alibi:
    trainer = started(config, **how)
    for _ in range(config.epochs):
        trainer.epoch()
    return trainer


def test_without_noise_it_is_plain_cross_entropy() -> None:
    """One step by hand: the baseline shares nothing with Bayes' rule that could bend it."""
    data, labels = digits(train=50)
    config = AlibiConfig(noise=Noise.NONE, epochs=1, momentum=0.0, warmup=0.0, weight_decay=0.0)
    trainer = started(config, (data, labels))
    model = trainer._learner.network
    mean, std = torch.tensor(data.mean), torch.tensor(data.std)
    inputs = (data.train_features.float() / 255 - mean) / std
    loss = functional.cross_entropy(model(inputs), torch.from_numpy(labels.labels))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    expected = [p.detach() - 0.05 * g for p, g in zip(model.parameters(), gradients, strict=True)]
    assert trainer.epoch().loss == pytest.approx(float(loss.detach()), rel=1e-5)
    for parameter, value in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-4, atol=1e-6)


def test_tables() -> None:
    data, labels = table()
    assert trained(replace(QUICK, epochs=20, batch_size=32), given=(data, labels)).evaluate() > 0.85
    with pytest.raises(ValueError, match=r"holds no images.*augment=False"):
        started(replace(QUICK, augment=True), (data, labels))
    with pytest.raises(ValueError, match="small_cnn needs images"):
        started(replace(QUICK, model=ModelName.SMALL_CNN), (data, labels))


def test_a_release_of_other_labels_is_refused() -> None:
    data, _ = digits()
    release = Release(key="", values=np.zeros((10, 10), dtype=np.float32), indices=None)
    with pytest.raises(ValueError, match="speaks of 10 labels, but there are 1438"):
        Alibi(QUICK, data=data, release=release, seed=0, performance=ON_CPU)

"""Epochs of ALIBI, against the loop that a person would write for them.

Both sides begin with the same weights, and where they see the same batches they end with the same.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data.labelled_data import PublicData, load
from labeldp.trainers.methods.alibi import Alibi
from labeldp.trainers.models.networks import build_model
from labeldp.trainers.models.schedules import Schedule
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.methods import AlibiConfig
from tests.benchmarks.benchmark import Work, benchmark

ON_CPU = Performance(device=Device.CPU)
FASHION, _TESTED = 60_000, 10_000


@dataclass(frozen=True, kw_only=True, eq=False)
class PlainAlibi:
    """ALIBI as its paper says it: each noisy vector held against the vector of each class."""

    config: AlibiConfig  # constant rates, no augmentation
    data: PublicData
    observed: Tensor  # noisy vectors [N, K]

    def started(self, weights: dict[str, Any]) -> tuple[nn.Module, torch.optim.SGD]:
        """Return the network with these weights, and its optimizer."""
        shape, classes = self.data.train_features.shape[1:], self.data.num_classes
        assert isinstance(self.config.model, ModelName)
        network = build_model(
            self.config.model, input_shape=tuple(shape), num_classes=classes, seed=0
        )
        network.load_state_dict(weights)
        return network, torch.optim.SGD(
            network.parameters(),
            lr=self.config.learning_rate,
            momentum=self.config.momentum,
            weight_decay=self.config.weight_decay,
            nesterov=self.config.nesterov,
        )

    def epoch(self, network: nn.Module, optimizer: torch.optim.SGD, order: list[int]) -> float:
        """Train on the examples in this order, and return the accuracy on the test split."""
        classes, scale = self.data.num_classes, 2 / self.config.epsilon
        vectors = torch.eye(classes)
        training = TensorDataset(self._inputs(self.data.train_features), self.observed)
        size = min(self.config.batch_size, len(training))
        network.train()
        for images, observed in DataLoader(training, size, sampler=order, drop_last=True):
            log_prior = network(images).log_softmax(1)
            evidence = -(observed[:, None] - vectors).abs().sum(2) / scale
            posterior = (evidence + log_prior.detach()).softmax(1)
            loss = -(posterior * log_prior).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return self._accuracy(network)

    def _accuracy(self, network: nn.Module) -> float:
        network.eval()
        labels = torch.from_numpy(self.data.test_labels)
        tested = TensorDataset(self._inputs(self.data.test_features), labels)
        with torch.no_grad():
            right = [
                int((network(images).argmax(1) == labels).sum())
                for images, labels in DataLoader(tested, self.config.batch_size)
            ]
        return sum(right) / max(1, len(tested))

    def _inputs(self, features: Tensor) -> Tensor:
        if features.dtype != torch.uint8:
            return features
        pixels = [torch.tensor(each).view(1, -1, 1, 1) for each in (self.data.mean, self.data.std)]
        return (features.float() / 255 - pixels[0]) / pixels[1]


def run_of(
    data: PublicData,
    labels: np.ndarray,
    config: AlibiConfig,
    performance: Performance = ON_CPU,
) -> tuple[Alibi, PlainAlibi]:
    """Return ALIBI on a release of these labels, and the plain way on the same one."""
    mechanism = config.mechanism(data.num_classes)
    assert isinstance(mechanism, LaplaceNoise)
    vault = LabelVault(labels=labels, num_classes=data.num_classes)
    release = vault.release(mechanism, noise=OsEntropy(draw=0))
    observed = torch.tensor(release.values).float()
    ours = Alibi(config, data=data, labels=vault, seed=0, performance=performance)
    return ours, PlainAlibi(config=config, data=data, observed=observed)


def _check(ours: Alibi, plain: PlainAlibi) -> None:
    """From the same weights in the same order, an epoch ends at the same weights."""
    before = ours.state_dict()
    generator = torch.Generator()
    generator.set_state(before["generator"])
    order = torch.randperm(len(plain.observed), generator=generator).tolist()
    network, optimizer = plain.started(before["network"])
    accuracy, found = plain.epoch(network, optimizer, order), ours.epoch()
    for name, weights in ours.state_dict()["network"].items():
        torch.testing.assert_close(network.state_dict()[name], weights, rtol=1e-2, atol=2e-4)
    if len(plain.data.test_labels):
        assert abs(found.val_accuracy - accuracy) <= 0.002, (found, accuracy)


def _alibi(
    data: PublicData, labels: np.ndarray, config: AlibiConfig, checked: PublicData | None = None
) -> Work:
    """Epochs of a run that goes on and on, beside those of the plain one.

    Both sides are compared on the data `checked`: over many steps their rounding adds up.
    """
    few = data if checked is None else checked
    ours, plain = run_of(data, labels, config)
    network, optimizer = plain.started(ours.state_dict()["network"])
    return Work(
        ours=ours.epoch,
        reference=lambda: plain.epoch(network, optimizer, torch.randperm(len(labels)).tolist()),
        check=lambda: _check(*run_of(few, labels[: len(few.train_features)], config)),
    )


def noise_images(count: int, *, shape: tuple[int, ...], classes: int, tested: int) -> PublicData:
    """Random images: what they show makes no difference to the time."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count + tested, *shape), dtype=torch.uint8, generator=generator)
    labels = torch.randint(classes, (tested,), generator=generator).numpy()
    return PublicData(
        name="noise",
        num_classes=classes,
        train_features=images[:count].clone(),
        test_features=images[count:].clone(),
        test_labels=labels,
    )


def _config(**changes: Any) -> AlibiConfig:
    return AlibiConfig(epsilon=2.0, schedule=Schedule.CONSTANT, warmup=0.0, **changes)


def cnn_config() -> AlibiConfig:
    """The small CNN as the sweeps of Fashion-MNIST train it, at a rate that noise survives."""
    return _config(model=ModelName.SMALL_CNN, batch_size=128, learning_rate=0.01, weight_decay=5e-4)


@benchmark(
    "alibi-epoch",
    "epoch of ALIBI on 1,438 digits, MLP, with evaluation",
    "the same loop with a DataLoader and torch's SGD",
    mark=0.65,
    rounds=11,
)
def _epoch(scratch: Path) -> Work:
    data = load("digits")
    config = _config(model=ModelName.MLP, batch_size=64)
    return _alibi(data.public, data.train_labels, config)


@benchmark(
    "cnn-epoch",
    "epoch of ALIBI on 60,000 images, small CNN, 10,000 evaluated",
    "the same loop with a DataLoader and torch's SGD",
    mark=0.55,
    most_seconds=6.0,
)
def _epoch_of_cnn(scratch: Path) -> Work:
    data = noise_images(FASHION, shape=(1, 28, 28), classes=10, tested=_TESTED)
    labels = np.random.default_rng(0).integers(0, 10, FASHION)
    few = noise_images(FASHION // 10, shape=(1, 28, 28), classes=10, tested=_TESTED // 10)
    return _alibi(data, labels, cnn_config(), checked=few)

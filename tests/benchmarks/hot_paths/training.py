"""Epochs of ALIBI, against the loop that a person would write for them.

Both sides begin with the same weights, and where they see the same batches they end with the same.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.linear_model import Ridge
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchvision import transforms

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.labelled_data import PublicData, load
from labeldp.trainers.methods.alibi import Alibi
from labeldp.trainers.methods.fixmatch import ImageViews, Operation, RandAugment
from labeldp.trainers.methods.pate import train_probes, vote
from labeldp.trainers.methods.settings import AlibiConfig
from labeldp.trainers.models.features import RandomPatchFeatures
from labeldp.trainers.models.learner import CropAndFlip
from labeldp.trainers.models.networks import build_model
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.training import Schedule
from tests.benchmarks.benchmark import Work, benchmark
from tests.trainers.pillow_reference import cut_out, operate, sample_tiles, to_pillow

_ON_CPU = Performance(device=Device.CPU)
_FASHION = 60_000
_TESTED = 10_000


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
        assert self.data.pixels is not None
        mean, std = (each.view(1, -1, 1, 1) for each in self.data.pixels.on(features.device))
        return (features.float() / 255 - mean) / std


def _run_of(data: PublicData, labels: np.ndarray, config: AlibiConfig) -> tuple[Alibi, PlainAlibi]:
    """Return ALIBI on a release of these labels, and the plain way on the same one."""
    mechanism = config.mechanism(data.num_classes)
    assert isinstance(mechanism, LaplaceNoise)
    vault = LabelVault(labels=labels, num_classes=data.num_classes)
    release = vault.release(mechanism, noise=OsEntropy(draw=0))
    observed = torch.tensor(release.values).float()
    ours = Alibi(config, data=data, labels=vault, seed=0, performance=_ON_CPU)
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
    ours, plain = _run_of(data, labels, config)
    network, optimizer = plain.started(ours.state_dict()["network"])
    return Work(
        ours=ours.epoch,
        reference=lambda: plain.epoch(network, optimizer, torch.randperm(len(labels)).tolist()),
        check=lambda: _check(*_run_of(few, labels[: len(few.train_features)], config)),
    )


def _noise_images(count: int, *, shape: tuple[int, ...], classes: int, tested: int) -> PublicData:
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
    data = _noise_images(_FASHION, shape=(1, 28, 28), classes=10, tested=_TESTED)
    labels = np.random.default_rng(0).integers(0, 10, _FASHION)
    few = _noise_images(_FASHION // 10, shape=(1, 28, 28), classes=10, tested=_TESTED // 10)
    # As the sweeps of Fashion-MNIST train it, at a rate that noise survives.
    settings = {"batch_size": 128, "learning_rate": 0.01, "weight_decay": 5e-4}
    return _alibi(data, labels, _config(model=ModelName.SMALL_CNN, **settings), checked=few)


# Weak and strong views of FixMatch, against one image at a time with Pillow and torchvision.

#: Unlabeled examples in one step of FixMatch, and how many the reference takes.
_BATCH, _ONE_BY_ONE = 448, 112


@benchmark(
    "views",
    "448 pairs of weak and strong views, 32 x 32",
    "Pillow and torchvision, an image at a time",
    mark=15,
    rounds=9,
)
def _views(scratch: Path) -> Work:
    images = sample_tiles(count=_BATCH)
    mean, std = torch.full((3,), 0.5), torch.full((3,), 0.25)
    views = ImageViews(pixels=(mean, std), crop=CropAndFlip(), augment=RandAugment())
    generator, python = torch.Generator().manual_seed(0), random.Random(0)
    photographs = [to_pillow(image) for image in images[:: _BATCH // _ONE_BY_ONE]]
    # What the published code does to each image, with the same transforms of torchvision.
    crop = transforms.Compose(
        [
            transforms.RandomHorizontalFlip(),
            transforms.RandomCrop(32, padding=4, padding_mode="reflect"),
        ]
    )
    tensor = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))]
    )

    def strong(image: Image.Image) -> Image.Image:
        """Two operations of RandAugment and a gray box on top."""
        image = crop(image)
        for operation in python.choices(list(Operation), k=2):
            magnitude, sign = python.randrange(1, 10), python.choice((-1, 1))
            if python.random() < 0.5:
                image = operate(operation, image, magnitude, sign)
        return cut_out(image, 16, python.uniform(0, 32), python.uniform(0, 32))

    def one_by_one() -> tuple[Tensor, Tensor]:
        weak = torch.stack([tensor(crop(image)) for image in photographs])
        return weak, torch.stack([tensor(strong(image)) for image in photographs])

    def batched() -> tuple[Tensor, Tensor]:
        return views.weak(images, generator), views.strong(images, generator)

    def check() -> None:
        """Draws differ: what is compared is the distribution of pixels, channel by channel."""
        for ours, theirs in zip(batched(), one_by_one(), strict=True):
            assert ours.shape[1:] == theirs.shape[1:] and ours.dtype == theirs.dtype
            for figure in (torch.mean, torch.std):
                gaps = figure(ours, dim=(0, 2, 3)) - figure(theirs, dim=(0, 2, 3))
                assert gaps.abs().max() < 0.25, (figure.__name__, gaps)

    return Work(ours=batched, reference=one_by_one, part=_ONE_BY_ONE / _BATCH, check=check)


# Random-patch features, against the same formula with every patch laid out.

_DESCRIBED, _BY_HAND, _PIXELS = 256, 32, 255


@benchmark(
    "random-patches",
    "1,024 random patches of 256 photographs, bfloat16",
    "every patch of image and mirror image laid out, in single precision",
    mark=3.7,
)
def _random_patches(scratch: Path) -> Work:
    images = sample_tiles(count=2 * _DESCRIBED)
    settings = RandomPatchFeatures(dimensions=200, sampled_patches=20_000, sampled_images=256)
    encoder = settings.fit(images)
    described = images[:_DESCRIBED]
    filters, cells = encoder.filters, encoder.cells
    kernels = encoder.kernels.flatten(1)
    deviations = kernels.shape[1] ** 0.5

    def answers(some: Tensor) -> Tensor:
        """Return the features of each patch of an image by each filter [B, 2, F, cells, cells]."""
        patch = settings.patch
        patches = functional.unfold(some.float() / _PIXELS, patch).mT
        products = patches @ kernels.mT + encoder.bias
        cosines = products[..., :filters] / products[..., filters:].norm(dim=2, keepdim=True)
        sides = torch.stack((cosines, -cosines), 1) * deviations - encoder.threshold
        shape = (-1, filters, *(length - patch + 1 for length in some.shape[2:]))
        pooled = functional.adaptive_avg_pool2d(sides.clamp(min=0).mT.reshape(shape), cells)
        return pooled.view(len(some), 2, filters, cells, cells)

    def plain() -> Tensor:
        """An image and its mirror image, all in single precision."""
        assert encoder.projection is not None
        with torch.inference_mode():
            some = described[:_BY_HAND]
            mean = (answers(some) + answers(some.flip(3))) / 2
            middle = cells // 2
            left = mean[..., :middle].flatten(1)
            center = mean[:, :, : filters // 2, :, middle].flatten(1)
            found: Tensor = torch.cat((left, center), 1).sqrt() - encoder.shift
            return found @ encoder.projection.float()

    def check() -> None:
        """Ours is in bfloat16: the features' inner products are within 1% of those of the plain."""
        ours, exact = encoder(described[:_BY_HAND]), plain()
        gap = (ours @ ours.mT - exact @ exact.mT).square().mean()
        assert gap < 1e-4 * (exact @ exact.mT).square().mean(), gap

    return Work(
        ours=lambda: encoder(described),
        reference=plain,
        part=_BY_HAND / _DESCRIBED,
        check=check,
    )


# Ensembles: probes solved together, against one by one.

_TEACHERS, _FITTED, _EXAMPLES, _QUERIES = 800, 40, 60_000, 10_000


@benchmark(
    "probes",
    "800 linear teachers on 75 examples each, 8 million votes",
    "scikit-learn's Ridge, a teacher at a time",
    mark=2.4,
    most_seconds=10.0,
)
def _probes(scratch: Path) -> Work:
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 10, _EXAMPLES)
    centers = draws.normal(size=(10, 400)) / 20
    features = torch.from_numpy(
        (centers[labels] + draws.normal(size=(_EXAMPLES, 400)) / 20).astype(np.float32)
    )
    shards = list(draws.permutation(_EXAMPLES).reshape(_TEACHERS, -1))
    of_shards = [labels[shard] for shard in shards]
    queries = features[:_QUERIES]

    def together() -> np.ndarray:
        return vote(train_probes(features, shards, of_shards, 10), queries)

    def one_by_one() -> np.ndarray:
        rows, asked, votes = features.numpy(), queries.numpy(), []
        # The library's probes pull the bias to 0 like every other weight.
        rows, asked = (np.pad(part, ((0, 0), (0, 1)), constant_values=1) for part in (rows, asked))
        for shard, classes in zip(shards[:_FITTED], of_shards, strict=False):
            probe = Ridge(alpha=0.1, fit_intercept=False)
            probe.fit(rows[shard], np.eye(10, dtype=np.float32)[classes] - 0.1)
            votes.append(probe.predict(asked).argmax(1))
        return np.stack(votes)

    def check() -> None:
        assert (together()[:_FITTED] == one_by_one()).mean() > 0.999

    return Work(ours=together, reference=one_by_one, part=_FITTED / _TEACHERS, check=check)

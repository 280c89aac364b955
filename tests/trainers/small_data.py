"""Small public data for tests of trainers, and vaults of the labels behind them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.pate.aggregators import InteractiveGNMax
from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.release_store import MemoryStore
from labeldp.mechanisms.vault import LabelVault, Release
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.labelled_data import PublicData, load
from labeldp.trainers.methods.pate_settings import EnsembleConfig
from labeldp.trainers.methods.semi_supervised import SemiSupervised
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.training import Flip, Recipe, SemiSupervisedConfig

ON_CPU = Performance(device=Device.CPU)
#: A small network that learns from a few labels.
FEW_LABELS: dict[str, Any] = {
    **{"model": ModelName.MLP, "width": 16, "epochs": 2, "steps_per_epoch": 20, "batch_size": 8},
    **{"unlabeled_ratio": 2, "learning_rate": 0.1, "average_decay": 0.5},
}
#: Everything that a recipe can do for images.
EVERY_STEP = Recipe(
    flip=Flip.ALTERNATING,
    crop=1,
    bias_rate=8.0,
    decoupled_decay=True,
    average_decay=0.9,
    mirrored=True,
)
Given = tuple[PublicData, "SeededVault"]


class SeededVault(LabelVault):
    """A vault whose salt and noise repeat, and answers of 40 teachers of whom nearly all agree."""

    def __init__(self, labels: Any, num_classes: int, *, seed: int = 0, **limits: Any) -> None:
        super().__init__(
            labels=labels, num_classes=num_classes, store=MemoryStore(bytes(32)), **limits
        )
        self.labels = np.asarray(labels)
        self.seed = seed
        self.asked: list[tuple[Sequence[PateAnswers], NDArray[np.float32] | None, bool]] = []

    def release(self, *asked: Any, **how: Any) -> Release:
        return super().release(*asked, **{**how, "noise": SeededNoise(seed=self.seed)})

    def answers(
        self,
        ensemble: EnsembleConfig,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
    ) -> NDArray[np.int64]:
        """Answer by the true labels, free of charge, and remember the question."""
        self.asked.append((requests, student_scores, publish_cost))
        truth = self.labels[ensemble.query_positions(len(self.labels))]
        votes = 1 + (40 - self.num_classes) * np.eye(self.num_classes, dtype=int)[truth]
        released, first = [], 0
        for number, request in enumerate(requests):
            part = votes[first : first + request.queries]
            first += request.queries
            interactive = isinstance(request.aggregator, InteractiveGNMax)
            scores = (student_scores,) if interactive and student_scores is not None else ()
            generator = np.random.default_rng(number)
            released.append(request.release(part, *scores, generator=generator))
        return np.concatenate(released)


def digits(*, train: int | None = None, **limits: Any) -> Given:
    """scikit-learn's digits, images of 8x8 pixels: some or all of them to train on."""
    data = load("digits", limit=train)
    return data.public, SeededVault(data.train_labels, 10, **limits)


def trained(config: Any, given: Given, *, epochs: int | None = None, **how: Any) -> Any:
    data, vault = given
    how = {"seed": 0, "performance": ON_CPU, **how}
    trainer = config.start(data=data, labels=vault, **how)
    for _ in range(config.epochs if epochs is None else epochs):
        trainer.epoch()
    return trainer


def student_of(config: SemiSupervisedConfig, data: PublicData, posterior: Any) -> SemiSupervised:
    """A student of probabilities, whose first nine examples have labels."""
    return SemiSupervised(
        config,
        data=data,
        posterior=posterior,
        examples=np.arange(9),
        labels=np.arange(9) % data.num_classes,
        seed=0,
        performance=ON_CPU,
    )


def small_images(
    *, examples: int = 400, side: int = 12, channels: int = 1
) -> tuple[PublicData, NDArray[np.int64]]:
    """Noisy images of one pattern for each of three classes, and the training labels."""
    random = np.random.default_rng(0)
    patterns = random.integers(0, 256, (3, channels, side, side))
    labels = random.integers(0, 3, examples + 200)
    noise = random.normal(scale=40, size=(len(labels), channels, side, side))
    pixels = np.clip(patterns[labels] * 0.5 + 64 + noise, 0, 255).astype(np.uint8)
    return _public("small images", torch.from_numpy(pixels), labels, examples)


def small_table(*, examples: int = 400) -> tuple[PublicData, NDArray[np.int64]]:
    """A cloud of points for each of three classes, and the training labels."""
    random = np.random.default_rng(0)
    centers = random.normal(scale=1.5, size=(3, 8))
    labels = random.integers(0, 3, examples + 200)
    values = (centers[labels] + random.normal(size=(len(labels), 8))).astype(np.float32)
    return _public("small table", torch.from_numpy(values), labels, examples)


def _public(
    name: str, features: torch.Tensor, labels: NDArray[np.int64], examples: int
) -> tuple[PublicData, NDArray[np.int64]]:
    data = PublicData(
        name=name,
        num_classes=3,
        train_features=features[:examples],
        test_features=features[examples:],
        test_labels=labels[examples:],
    )
    return data, labels[:examples]

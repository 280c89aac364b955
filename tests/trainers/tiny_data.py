"""Small public data for tests of trainers, and sources of releases for the labels behind them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import LabelVault, Mechanism, MemoryStore, Release
from labeldp.trainers.data.labelled_data import PublicData, load


@dataclass(frozen=True, kw_only=True)
class SeededSource:
    """Releases of some labels with noise that repeats, as a trainer asks for them."""

    labels: NDArray[np.int64]
    num_classes: int
    seed: int = 0

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return a release from a vault of its own, whose salt (and so its noise) repeats."""
        store = MemoryStore(bytes(32))
        vault = LabelVault(labels=self.labels, num_classes=self.num_classes, store=store)
        return vault.release(mechanism, *public, indices=indices, noise=SeededNoise(seed=self.seed))


def digits(*, train: int | None = None) -> tuple[PublicData, SeededSource]:
    """scikit-learn's digits, images of 8x8 pixels: some or all of them to train on."""
    data = load("digits", limit=train)
    return data.public, SeededSource(labels=data.train_labels, num_classes=10)


def table(*, train: int = 200, columns: int = 5) -> tuple[PublicData, SeededSource]:
    """Two Gaussian clouds in a table."""
    generator = np.random.default_rng(0)
    labels = generator.integers(2, size=2 * train)
    values = generator.normal(size=(2 * train, columns)) + 1.5 * labels[:, None]
    features = torch.from_numpy(values.astype(np.float32))
    data = PublicData(
        name="clouds",
        num_classes=2,
        train_features=features[:train],
        test_features=features[train:],
        test_labels=labels[train:],
    )
    return data, SeededSource(labels=labels[:train], num_classes=2)

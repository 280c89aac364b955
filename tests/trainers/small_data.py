"""Small data sets made on the spot, images and a table, that a few steps can learn."""

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.trainers.data.labelled_data import PublicData


def small_images(
    *, examples: int = 400, side: int = 12, channels: int = 1, classes: int = 3, seed: int = 0
) -> tuple[PublicData, NDArray[np.int64]]:
    """Noisy images of one pattern per class, and the training labels."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 256, (classes, channels, side, side))
    labels = random.integers(0, classes, examples + 200)
    noise = random.normal(scale=40, size=(len(labels), channels, side, side))
    pixels = np.clip(patterns[labels] * 0.5 + 64 + noise, 0, 255).astype(np.uint8)
    return _public("small images", torch.from_numpy(pixels), labels, examples, classes)


def small_table(
    *, examples: int = 400, columns: int = 8, classes: int = 3, seed: int = 0
) -> tuple[PublicData, NDArray[np.int64]]:
    """A cloud of points per class, and the training labels."""
    random = np.random.default_rng(seed)
    centers = random.normal(scale=1.5, size=(classes, columns))
    labels = random.integers(0, classes, examples + 200)
    values = (centers[labels] + random.normal(size=(len(labels), columns))).astype(np.float32)
    return _public("small table", torch.from_numpy(values), labels, examples, classes)


def _public(
    name: str, features: torch.Tensor, labels: NDArray[np.int64], examples: int, classes: int
) -> tuple[PublicData, NDArray[np.int64]]:
    data = PublicData(
        name=name,
        num_classes=classes,
        train_features=features[:examples],
        test_features=features[examples:],
        test_labels=labels[examples:],
    )
    return data, labels[:examples]

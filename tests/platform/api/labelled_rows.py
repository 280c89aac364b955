"""Rows with labels that a model can learn, for tests of the Python interface."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Labels = NDArray[np.int64]


def rows_and_labels(
    count: int, *, features: int = 6, classes: int = 3, seed: int = 0
) -> tuple[Rows, Labels]:
    """Return rows [N, D] of very different scales, and the classes of their clusters [N]."""
    generator = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(size=(classes, features), scale=2.0)
    labels = generator.integers(classes, size=count)
    rows = centers[labels] + generator.normal(size=(count, features))
    return rows * np.logspace(-3, 4, features) + 100, labels.astype(np.int64)

"""Small photographs of a kind: stripes of four directions, in any color, place and light."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CLASSES = 4


def textures(
    count: int, *, seed: int = 0, side: int = 16, noise: float = 45.0
) -> tuple[Tensor, NDArray[np.int64]]:
    """Return images uint8 [N, 3, side, side], and which of four textures each has [N].

    Two spacings of stripes, each straight or as a chessboard, turned at random: mirror images,
    windows and other colors are of the same texture.
    """
    random = np.random.default_rng(seed)
    labels = random.integers(CLASSES, size=count)
    y, x = np.mgrid[:side, :side] / side
    images = np.empty((count, 3, side, side))
    for place, label in enumerate(labels):
        angle, phase, other = random.uniform(0, 2 * math.pi, size=3)
        waves = 2.0 if label % 2 else 4.5
        along = x * math.cos(angle) + y * math.sin(angle)
        across = y * math.cos(angle) - x * math.sin(angle)
        pattern = np.sin(2 * math.pi * waves * along + phase)
        if label >= 2:
            pattern = pattern * np.sin(2 * math.pi * waves * across + other) * 1.4
        color = random.uniform(-70, 70, size=3)
        images[place] = random.uniform(80, 170) + color[:, None, None] * pattern
    images += random.normal(scale=noise, size=images.shape)
    return torch.from_numpy(images.clip(0, 255).astype(np.uint8)), labels

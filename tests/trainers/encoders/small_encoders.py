"""Small encoders and images for tests: a network of the user's own, and features written of it."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labeldp.trainers.encoders.embedding import embed
from labeldp.trainers.encoders.encoder import EncoderRequest

#: Address of `small` below.
SMALL = "tests.trainers.encoders.small_encoders:small"


class Small(nn.Module):
    """Bytes [B, 3, H, W] to vectors [B, 6]."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 6, 5, stride=3)

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.convolution(images.float() / 255 - 0.5).relu().mean((2, 3))
        return found


def small(weights: Path | None) -> nn.Module:
    network = Small()
    if weights is not None:
        network.load_state_dict(torch.load(weights, weights_only=True))
    return network


def sequences(weights: Path | None) -> Any:
    return lambda images: torch.zeros(len(images), 5, 7)


def not_finite(weights: Path | None) -> Any:
    return lambda images: torch.full((len(images), 2), torch.nan)


def large(weights: Path | None) -> Any:
    return lambda images: torch.full((len(images), 2), 1e5)


def one_vector(weights: Path | None) -> Any:
    return lambda images: torch.zeros(1, 2)


def of_its_batch(weights: Path | None) -> Any:
    return lambda images: torch.zeros(len(images), len(images))


def drawn(weights: Path | None) -> Any:
    projection = torch.randn(3, 2)
    return lambda images: images.float().mean((2, 3)) @ projection


def interrupted(weights: Path | None) -> Any:
    def encode(images: Tensor) -> Tensor:
        if len(images) < 8:  # the last batch
            raise KeyboardInterrupt
        return torch.zeros(len(images), 2)

    return encode


def fails(weights: Path | None) -> Any:
    raise RuntimeError("no such thing")


def nothing(weights: Path | None) -> Any:
    return 3


def some_images(count: int = 20, *, side: int = 12, seed: int = 0) -> NDArray[np.uint8]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, size=(count, 3, side, side), dtype=np.uint8)


def embedded(
    source: Path | str, out: Path, address: str = SMALL, *, replace: bool = False, **encoder: Any
) -> dict[str, Any]:
    request = EncoderRequest(address=address, **encoder)
    return embed(str(source), out, request, batch_size=8, replace=replace)

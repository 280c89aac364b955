"""What steps of a preprocessing share that describe images by an encoder fitted to such images."""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor


class FittedEncoder(Protocol):
    """An encoder of patches."""

    @property
    def projection(self) -> Tensor | None:
        """On the numbers that come out [numbers, D]; None before it is fitted."""

    def __call__(self, images: Tensor) -> Tensor:
        """Return features, single precision [N, D], of images uint8 [N, C, H, W]."""


Encoder = TypeVar("Encoder", bound=FittedEncoder)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedImages(Generic[Encoder]):
    """Images described by an encoder."""

    encoder: Encoder

    def __call__(self, rows: Any) -> Tensor:
        """Return features, single precision [N, D], of images uint8 [N, C, H, W]."""
        return self.encoder(torch.as_tensor(rows))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row that comes out."""
        assert self.encoder.projection is not None, "it is fitted"
        return (self.encoder.projection.shape[1],)

"""How what an encoder returns becomes one vector per image; sequences are not guessed about.

>>> import torch
>>> vectors_of(torch.zeros(2, 5, 3), pool=Pool.CLS, encoder="mine:net").shape
torch.Size([2, 3])
"""

from enum import StrEnum
from typing import Any

from torch import Tensor


class Pool(StrEnum):
    """What of a sequence is taken: its first vector (CLS), or the MEAN of all; of maps the MEAN."""

    CLS = "cls"
    MEAN = "mean"


def vectors_of(output: Any, *, pool: Pool | None, encoder: str) -> Tensor:
    """Return vectors [B, D] of what an encoder returned for B images.

    Args:
        output: Vectors [B, D], maps [B, D, 1, 1], or with `pool` sequences [B, T, D] and maps
            [B, D, H, W].
        pool: What becomes of sequences and maps.
        encoder: Its name, for messages.

    Raises:
        ValueError: Anything else; the message says its shape.
    """
    if not isinstance(output, Tensor):
        raise ValueError(
            f"{encoder} returns a {type(output).__name__} and no tensor; return vectors [B, D]"
        )
    found: Tensor = output
    shape = tuple(found.shape)
    if found.ndim == 4 and shape[2:] == (1, 1):
        found = found.flatten(1)
    if pool is not None and found.ndim == 3:
        found = found[:, 0] if pool is Pool.CLS else found.mean(1)
    elif pool is Pool.MEAN and found.ndim == 4:
        found = found.mean((2, 3))
    if found.ndim == 2 and found.shape[1] and found.is_floating_point():
        return found
    what, way_out = "", "it must return vectors of floating-point numbers [B, D]"
    if found.ndim == 3:
        what = f", sequences of {shape[1]} vectors of {shape[2]} numbers"
        way_out = "say which one vector is meant: --pool cls (the first) or --pool mean"
    elif found.ndim == 4:
        what = f", {shape[1]} maps of {shape[2]} x {shape[3]}"
        way_out = "say --pool mean"
    raise ValueError(
        f"{encoder} returns {found.dtype} of shape {shape} for {shape[0] if shape else 0} images"
        f"{what}, and no vectors; {way_out}"
    )

"""An endless stream of positions: each pass goes through all of them, in a new random order.

Batches run across the ends of passes, so a batch may be larger than the set; that is how FixMatch
makes full batches of a handful of labels.

>>> stream = ShuffledStream(3, seed=0)
>>> sorted(stream.take(3).tolist()), len(stream.take(100))
([0, 1, 2], 100)
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from labeldp.mechanisms import _validate


class ShuffledStream:
    """Positions 0..count-1, over and over."""

    def __init__(self, count: int, *, seed: int) -> None:
        """Start the first pass."""
        _validate.whole(count=count, minimum=1)
        _validate.whole(seed=seed)
        self._count = count
        self._generator = torch.Generator().manual_seed(seed)
        self._rest = torch.empty(0, dtype=torch.int64)

    def take(self, size: int) -> Tensor:
        """Return the next positions, int64 [size]."""
        parts, missing = [self._rest], size - len(self._rest)
        while missing > 0:
            parts.append(torch.randperm(self._count, generator=self._generator))
            missing -= self._count
        positions = torch.cat(parts)
        self._rest = positions[size:]
        return positions[:size]

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of what the stream will go on from."""
        return {"generator": self._generator.get_state(), "rest": self._rest.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self._generator.set_state(state["generator"].cpu())
        self._rest = state["rest"].cpu().clone()

"""A moving average of a network's weights, which judges better than the last of them.

Statistics of normalization are averaged too: they belong to the weights that they were taken of.

>>> network = nn.Linear(1, 1, bias=False)
>>> _ = network.weight.data.fill_(1.0)
>>> average = WeightAverage(network, decay=0.9)
>>> _ = network.weight.data.fill_(0.0)
>>> average.update(network)
>>> round(float(average.network.weight), 3)
0.1
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

#: Update t weighs the past by (1 + t) / (10 + t) until that is more than the decay: the initial
#: weights, which nothing was learned in, are forgotten in a few steps.
_YOUNG = 10


class WeightAverage:
    """The average, as a network of its own.

    Attributes:
        network: With the averaged weights; it judges and never trains.
    """

    def __init__(self, network: nn.Module, *, decay: float) -> None:
        """Start at the weights that the network has now."""
        self.network = copy.deepcopy(network).requires_grad_(False)
        self._decay = decay
        self._updates = 0

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Move the average on, after a step of the network."""
        past = min(self._decay, (1 + self._updates) / (_YOUNG + self._updates))
        self._updates += 1
        own, new = _tensors(self.network), _tensors(network)
        moving = [place for place, tensor in enumerate(own) if tensor.is_floating_point()]
        torch._foreach_lerp_(
            [own[place] for place in moving], [new[place] for place in moving], 1 - past
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what a continuation needs; the tensors are those in use, not copies."""
        return {"updates": self._updates, "network": self.network.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of the same network."""
        self._updates = int(state["updates"])
        self.network.load_state_dict(state["network"])


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]

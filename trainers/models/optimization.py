"""Stochastic gradient descent with momentum, and a moving average of weights.

`torch.optim.SGD` is the same arithmetic, but the first optimizer of a process loads torch's
compiler: seconds of a core in every worker of a sweep. Its functional form does not.

>>> weight = torch.ones(1, requires_grad=True)
>>> every = ParameterGroup([weight], weight_decay=0.0)
>>> optimizer = Sgd([every], learning_rate=0.5, momentum=0.0)
>>> (3 * weight).sum().backward()
>>> optimizer.step()
>>> weight.tolist()
[-0.5]
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd as torch_sgd


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are treated alike, at `rate` times the learning rate.

    A `decoupled` weight decay pulls the parameters themselves (Loshchilov and Hutter, ICLR 2019,
    with momentum's gathering left out), and is not a part of the gradient; `rate` is not in it.
    """

    parameters: Sequence[Tensor]
    weight_decay: float
    rate: float = 1.0
    decoupled: bool = False


def sgd(
    model: nn.Module,
    *,
    learning_rate: float,
    momentum: float = 0.9,
    nesterov: bool = True,
    weight_decay: float = 0.0,
    decay_all: bool = True,
    bias_rate: float = 1.0,
    decoupled: bool = False,
) -> "Sgd":
    """Return SGD over the parameters of a model.

    Biases and the scales of normalization learn at `bias_rate` times the learning rate, and decay
    with `decay_all` alone.
    """
    parameters = list(model.parameters())
    groups = [ParameterGroup(parameters, weight_decay, decoupled=decoupled)]
    if not decay_all or bias_rate != 1:
        weights = [p for p in parameters if p.ndim > 1]
        others = [p for p in parameters if p.ndim <= 1]
        of_others = weight_decay if decay_all else 0.0
        groups = [
            ParameterGroup(weights, weight_decay, decoupled=decoupled),
            ParameterGroup(others, of_others, rate=bias_rate, decoupled=decoupled),
        ]
    groups = [group for group in groups if group.parameters]
    return Sgd(groups, learning_rate=learning_rate, momentum=momentum, nesterov=nesterov)


class Sgd:
    """SGD over groups of parameters; set `learning_rate` before a step whenever it changes."""

    def __init__(
        self,
        groups: Sequence[ParameterGroup],
        *,
        learning_rate: float,
        momentum: float = 0.9,
        nesterov: bool = True,
    ) -> None:
        """Start without momentum; Nesterov's look ahead has no effect at `momentum` 0."""
        self.learning_rate = learning_rate
        self.groups = tuple(groups)
        self._momentum = momentum
        self._nesterov = nesterov and momentum > 0
        # Zeros instead of torch's None until a first gradient: the first step is the same, and one
        # parameter may get its first gradient later than another.
        self._velocities = [
            [torch.zeros_like(parameter, requires_grad=False) for parameter in group.parameters]
            for group in groups
        ]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for group in self.groups:
            for parameter in group.parameters:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group, velocities in zip(self.groups, self._velocities, strict=True):
            parameters: list[Tensor] = []
            gradients: list[Tensor] = []
            moving: list[Tensor | None] = []
            for parameter, velocity in zip(group.parameters, velocities, strict=True):
                if parameter.grad is not None:
                    parameters.append(parameter)
                    gradients.append(parameter.grad)
                    moving.append(velocity)
            if group.decoupled:
                shrunk = 1 - self.learning_rate * group.weight_decay
                torch._foreach_mul_(parameters, shrunk)
            torch_sgd(
                parameters,
                gradients,
                moving,
                fused=True,
                weight_decay=0.0 if group.decoupled else group.weight_decay,
                momentum=self._momentum,
                lr=self.learning_rate * group.rate,
                dampening=0.0,
                nesterov=self._nesterov,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what has been gathered so far; the tensors are those in use, not copies."""
        return {"learning_rate": self.learning_rate, "velocities": self._velocities}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of the same groups; its tensors are copied."""
        self.learning_rate = float(state["learning_rate"])
        for velocities, others in zip(self._velocities, state["velocities"], strict=True):
            for velocity, other in zip(velocities, others, strict=True):
                velocity.copy_(other)


#: Update t weighs the past by (1 + t) / (10 + t) until that is more than the decay: the initial
#: weights, which nothing was learned in, are forgotten in a few steps.
_YOUNG = 10


class WeightAverage:
    """A moving average of weights, as a `network` of its own that judges and never trains."""

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

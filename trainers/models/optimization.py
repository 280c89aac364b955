"""Stochastic gradient descent: batches, momentum, a loss of soft labels, an average of weights.

`torch.optim.SGD` is the same arithmetic, but the first optimizer of a process loads torch's
compiler: seconds of a core in every worker of a sweep. Its functional form does not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd as torch_sgd
from torch.optim.swa_utils import AveragedModel


class Sgd:
    """SGD over the parameters of a model; set `learning_rate` before a step whenever it changes.

    Args:
        model: Whose parameters learn.
        learning_rate: Length of a step.
        momentum: Share of the last step's velocity that is kept.
        nesterov: Whether to look ahead; it has no effect at `momentum` 0.
        weight_decay: Pull of parameters towards 0.
        decay_all: Whether biases and the scales of normalization decay too.
        bias_rate: Times the learning rate, for biases and the scales of normalization.
        decoupled: Whether the decay pulls the parameters themselves, at the learning rate of all,
            and is not a part of the gradient (Loshchilov and Hutter, ICLR 2019, with momentum's
            gathering left out).
        average: Of the model's weights; every step moves it on. None for none.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float,
        momentum: float = 0.9,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        decay_all: bool = True,
        bias_rate: float = 1.0,
        decoupled: bool = False,
        average: "WeightAverage | None" = None,
    ) -> None:
        self._model = model
        self._average = average
        self._momentum = momentum
        self._nesterov = nesterov and momentum > 0
        self._decoupled = decoupled
        parameters = list(model.parameters())
        #: Parameters that are treated alike, their decay, and times the learning rate.
        self._groups = [(parameters, weight_decay, 1.0)]
        if not decay_all or bias_rate != 1:
            weights = [p for p in parameters if p.ndim > 1]
            others = [p for p in parameters if p.ndim <= 1]
            of_others = weight_decay if decay_all else 0.0
            groups = [(weights, weight_decay, 1.0), (others, of_others, bias_rate)]
            self._groups = [group for group in groups if group[0]]
        # Zeros instead of torch's None until a first gradient: the first step is the same, and one
        # parameter may get its first gradient later than another.
        self._velocities = [
            [torch.zeros_like(parameter, requires_grad=False) for parameter in parameters]
            for parameters, _, _ in self._groups
        ]
        # A recorded step finds later rates where the first were; a GPU reads single precision.
        device = parameters[0].device
        kind = torch.float64 if device.type == "cpu" else torch.float32
        #: Of each group, the rate and what a decoupled decay leaves of a parameter.
        self._rates = [torch.zeros(2, dtype=kind, device=device).unbind() for _ in self._groups]
        self.learning_rate = learning_rate

    @property
    def learning_rate(self) -> float:
        """That of weights in the next step."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._learning_rate = rate
        for (_, decay, times), (own, kept) in zip(self._groups, self._rates, strict=True):
            own.fill_(rate * times)
            kept.fill_(1 - rate * decay)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self._model.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient, and then the average of all."""
        for group, velocities, (rate, kept) in zip(
            self._groups, self._velocities, self._rates, strict=True
        ):
            members, decay, _ = group
            parameters: list[Tensor] = []
            gradients: list[Tensor] = []
            moving: list[Tensor | None] = []
            for parameter, velocity in zip(members, velocities, strict=True):
                if parameter.grad is not None:
                    parameters.append(parameter)
                    gradients.append(parameter.grad)
                    moving.append(velocity)
            if self._decoupled:
                torch._foreach_mul_(parameters, kept)
            torch_sgd(
                parameters,
                gradients,
                moving,
                fused=True,
                weight_decay=0.0 if self._decoupled else decay,
                momentum=self._momentum,
                lr=rate,
                dampening=0.0,
                nesterov=self._nesterov,
                maximize=False,
            )
        if self._average is not None:
            self._average.update_parameters(self._model)

    def state_dict(self) -> dict[str, Any]:
        """Return what has been gathered so far; the tensors are those in use, not copies."""
        return {"learning_rate": self.learning_rate, "velocities": self._velocities}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of the same groups; its tensors are copied."""
        self.learning_rate = float(state["learning_rate"])
        for velocities, others in zip(self._velocities, state["velocities"], strict=True):
            for velocity, other in zip(velocities, others, strict=True):
                velocity.copy_(other)


class AdamW(torch.optim.AdamW):
    """AdamW over the parameters of a model that learn (Loshchilov and Hutter, ICLR 2019).

    Weights decay; biases and the scales of normalization don't. Set `learning_rate` before a step
    whenever it changes.
    """

    def __init__(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> None:
        """Start without moments, on the device where the parameters are now."""
        parameters = [each for each in model.parameters() if each.requires_grad]
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        super().__init__(groups, lr=learning_rate, fused=True)

    @property
    def learning_rate(self) -> float:
        """That of all parameters."""
        return float(self.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for group in self.param_groups:
            group["lr"] = rate


#: Of the young average: its first update weighs the past by a tenth.
_YOUNG = 10


class WeightAverage(AveragedModel):
    """A moving average of a network's weights, which starts at them.

    Update t weighs the past by `decay`, and statistics of batch normalization are copied. `young`:
    by (1 + t) / (10 + t) at first, and statistics are averaged, too. The initial weights, which
    nothing was learned in, are forgotten in a few steps then.

    All that an update reads is on the device of the network, where a recorded step finds it.
    """

    def __init__(self, network: nn.Module, *, decay: float, young: bool) -> None:
        weight = next(network.parameters())
        super().__init__(network, device=weight.device, use_buffers=young)
        self._decay = decay
        self._dtype = weight.dtype
        self.n_averaged += 1

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Move on to the weights of the model."""
        updates = self.n_averaged.double()
        most = torch.full_like(updates, self._decay)
        past = most.minimum(updates / (_YOUNG - 1 + updates)) if self.use_buffers else most
        averages: list[Tensor] = [*self.module.parameters()]
        weights: list[Tensor] = [*model.parameters()]
        for average, current in zip(self.module.buffers(), model.buffers(), strict=True):
            if not self.use_buffers:
                average.copy_(current)
            elif average.is_floating_point():  # counts of batches stay
                averages.append(average)
                weights.append(current)
        shares: list[Tensor] = [(1 - past).to(self._dtype)] * len(weights)
        torch._foreach_lerp_(averages, weights, shares)
        self.n_averaged += 1


def batches(count: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield positions 0..count-1 in random order, a batch at a time; a last part batch is left out.

    Fewer examples than a batch holds make one batch of all. The order is drawn before the first
    batch, so a generator shared with augmentation is used in the same sequence by every reader. The
    generator is one of the CPU: one seed gives one order on every device.
    """
    order = torch.randperm(count, generator=generator)
    if count <= batch_size:
        yield order
        return
    for start in range(0, count - batch_size + 1, batch_size):
        yield order[start : start + batch_size]


def soft_cross_entropy(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    """Mean over the batch of -sum_c target_c log p_c, both [B, K]."""
    return -(targets * log_probabilities).sum(1).mean()

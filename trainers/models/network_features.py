"""What a trained network makes of examples on its way to the classes.

A network of convolutions that learns from poor labels finds features that tell more than the labels
did: what it can't fit to its inputs, it leaves. A network says itself what describes its inputs
(`Describing`); of any other it is what its last linear layer sees.

>>> network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
>>> [part.shape for part in described(network, torch.zeros(5, 4))]
[torch.Size([5, 3])]
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from labeldp.trainers.performance import Performance

#: Examples in one forward pass.
_BATCH = 1024


@runtime_checkable
class Describing(Protocol):
    """A network that knows what describes its inputs."""

    def described(self, x: Tensor) -> tuple[Tensor, ...]:
        """Map inputs [B, ...] to features of one kind or several, each [B, D]."""


def described(network: nn.Module, inputs: Tensor) -> tuple[Tensor, ...]:
    """Return what a network makes of inputs [B, ...]: features of one kind or several, each [B, D].

    Raises:
        ValueError: It neither says so nor has a linear layer.
    """
    if isinstance(network, Describing):
        return network.described(inputs)
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise ValueError(
            f"{type(network).__name__} has no linear layer whose inputs would describe an example; "
            "give it a method described(x), which returns features [B, D] of several kinds"
        )
    seen: list[Tensor] = []

    def see(layer: nn.Module, given: tuple[Any, ...]) -> None:
        del layer
        seen.append(given[0].flatten(1).float())

    hook = layers[-1].register_forward_pre_hook(see)
    try:
        network(inputs)
    finally:
        hook.remove()
    return (seen[-1],)


@torch.inference_mode()
def features_by(
    network: nn.Module,
    features: Tensor,
    *,
    prepare: Callable[[Tensor], Tensor],
    performance: Performance,
    mirrored: bool = False,
) -> tuple[Tensor, ...]:
    """Return what a network makes of examples [N, ...]: each kind [N, D], single precision.

    The network is left evaluating.

    Args:
        network: On its device.
        features: Unaugmented, on any device.
        prepare: Features [B, ...] -> inputs of the network, on the device.
        performance: The device, memory layout of images, and precision.
        mirrored: Take the mean of what it makes of an image and of its mirror image.
    """
    network.eval()
    device = performance.torch_device()

    def found(inputs: Tensor) -> tuple[Tensor, ...]:
        if inputs.ndim == 4:
            inputs = inputs.contiguous(memory_format=performance.memory_format())
        with performance.autocast():
            return tuple(part.float() for part in described(network, inputs))

    batches = []
    for some in torch.split(features, _BATCH):
        inputs = prepare(some.to(device))
        kinds = found(inputs)
        if mirrored:
            pairs = zip(kinds, found(inputs.flip(3)), strict=True)
            kinds = tuple((one + other) / 2 for one, other in pairs)
        batches.append([kind.cpu() for kind in kinds])
    return tuple(torch.cat(kind).clone() for kind in zip(*batches, strict=True))

"""A trained network evaluated: probabilities, accuracy on the public test split, its features.

>>> network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
>>> [part.shape for part in described(network, torch.zeros(5, 4))]
[torch.Size([5, 3])]
"""

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.performance import Performance

#: Examples in one forward pass when nothing is learned from it.
_BATCH = 1024


def logits_of(
    forward: Callable[[Tensor], Tensor], inputs: Tensor, performance: Performance
) -> Tensor:
    """Return logits [B, K] in single precision of a network, compiled or not."""
    if inputs.ndim == 4:
        inputs = inputs.contiguous(memory_format=performance.memory_format())
    with performance.autocast():
        logits = forward(inputs)
    return logits.float()


@torch.inference_mode()
def batched(
    network: torch.nn.Module,
    features: Tensor,
    outputs: Callable[[Tensor], tuple[Tensor, ...]],
    *,
    prepare: Callable[[Tensor], Tensor],
    performance: Performance,
    mirrored: bool = False,
) -> list[tuple[Tensor, ...]]:
    """Return outputs, each [B, ...], of unaugmented features [N, ...], batch after batch.

    The network is left in evaluation mode. `prepare` turns features [B, ...] into its inputs, on
    its device. With `mirrored` outputs are the mean of those of an image and of its mirror image.
    """
    network.eval()
    device = performance.torch_device()

    def judged(batch: Tensor) -> tuple[Tensor, ...]:
        inputs = prepare(batch.to(device))
        found = outputs(inputs)
        if not mirrored:
            return found
        pairs = zip(found, outputs(inputs.flip(3)), strict=True)
        return tuple((one + other) / 2 for one, other in pairs)

    return [judged(batch) for batch in torch.split(features, _BATCH)]


def batched_logits(
    network: torch.nn.Module,
    features: Tensor,
    *,
    prepare: Callable[[Tensor], Tensor],
    performance: Performance,
    mirrored: bool = False,
) -> list[Tensor]:
    """Return logits [B, K] of features [N, ...]; see `batched`."""

    def logits(inputs: Tensor) -> tuple[Tensor]:
        return (logits_of(network, inputs, performance),)

    found = batched(
        network, features, logits, prepare=prepare, performance=performance, mirrored=mirrored
    )
    return [batch for (batch,) in found]


def probabilities_of(logits: list[Tensor]) -> NDArray[np.float32]:
    """Return probabilities [N, K] of batches of logits [B, K]."""
    probabilities = [batch.softmax(1).cpu() for batch in logits]
    return np.asarray(torch.cat(probabilities).numpy(), dtype=np.float32)


class Evaluation:
    """A network, and the test split that it is judged by."""

    def __init__(
        self,
        network: torch.nn.Module,
        *,
        prepare: Callable[[Tensor], Tensor],
        data: PublicData,
        performance: Performance,
        mirrored: bool = False,
    ) -> None:
        """Take the test split to the device; see `batched`. The network may go on training."""
        self._network, self._prepare, self._performance = network, prepare, performance
        self._mirrored = mirrored
        self._device = performance.torch_device()
        self._features = data.test_features.to(self._device)
        self._labels = torch.from_numpy(data.test_labels).to(self._device)

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for unaugmented features [N, ...]."""
        probabilities = probabilities_of(self._logits(features))
        bad = int((~np.isfinite(probabilities)).any(1).sum())
        if bad:
            raise TrainingDiverged.of_outputs(bad=bad, rows=len(probabilities))
        return probabilities

    def accuracy(self) -> float:
        """Accuracy on the public test split, in [0, 1]; NaN where there is none."""
        if not len(self._labels):
            return math.nan
        guesses = torch.cat([logits.argmax(1) for logits in self._logits(self._features)])
        return float((guesses == self._labels).double().mean())

    def _logits(self, features: Tensor) -> list[Tensor]:
        return batched_logits(
            self._network,
            features,
            prepare=self._prepare,
            performance=self._performance,
            mirrored=self._mirrored,
        )


@runtime_checkable
class Describing(Protocol):
    """A network with features of its own that describe its inputs."""

    def described(self, x: Tensor) -> tuple[Tensor, ...]:
        """Map inputs [B, ...] to features of one kind or several, each [B, D]."""


def described(network: nn.Module, inputs: Tensor) -> tuple[Tensor, ...]:
    """Return features of inputs [B, ...], of one kind or several, each [B, D]."""
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
    """Return features that describe examples [N, ...], each kind [N, D]; see `batched`."""

    def found(inputs: Tensor) -> tuple[Tensor, ...]:
        if inputs.ndim == 4:
            inputs = inputs.contiguous(memory_format=performance.memory_format())
        with performance.autocast():
            return tuple(part.float() for part in described(network, inputs))

    batches = batched(
        network, features, found, prepare=prepare, performance=performance, mirrored=mirrored
    )
    kinds = zip(*batches, strict=True)
    return tuple(torch.cat([part.cpu() for part in kind]).clone() for kind in kinds)

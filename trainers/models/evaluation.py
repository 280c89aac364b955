"""A network as it is judged: probabilities for features, and accuracy on the public test split.

One for all trainers that have a network, whichever weights they judge: those that train, or their
moving average.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.performance import Performance

#: Examples in one forward pass when nothing is learned from it.
_BATCH = 1024


def logits_of(
    forward: Callable[[Tensor], Tensor], inputs: Tensor, performance: Performance
) -> Tensor:
    """Return logits [B, K] in single precision, whatever the network computes in.

    Args:
        forward: The network, compiled or not.
        inputs: What it takes [B, ...], on its device.
        performance: Memory layout of images, and precision.
    """
    if inputs.ndim == 4:
        inputs = inputs.contiguous(memory_format=performance.memory_format())
    with performance.autocast():
        logits = forward(inputs)
    return logits.float()


@torch.inference_mode()
def batched_logits(
    network: torch.nn.Module,
    features: Tensor,
    *,
    prepare: Callable[[Tensor], Tensor],
    performance: Performance,
    mirrored: bool = False,
) -> list[Tensor]:
    """Return logits [B, K] of features [N, ...], batch after batch; nothing is learned from it.

    The network is left evaluating: who trains it says so before each epoch.

    Args:
        network: On its device.
        features: Unaugmented, on any device.
        prepare: Features [B, ...] -> inputs of the network, on the device.
        performance: The device, memory layout of images, and precision.
        mirrored: Take the mean of each image's logits and those of its mirror image.
    """
    network.eval()
    device = performance.torch_device()

    def judged(batch: Tensor) -> Tensor:
        inputs = prepare(batch.to(device))
        logits = logits_of(network, inputs, performance)
        if not mirrored:
            return logits
        return (logits + logits_of(network, inputs.flip(3), performance)) / 2

    return [judged(batch) for batch in torch.split(features, _BATCH)]


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
        """Take the test split to the device.

        Args:
            network: With the weights to judge, on the device; it may go on training.
            prepare: Unaugmented features [B, ...] -> inputs of the network, on the device.
            data: Whose public test split it is.
            performance: Where and how fast.
            mirrored: See `batched_logits`.
        """
        self._network, self._prepare, self._performance = network, prepare, performance
        self._mirrored = mirrored
        self._device = performance.torch_device()
        self._features = data.test_features.to(self._device)
        self._labels = torch.from_numpy(data.test_labels).to(self._device)

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for unaugmented features [N, ...].

        Raises:
            TrainingDiverged: There are none, for the weights are too large.
        """
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

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

from labeldp.trainers.data import PublicData
from labeldp.trainers.performance import Performance
from labeldp.trainers.schedules import TrainingDiverged

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


class Evaluation:
    """A network, and the test split that it is judged by."""

    def __init__(
        self,
        network: torch.nn.Module,
        *,
        prepare: Callable[[Tensor], Tensor],
        data: PublicData,
        performance: Performance,
    ) -> None:
        """Take the test split to the device.

        Args:
            network: With the weights to judge, on the device; it may go on training.
            prepare: Unaugmented features [B, ...] -> inputs of the network, on the device.
            data: Whose public test split it is.
            performance: Where and how fast.
        """
        self._network, self._prepare, self._performance = network, prepare, performance
        self._device = performance.torch_device()
        self._features = data.test_features.to(self._device)
        self._labels = torch.from_numpy(data.test_labels).to(self._device)

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for unaugmented features [N, ...].

        Raises:
            TrainingDiverged: There are none, for the weights are too large.
        """
        parts = [logits.softmax(1).cpu() for logits in self._logits(features)]
        probabilities = np.asarray(torch.cat(parts).numpy(), dtype=np.float32)
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

    @torch.inference_mode()
    def _logits(self, features: Tensor) -> list[Tensor]:
        """Leave the network evaluating: who trains it says so before each epoch."""
        self._network.eval()
        return [
            logits_of(self._network, self._prepare(batch.to(self._device)), self._performance)
            for batch in torch.split(features, _BATCH)
        ]

"""What all training shares: figures of an epoch, divergence, schedules, batches.

>>> [round(rate_factor(epoch, epochs=200, schedule=Schedule.STEPS), 3) for epoch in (0, 30, 60)]
[0.033, 1.0, 0.2]
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # settings are read without it
    import torch
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class EpochMetrics:
    """Figures of one epoch; none of them is computed from true training labels.

    Attributes:
        epoch: Counted from 1.
        loss: Mean training loss, against what was released.
        val_accuracy: On the public test split, in [0, 1]; NaN where there is none.
        seconds: Wall time, evaluation included.
    """

    epoch: int
    loss: float
    val_accuracy: float
    seconds: float


class TrainingDiverged(RuntimeError):
    """The loss is not finite any more."""

    @classmethod
    def at(
        cls, *, epoch: int, learning_rate: float, what: str = "the loss is"
    ) -> "TrainingDiverged":
        """Return the error for an epoch (counted from 1) and the learning rate in force."""
        return cls(
            f"{what} not finite in epoch {epoch}, at learning rate {learning_rate:.3g}; "
            "lower learning_rate (a tenth of it is a good next try), or let it warm up longer"
        )

    @classmethod
    def of_outputs(cls, *, bad: int, rows: int) -> "TrainingDiverged":
        """Return the error for a trained network that has no probabilities for some rows."""
        return cls(
            f"the trained network's outputs are not finite for {bad} of {rows} rows: its weights "
            "have grown out of all bounds; lower learning_rate (a tenth of it is a good next try), "
            "or let it warm up longer"
        )


class Schedule(StrEnum):
    """How the learning rate moves after its warm-up.

    STEPS is ALIBI's: a fifth after each 0.3 of all epochs. TENTHS is LP-MST's on CIFAR: a tenth at
    0.3, 0.6 and 0.9; LINEAR is LP-MST's on MNIST and its kin, down to 0. COSINE falls to 0 along
    half a period; it gets more out of short runs. TRIANGLE rises from a fifth and falls to 0, both
    in a straight line and step by step: with ten epochs, one rate for an epoch is too coarse.
    CONSTANT stays.
    """

    STEPS = "steps"
    TENTHS = "tenths"
    LINEAR = "linear"
    COSINE = "cosine"
    TRIANGLE = "triangle"
    CONSTANT = "constant"

    @property
    def every_step(self) -> bool:
        """Whether the rate moves within an epoch too."""
        return self is Schedule.TRIANGLE


#: ALIBI warms up for 30 of its 200 epochs, and multiplies by 0.2 at epochs 60, 120 and 180.
WARMUP_FRACTION = 0.15
_STEP_FRACTION = 0.3
#: Where the triangle begins.
_FOOT = 0.2
_STEP_FACTORS = {Schedule.STEPS: 0.2, Schedule.TENTHS: 0.1}


def rate_factor(
    epoch: float, *, epochs: int, schedule: Schedule, warmup: float = WARMUP_FRACTION
) -> float:
    """What the learning rate is multiplied by in an epoch.

    Args:
        epoch: Counted from 0; with a fraction within an epoch, for schedules that move there.
        epochs: How many there are.
        schedule: The shape.
        warmup: Fraction of all epochs in which the rate rises linearly, 0 for none.
    """
    # Rounding keeps 0.3 * 10 from being a little more than 3, and a step from being late.
    rising = round(warmup * epochs, 9)
    if epoch < rising:
        if schedule is Schedule.TRIANGLE:
            return _FOOT + (1 - _FOOT) * epoch / rising
        return min(1.0, (epoch + 1) / rising)
    progress = (epoch - rising) / (epochs - rising)
    match schedule:
        case Schedule.STEPS | Schedule.TENTHS:
            steps = math.floor(round(epoch / (_STEP_FRACTION * epochs), 9))
            return math.pow(_STEP_FACTORS[schedule], steps)
        case Schedule.LINEAR | Schedule.TRIANGLE:
            return 1 - progress
        case Schedule.COSINE:
            return 0.5 * (1 + math.cos(math.pi * progress))
        case Schedule.CONSTANT:
            return 1.0


def batches(count: int, batch_size: int, generator: "torch.Generator") -> "Iterator[Tensor]":
    """Yield positions 0..count-1 in random order, a batch at a time; a last part batch is left out.

    Fewer examples than a batch holds make one batch of all. The order is drawn before the first
    batch, so a generator shared with augmentation is used in the same sequence by every reader.

    Args:
        count: How many examples.
        batch_size: How many in a batch.
        generator: Of the CPU: one seed gives one order on every device.
    """
    import torch

    order = torch.randperm(count, generator=generator)
    if count <= batch_size:
        yield order
        return
    for start in range(0, count - batch_size + 1, batch_size):
        yield order[start : start + batch_size]


def soft_cross_entropy(log_probabilities: "Tensor", targets: "Tensor") -> "Tensor":
    """Mean over the batch of -sum_c target_c log p_c, both [B, K]."""
    return -(targets * log_probabilities).sum(1).mean()

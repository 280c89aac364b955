"""Training apart from networks: schedules, recipes, figures of an epoch.

Nothing here loads torch, so that settings are read without it.

A recipe holds ways to train beyond learning rate and schedule. Each is a setting of its own, off by
default, for any network. `fast_training` sets all of them for the fast network in ten epochs. Its
constants were chosen with the true labels of CIFAR-10, without noise, on some thousands of images
of its training split, and judged by other images of that split (docs/fast_network.md). They are the
same for every method, every epsilon and every other data set.

>>> [round(rate_factor(epoch, epochs=200, schedule=Schedule.STEPS), 3) for epoch in (0, 30, 60)]
[0.033, 1.0, 0.2]
>>> as_changes("trainer", fast_training(epochs=5))["trainer.recipe.crop"]
2
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from labeldp.trainers.base import Flag, Fraction, ModelName, Positive, Whole, key, settings


@dataclass(frozen=True, kw_only=True)
class EpochMetrics:
    """Figures of one epoch, counted from 1; none is computed from true training labels.

    `loss` is the mean training loss against released labels, `val_accuracy` that on the public test
    split in [0, 1], NaN where there is none, `seconds` the wall time with the evaluation.
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


class Schedule(StrEnum):
    """How the learning rate moves after its warm-up.

    STEPS is ALIBI's, TENTHS LP-MST's on CIFAR, and LINEAR LP-MST's on MNIST and its kin.
    """

    STEPS = "steps"
    TENTHS = "tenths"
    LINEAR = "linear"
    COSINE = "cosine"
    TRIANGLE = "triangle"
    CONSTANT = "constant"


#: ALIBI warms up for 30 of its 200 epochs, and multiplies by 0.2 at epochs 60, 120 and 180.
WARMUP_FRACTION = 0.15
_STEP_FRACTION = 0.3
#: Where the triangle begins.
_FOOT = 0.2
_STEP_FACTORS = {Schedule.STEPS: 0.2, Schedule.TENTHS: 0.1}


def rate_factor(
    epoch: float, *, epochs: int, schedule: Schedule, warmup: float = WARMUP_FRACTION
) -> float:
    """Factor on the learning rate in an epoch.

    `epoch` counts from 0, with a fraction within an epoch for schedules that move there; `warmup`
    is the fraction of all epochs in which the rate rises linearly, 0 for none.
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


class Flip(StrEnum):
    """Choice of the images that are mirrored; with ALTERNATING two epochs see each both ways."""

    RANDOM = "random"
    ALTERNATING = "alternating"
    NONE = "none"


@settings
class Recipe:
    """Pieces of training that a network may have; by default none of them."""

    flip: Flip = key(
        Flip.RANDOM,
        "Images to mirror, with `augment`: a `random` half, `alternating` (each in every "
        "other epoch) or `none` (digits, letters).",
    )
    crop: Whole = key(4, "Largest shift of a random crop, in pixels, with `augment`.")
    cutout: Whole = key(
        0,
        "Side in pixels of a square at a random place of each image that is hidden (set to the "
        "mean), with `augment`; 0 hides nothing.",
    )
    bias_rate: Positive = key(
        1.0, "Factor on the learning rate of biases and other one-dimensional parameters."
    )
    decoupled_decay: Flag = key(
        False,
        "Subtract weight decay (learning rate x weight_decay) from the weights directly, "
        "instead of adding it to the gradient.",
    )
    label_smoothing: Fraction = key(
        0.0,
        "Share of each label that is spread over all classes. Only for true labels: no noise, "
        "or a teacher's shard.",
    )
    average_decay: Fraction = key(
        0.0,
        "Decay of the moving average of weights, which makes the predictions; 0 for the last "
        "weights.",
    )
    mirrored: Flag = key(False, "Predict by the mean logits of an image and its mirror image.")
    even_gradient: Flag = key(
        False,
        "Scale the loss so that the first gradient is as long as with true labels. For losses "
        "that are the likelihood of a release.",
    )
    start_at_shares: Flag = key(
        False,
        "Let the classes' shares, which a release shows, be the prior at first, and the network's "
        "own prediction later. For ALIBI on rare classes.",
    )

    def refuse_smoothing(self, why: str) -> None:
        """Refuse smoothing of labels that are not right as they are; `why` describes them."""
        if self.label_smoothing:
            raise ValueError(
                f"recipe.label_smoothing is {self.label_smoothing}, but {why}: what is unsure of "
                "them is known, and smoothing would count it twice; set recipe.label_smoothing=0"
            )


#: Width of the network at which one core trains ten epochs of CIFAR-10 in minutes.
HALF_WIDTH = 32
#: Width at which it was published; two and a half times the work.
FULL_WIDTH = 64
#: Share of each label that is spread over all classes, where labels are right.
LABEL_SMOOTHING = 0.2


def fast_training(
    *, epochs: int = 10, width: int = HALF_WIDTH, label_smoothing: float = 0.0
) -> dict[str, Any]:
    """Return settings by name, for a `LearnerConfig` and settings that inherit from it.

    The width is `HALF_WIDTH` or `FULL_WIDTH`; `label_smoothing` is `LABEL_SMOOTHING` where labels
    are right and 0 where noise is on them.
    """
    return {
        "model": ModelName.FAST_CNN,
        "width": width,
        "epochs": epochs,
        "batch_size": 500,
        "learning_rate": 1.0,
        "momentum": 0.85,
        "nesterov": True,
        "weight_decay": 0.009,
        "schedule": Schedule.TRIANGLE,
        "warmup": 0.2,
        "augment": True,
        "recipe": Recipe(
            flip=Flip.ALTERNATING,
            crop=2,
            bias_rate=64.0,
            decoupled_decay=True,
            label_smoothing=label_smoothing,
            average_decay=0.99,
            mirrored=True,
            even_gradient=True,
        ),
    }


def as_changes(section: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of `fast_training` as dotted keys of a section such as `trainer`."""
    plain = {name: value for name, value in chosen.items() if name != "recipe"}
    recipe: Recipe = chosen["recipe"]
    pieces = {f"recipe.{entry.name}": getattr(recipe, entry.name) for entry in fields(recipe)}
    return {f"{section}.{name}": value for name, value in {**plain, **pieces}.items()}

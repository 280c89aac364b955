"""Ways to train a network beyond learning rate and schedule: flips, crops, rates, averages.

Each is a setting of its own, off by default, for any network. `fast_training` sets all of them for
the fast network in ten epochs. Its constants were chosen with the true labels of CIFAR-10, without
noise, on some thousands of images of its training split, and judged by other images of that split
(docs/fast_network.md). They are the same for every method, every epsilon and every other data set.

>>> fast_training(epochs=5)["epochs"], fast_training()["schedule"]
(5, <Schedule.TRIANGLE: 'triangle'>)
>>> as_changes("trainer", fast_training(epochs=5))["trainer.recipe.crop"]
2
"""

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any

from labeldp.trainers.models.schedules import Schedule
from labeldp.trainers.settings.base import (
    Flag,
    Fraction,
    ModelName,
    Positive,
    Whole,
    key,
    settings,
)


class Flip(StrEnum):
    """Which images are mirrored, where images are augmented.

    RANDOM: half of them, drawn anew in every epoch. ALTERNATING: each image in every other epoch,
    half of them in the first: two epochs see every image both ways, instead of half of them twice
    the same way. NONE: digits and letters.
    """

    RANDOM = "random"
    ALTERNATING = "alternating"
    NONE = "none"


@settings
class Recipe:
    """Pieces of training that a network may have; by default none of them."""

    flip: Flip = key(Flip.RANDOM, "Which images are mirrored, where `augment` is set.")
    crop: Whole = key(4, "Pixels that a random crop may move an image, where `augment` is set.")
    bias_rate: Positive = key(
        1.0, "Times the learning rate, for biases and other parameters of one dimension."
    )
    decoupled_decay: Flag = key(
        False,
        "Take weight decay off the weights themselves, rate x weight_decay of them in every step, "
        "instead of adding it to the gradient, where momentum multiplies it.",
    )
    label_smoothing: Fraction = key(
        0.0,
        "Share of each label that is spread over all classes; for labels that are right, as "
        "without noise or of a teacher's shard.",
    )
    average_decay: Fraction = key(
        0.0,
        "Of the moving average of weights, which makes the predictions; 0 for the last weights.",
    )
    mirrored: Flag = key(
        False, "Judge an image by itself and its mirror image, the mean of both logits."
    )

    def refuse_smoothing(self, why: str) -> None:
        """Refuse smoothing of labels that are not right as they are.

        Args:
            why: What the labels are.
        """
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
    """Return settings by name, for a `LearnerConfig` and whatever inherits them.

    Args:
        epochs: How long; the rate's triangle spans them all.
        width: Of the network, `HALF_WIDTH` or `FULL_WIDTH`.
        label_smoothing: `LABEL_SMOOTHING` where labels are right; 0 where noise is on them.
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
        ),
    }


def as_changes(section: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as dotted keys of a configuration, for variants and presets of sweeps.

    Args:
        section: Where they are, such as `trainer` or `trainer.student.network`.
        chosen: As `fast_training` returns them.
    """
    plain = {name: value for name, value in chosen.items() if name != "recipe"}
    recipe: Recipe = chosen["recipe"]
    pieces = {f"recipe.{entry.name}": getattr(recipe, entry.name) for entry in fields(recipe)}
    return {f"{section}.{name}": value for name, value in {**plain, **pieces}.items()}

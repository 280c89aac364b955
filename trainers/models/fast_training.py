"""The recipe of the fast network in ten epochs: settings for whichever trainer it is.

The constants were chosen with the true labels of CIFAR-10, without noise, on some thousands of
images of its training split, and judged by other images of that split (docs/fast_network.md). They
are the same for every method, every epsilon and every other data set.

>>> fast_training(epochs=5)["epochs"], fast_training()["schedule"]
(5, <Schedule.TRIANGLE: 'triangle'>)
>>> as_changes("trainer", fast_training(epochs=5))["trainer.recipe.crop"]
2
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from labeldp.trainers.models.recipe import Flip, Recipe
from labeldp.trainers.models.schedules import Schedule
from labeldp.trainers.settings.model_name import ModelName

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


def as_changes(section: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as dotted keys of a configuration, for variants and presets of sweeps.

    Args:
        section: Where they are, such as `trainer` or `trainer.student.network`.
        settings: As `fast_training` returns them.
    """
    plain = {name: value for name, value in settings.items() if name != "recipe"}
    recipe: Recipe = settings["recipe"]
    pieces = {f"recipe.{entry.name}": getattr(recipe, entry.name) for entry in fields(recipe)}
    return {f"{section}.{name}": value for name, value in {**plain, **pieces}.items()}

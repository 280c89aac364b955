"""Sizes that sweeps of CIFAR share: `--smoke` in minutes, and `--preset home` for two cores.

`home` trains the fast network on all 50,000 images in minutes, where the papers take hours on a
GPU: at half width ten epochs are 500,000 images, 1,300 in a second of a core that has units for
bfloat16 (docs/fast_network.md has times and processors). Full width is `trainer.width=64`.
"""

from collections.abc import Mapping
from typing import Any

from labeldp.platform.sweep.sweep import Preset, Resources, Variant
from labeldp.trainers.models.schedules import LABEL_SMOOTHING, as_changes, fast_training
from labeldp.trainers.performance import Precision
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import StudentKind, TeacherKind
from labeldp.trainers.settings.training import WeakBranch

#: `--smoke`: 2,000 images, two epochs of a small CNN in single precision.
SMALL_CNN: Mapping[str, Any] = {
    "data.limit": 2000,
    "audit.canaries": 100,
    "trainer.model": ModelName.SMALL_CNN,
    "trainer.epochs": 2,
    "performance.precision": Precision.FP32,
    "performance.channels_last": False,
}
#: Passes over the training examples, in each stage of methods that have some.
EPOCHS = 10
#: Channels of the first block of teachers and students; a shard is too small for more.
_SMALL_WIDTH = 16
_PERFORMANCE = {"performance.precision": Precision.AUTO, "performance.channels_last": True}


def network_preset(
    changes: Mapping[str, Any] | None = None,
    *,
    variants: tuple[Variant, ...] = (),
    samples: int = 1,
) -> Preset:
    """Return `home` of a sweep whose trainer has one network.

    `variants`: see `Preset`; they state their own epochs.
    """
    recipe = as_changes("trainer", fast_training(epochs=EPOCHS))
    if variants:
        del recipe["trainer.epochs"]
    return Preset(
        changes={**recipe, **_PERFORMANCE, **(changes or {})},
        variants=variants,
        samples=samples,
        resources=Resources(),
        teacher=Resources(),
    )


def pate_preset(*, epochs: int) -> Preset:
    """Return `home` of a sweep of PATE-FM, with `epochs` passes over a shard or the answers.

    Teachers and student are fast networks that see nothing else: FixMatch for each teacher would
    take days. `trainer.student.kind=fixmatch` has the student learn by FixMatch all the same, a
    tenth of the published views in each epoch.
    """
    network = fast_training(epochs=epochs, width=_SMALL_WIDTH, label_smoothing=LABEL_SMOOTHING)
    # A shard is a few batches of 50; the rate goes with the batch.
    network |= {"batch_size": 50, "learning_rate": network["learning_rate"] / 10}
    return Preset(
        changes={
            **_PERFORMANCE,
            "trainer.ensemble.kind": TeacherKind.NETWORK,
            **as_changes("trainer.ensemble.network", network),
            "trainer.student.kind": StudentKind.NETWORK,
            **as_changes("trainer.student.network", network),
            "trainer.student.fixmatch.model": ModelName.FAST_CNN,
            "trainer.student.fixmatch.width": _SMALL_WIDTH,
            "trainer.student.fixmatch.epochs": 30,
            "trainer.student.fixmatch.steps_per_epoch": 78,
            "trainer.student.fixmatch.weak_branch": WeakBranch.WITHOUT_GRADIENT,
        },
        resources=Resources(),
        teacher=Resources(),
    )

"""Semi-supervised students of moment labels: all of epsilon buys sums, all features teach.

`python sweeps/moment_students.py` trains a small fast network on MNIST. `--preset fashion_mnist`
has moment labels in stages instead, for such a student loses to soft labels on clothes. A student
of cluster labels is `trainer.prior.source=clusters`. `--preset cifar10` starts from an encoder of
the same images (docs/encoders.md), whose vectors also make the prior, and asks in two stages:

    labeldp self-supervise cifar10 --width 64 --epochs 16 --batch-size 128 -o encoder.pt
    python sweeps/moment_students.py --preset cifar10 \
        trainer.encoder=encoder.pt trainer.prior.encoder=encoder.pt

docs/reproduction.md has numbers of the first two; one seed of the third: 81.36% at .1, 84.72% at 1.

Hardware: two cores, minutes a trial; for CIFAR-10 66 minutes of a core with AMX.
"""

from typing import Any

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.platform.studies.presets import FEW_DIGITS, audited
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.methods.settings import PriorSettings, PriorSource, PriorStudentConfig
from labeldp.trainers.settings.training import as_changes, fast_training


def lines(name: str, **changes: Any) -> tuple[Variant, ...]:
    """Return three lines of these changes, each with a seed and a draw of noise of its own."""
    return tuple(
        Variant(name=f"{name}, {draw}", changes={"seed": draw, "noise.draw": draw, **changes})
        for draw in range(3)
    )


SWEEP = Sweep(
    name="moment_students",
    base=audited(
        "mnist",
        PriorStudentConfig(
            prior=PriorSettings(source=PriorSource.MOMENTS, features=FeatureSet.PATCHES),
            flip=False,
            padding=2,
            box=8,
        ),
        fast=True,
    ),
    variants=lines("moment labels + student"),
    space={"trainer.epsilon": Grid(0.1, 1.0)},
    presets={
        "fashion_mnist": Preset(
            changes={"data.name": "fashion_mnist"},
            variants=lines(
                "moment labels in stages",
                method="staged_moments",
                **{"trainer.prior.features": FeatureSet.PATCHES},
                **as_changes("trainer", fast_training(epochs=10, width=32)),
            ),
        ),
        "cifar10": Preset(
            changes={
                "data.name": "cifar10",
                "trainer.prior.features": FeatureSet.AS_THEY_ARE,
                "trainer.width": 64,
                "trainer.stages": 2,
                "trainer.epochs": 16,
                "trainer.earlier_epochs": 8,
                "trainer.batch_size": 125,
                "trainer.unlabeled_ratio": 4,
                "trainer.learning_rate": 0.4,
                "trainer.labeled": 500,
                "trainer.flip": True,
                "trainer.padding": 4,
                "trainer.box": None,
            },
            variants=lines("moment labels + student"),
            space={"trainer.epsilon": Grid(0.1, 0.5, 1.0)},
        ),
    },
    smoke=Preset(
        changes={
            "data.name": "digits",
            "audit.canaries": 100,
        },
        variants=lines(
            "moment labels + student",
            **{"trainer.labeled": 20},
            **{f"trainer.{name}": value for name, value in FEW_DIGITS.items()},
        ),
        space={"trainer.epsilon": Grid(4.0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

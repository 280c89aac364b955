"""Semi-supervised students of moment labels: all of epsilon buys sums, all features teach.

`python sweeps/moment_students.py` trains a small fast network on MNIST; `--preset fashion_mnist` on
clothes. A student of cluster labels is `trainer.prior.source=clusters`. docs/reproduction.md has
the numbers.

Hardware: two cores, three minutes a trial.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.platform.studies.presets import FEW_DIGITS, OVERLAPPING, audited
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.methods.settings import PriorSettings, PriorSource, PriorStudentConfig

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
    variants=tuple(
        Variant(name=f"moment labels + student, {draw}", changes={"seed": draw, "noise.draw": draw})
        for draw in range(3)
    ),
    space={"trainer.epsilon": Grid(0.1, 1.0)},
    presets={
        "fashion_mnist": Preset(
            changes={
                "data.name": "fashion_mnist",
                "trainer.flip": True,
                **{f"trainer.{name}": value for name, value in OVERLAPPING.items()},
            }
        )
    },
    smoke=Preset(
        changes={
            "data.name": "digits",
            "audit.canaries": 100,
            "trainer.labeled": 20,
            **{f"trainer.{name}": value for name, value in FEW_DIGITS.items()},
        },
        space={"trainer.epsilon": Grid(4.0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

"""PATE on Fashion-MNIST: linear-probe teachers on label-free features, a grid of noises.

As `pate_mnist`, on clothes. Mark: linear probes like these, 77.9% at a (vote-dependent) epsilon of
.71. Students are plain probes: self-training costs accuracy where classes overlap.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.space import Grid
from labeldp.platform.settings.sweep import Sweep
from labeldp.platform.studies.presets import VARIANTS, smoke
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.settings.pate import EnsembleConfig, PateConfig, StudentConfig, StudentKind

SWEEP = Sweep(
    name="pate_fashion_mnist",
    base=TrialConfig(
        method="pate",
        data=DataSettings(name="fashion_mnist", features=FeatureSet.PATCHES),
        audit=AuditSettings(canaries=1000, coin_canaries=100),
        trainer=PateConfig(
            ensemble=EnsembleConfig(queries=1000),
            student=StudentConfig(kind=StudentKind.PROBE),
            students=1,
            answers=500,
        ),
    ),
    variants=VARIANTS,
    space={"trainer.ensemble.seed": Grid(0, 1)},
    smoke=smoke("fashion_mnist", space={"trainer.ensemble.seed": Grid(0)}),
)

if __name__ == "__main__":
    main(SWEEP)

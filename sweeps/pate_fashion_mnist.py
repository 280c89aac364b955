"""PATE on Fashion-MNIST: linear-probe teachers on label-free features, a grid of noises.

As `pate_mnist`, on clothes. Mark: linear probes like these, 77.9% at a (vote-dependent) epsilon of
.71. Students are plain probes: what self-training adds on digits it takes away here, where classes
overlap. docs/reproduction/pate.md has the numbers of a full run. `--smoke`: 2,000 images
(scikit-learn's digits where Fashion-MNIST is not there), 24 settings.

Hardware: two cores, three minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.configuration import AuditSettings, DataSettings, FeatureSet, TrialConfig
from labeldp.platform.space import Grid
from labeldp.platform.sweep import Smoke, Sweep, Variant
from labeldp.trainers.data_sets.catalog import find
from labeldp.trainers.data_sets.files import data_root
from labeldp.trainers.settings.ensemble import EnsembleConfig
from labeldp.trainers.settings.pate import PateConfig
from labeldp.trainers.settings.student import StudentConfig, StudentKind

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
    variants=[
        Variant(
            name="T=250",
            changes={"trainer.ensemble.teachers": 250},
            space={
                "trainer.threshold": Grid(100.0, 150.0),
                "trainer.sigma1": Grid(75.0, 150.0),
                "trainer.sigma2": Grid(25.0, 50.0, 75.0),
            },
        ),
        Variant(
            name="T=800",
            changes={"trainer.ensemble.teachers": 800},
            space={
                "trainer.threshold": Grid(320.0, 400.0),
                "trainer.sigma1": Grid(400.0, 800.0),
                "trainer.sigma2": Grid(80.0, 120.0, 240.0),
                "trainer.answers": Grid(300, 500),
            },
        ),
    ],
    space={"trainer.ensemble.seed": Grid(0, 1)},
    smoke=Smoke(
        changes={
            "data.name": (
                "fashion_mnist" if find("fashion_mnist").available(data_root(None)) else "digits"
            ),
            "data.limit": 2000,
            "audit.canaries": 100,
            "trainer.ensemble.queries": 400,
            "trainer.answers": 100,
        },
        space={"trainer.answers": Grid(100), "trainer.ensemble.seed": Grid(0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

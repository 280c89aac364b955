"""PATE on MNIST: linear-probe teachers on features that no label went into, a grid of noises.

Label-free k-means patch features (Coates and Ng) feed 250 or 800 ridge-regression teachers, all
trained in seconds; 36 settings of sigma1, sigma2 and tau then reuse their votes. Papernot et al.
2018 report 98.5% at a data-dependent epsilon of 1.97 with 250 convolutional teachers (delta 1e-5);
a prototype of probes had 92.0% at .46.

`epsilon` here is what is guaranteed for any votes; `epsilon_sanitized` is the published bound by
smooth sensitivity; the papers' kind of number, made of secret votes, is
`private/epsilon_data_dependent`. `--smoke`: 2,000 images without features, 20 teachers.

Hardware: two cores, minutes (features once: about two).
"""

from labeldp.platform.configuration import AuditSettings, DataSettings, FeatureSet, TrialConfig
from labeldp.platform.space import Grid
from labeldp.platform.sweep import Smoke, Sweep, Variant
from labeldp.platform.sweep_command import main
from labeldp.trainers.pate_fm import PateConfig
from labeldp.trainers.students import StudentConfig, StudentKind
from labeldp.trainers.teachers import EnsembleConfig

SWEEP = Sweep(
    name="pate_mnist",
    base=TrialConfig(
        method="pate",
        data=DataSettings(name="mnist", features=FeatureSet.PATCHES),
        audit=AuditSettings(canaries=1000),
        trainer=PateConfig(
            ensemble=EnsembleConfig(teachers=800, queries=1500),
            student=StudentConfig(kind=StudentKind.SELF_TRAINED),
            answers=500,
        ),
    ),
    variants=[
        Variant(
            name="T=250",
            changes={"trainer.ensemble.teachers": 250},
            space={
                "trainer.threshold": Grid(100.0, 150.0, 200.0),
                "trainer.sigma1": Grid(75.0, 150.0),
                "trainer.sigma2": Grid(20.0, 40.0),
            },
        ),
        Variant(
            name="T=800",
            changes={"trainer.ensemble.teachers": 800},
            space={
                "trainer.threshold": Grid(300.0, 400.0, 500.0),
                "trainer.sigma1": Grid(200.0, 400.0),
                "trainer.sigma2": Grid(60.0, 120.0),
            },
        ),
    ],
    smoke=Smoke(
        changes={
            "data.limit": 2000,
            "audit.canaries": 100,
            "trainer.ensemble.queries": 400,
            "trainer.answers": 100,
            "trainer.students": 1,
        },
    ),
)

if __name__ == "__main__":
    main(SWEEP)

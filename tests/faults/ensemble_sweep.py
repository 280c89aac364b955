"""The ensemble that faults are tried on: 24 small networks on digits, each trained by itself.

Two noise settings share the votes. All is seeded: a disturbed run must end with the votes and
numbers of an undisturbed one, bit for bit.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.sweep.configuration import (
    AuditSettings,
    DataSettings,
    NoiseSettings,
    TrialConfig,
)
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import Sweep
from labeldp.trainers.settings.pate import (
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.settings.training import LearnerConfig

TEACHERS, TRIALS = 24, 2

SWEEP = Sweep(
    name="ensemble_faults",
    base=TrialConfig(
        method="pate",
        data=DataSettings(name="digits"),
        noise=NoiseSettings(seed=7),
        audit=AuditSettings(canaries=50),
        trainer=PateConfig(
            ensemble=EnsembleConfig(
                kind=TeacherKind.NETWORK,
                teachers=TEACHERS,
                queries=100,
                network=LearnerConfig(epochs=20, batch_size=8, width=128),
            ),
            threshold=12.0,
            sigma1=6.0,
            sigma2=3.0,
            answers=60,
            student=StudentConfig(kind=StudentKind.NETWORK, network=LearnerConfig(epochs=5)),
            students=1,
        ),
    ),
    space={"trainer.sigma2": Grid(3.0, 4.0)},
)

if __name__ == "__main__":
    main(SWEEP)

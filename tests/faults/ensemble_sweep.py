"""The ensemble that faults are tried on: 24 small networks on digits, each trained by itself.

Two noise settings share the votes. All is seeded: a disturbed run must end with the votes and
numbers of an undisturbed one, bit for bit.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import TrialConfig, with_changes
from labeldp.platform.settings.sweep import Grid, Sweep

TEACHERS, TRIALS = 24, 2

SWEEP = Sweep(
    name="ensemble_faults",
    base=with_changes(
        TrialConfig(),
        {
            "method": "pate",
            "noise.seed": 7,
            "audit.canaries": 50,
            "trainer.ensemble.kind": "network",
            "trainer.ensemble.teachers": TEACHERS,
            "trainer.ensemble.queries": 100,
            "trainer.ensemble.network.epochs": 20,
            "trainer.ensemble.network.batch_size": 8,
            "trainer.ensemble.network.width": 128,
            "trainer.threshold": 12.0,
            "trainer.sigma1": 6.0,
            "trainer.answers": 60,
            "trainer.student.kind": "network",
            "trainer.student.network.epochs": 5,
            "trainer.students": 1,
        },
    ),
    space={"trainer.sigma2": Grid(3.0, 4.0)},
)

if __name__ == "__main__":
    main(SWEEP)

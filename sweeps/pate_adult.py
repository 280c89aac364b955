"""PATE on UCI Adult: 250 random forests answer, a random forest learns from the answers.

Papernot et al. 2018, "Scalable Private Learning with PATE", Table 1, Adult: Confident-GNMax with
tau 300, sigma1 200, sigma2 40; 524 of 1,500 queries answered, epsilon 1.90 at delta 1e-5 (made of
votes, by expectation), 83.7%. The threshold is above the number of teachers: noise lets a third of
the queries through, whatever the votes.

Compare `private/epsilon_expected_of_counts` with the paper's number; `epsilon` is guaranteed for
any votes and up to 600 answers. Here training examples are the queries, in the paper test examples.
docs/reproduction/pate.md has the numbers of a full run.

Hardware: two cores, two minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.sweep import Grid, Preset, Sweep
from labeldp.trainers.methods.pate_settings import (
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)

SWEEP = Sweep(
    name="pate_adult",
    base=TrialConfig(
        method="pate",
        data=DataSettings(name="adult"),
        audit=AuditSettings(canaries=1000, coin_canaries=100),
        trainer=PateConfig(
            ensemble=EnsembleConfig(kind=TeacherKind.FOREST, teachers=250, queries=1500),
            threshold=300.0,
            sigma1=200.0,
            sigma2=40.0,
            answers=600,
            student=StudentConfig(kind=StudentKind.FOREST),
        ),
    ),
    space={"trainer.ensemble.seed": Grid(0, 1, 2, 3, 4)},
    smoke=Preset(
        changes={
            "data.limit": 2000,
            "audit.canaries": 100,
            "trainer.ensemble.teachers": 40,
            "trainer.ensemble.queries": 200,
            "trainer.ensemble.forest.trees": 10,
            "trainer.threshold": 50.0,
            "trainer.sigma1": 30.0,
            "trainer.sigma2": 10.0,
            "trainer.answers": 100,
            "trainer.students": 1,
        },
        space={"trainer.ensemble.seed": Grid(0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

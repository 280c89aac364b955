"""PATE on UCI Adult: smooth teachers or nearest labels answer, a semi-supervised student learns.

Papernot et al. 2018, "Scalable Private Learning with PATE", Table 1, Adult: Confident-GNMax with
tau 300, sigma1 200, sigma2 40; 524 of 1,500 queries answered, epsilon 1.90 at delta 1e-5 (made of
votes, by expectation), 83.7% with random forests. The threshold is above the number of teachers:
noise lets a third of the queries through, whatever the votes.

Compare `private/epsilon_expected_of_counts` with the paper's number; `epsilon` is guaranteed for
any votes and up to 600 answers. Here training examples are the queries, in the paper test examples.
`trainer.ensemble.kind=forest` trains the paper's teachers. docs/reproduction/pate.md has the
numbers of a full run.

Hardware: two cores, five minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.platform.studies.presets import OVERLAPPING, TABLE_3, audited, levels, nearest_labels
from labeldp.trainers.base import ModelName
from labeldp.trainers.methods.pate_settings import (
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.settings.training import SemiSupervisedConfig

SWEEP = Sweep(
    name="pate_adult",
    base=audited(
        "adult",
        PateConfig(
            ensemble=EnsembleConfig(kind=TeacherKind.SMOOTH, ridge=0.01),
            student=StudentConfig(
                kind=StudentKind.SEMI_SUPERVISED,
                semi_supervised=SemiSupervisedConfig(
                    model=ModelName.MLP, width=None, learning_rate=0.05, **OVERLAPPING
                ),
            ),
            students=1,
        ),
    ),
    variants=(
        *levels(TABLE_3, {"T=250": (1500, 250, 200.0, 40.0, 300.0, 600)}),
        nearest_labels(1.0, labels=20, queries=1500),
    ),
    space={"trainer.ensemble.seed": Grid(0, 1, 2, 3, 4)},
    smoke=Preset(
        changes={
            "data.limit": 2000,
            "trainer.ensemble.teachers": 40,
            "trainer.ensemble.queries": 200,
            "trainer.threshold": 50.0,
            "trainer.sigma1": 30.0,
            "trainer.sigma2": 10.0,
            "trainer.answers": 100,
        },
        variants=(Variant(name="T=40"),),
        space={"trainer.ensemble.seed": Grid(0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

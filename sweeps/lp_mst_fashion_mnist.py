"""LP-1ST to LP-3ST on all 60,000 images of Fashion-MNIST, beside the rows of Ghazi et al. 2021.

| | epsilon 1 | 2 | 3 | 4 | no privacy |
|---|---|---|---|---|---|
| LP-1ST | 80.78 | 90.18 | 92.52 | 93.50 | 94.28 |
| LP-2ST | 83.26 | 91.24 | 93.18 | 94.10 | |

The paper: a small Inception, 40 epochs per stage. Here: a small CNN on a CPU, and the same number
of epochs in all for any number of stages, so that more stages win by their labels alone.

Hardware: two cores; about a minute per trial.
"""

from collections.abc import Mapping
from typing import Any

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.space import Grid
from labeldp.platform.settings.sweep import Sweep
from labeldp.platform.studies.comparison import repeated_lines, smoke_of_stages
from labeldp.trainers.base import ModelName
from labeldp.trainers.methods.settings import LpMstConfig, Randomizer
from labeldp.trainers.settings.schedules import Schedule

#: Two stages as published and in halves; one with the mixup of the second, to see what that does.
LINES: Mapping[str, Mapping[str, Any]] = {
    "LP-1ST": {"trainer.stages": 1},
    "LP-1ST, less mixup": {"trainer.stages": 1, "trainer.mixup": 1.0},
    "LP-2ST": {"trainer.stages": 2},
    "LP-2ST, halves": {"trainer.stages": 2, "trainer.splits": (0.5, 0.5)},
    "LP-2ST, optimal channels": {
        "trainer.stages": 2,
        "trainer.randomizer": Randomizer.OPTIMAL,
        "trainer.temperature": 1.0,
    },
    "LP-3ST": {"trainer.stages": 3},
}

SWEEP = Sweep(
    name="lp_mst_fashion_mnist",
    base=TrialConfig(
        method="lp_mst",
        data=DataSettings(name="fashion_mnist"),
        audit=AuditSettings(canaries=1000, coin_canaries=100),
        trainer=LpMstConfig(
            model=ModelName.SMALL_CNN,
            epochs=18,
            batch_size=128,
            learning_rate=0.05,
            weight_decay=1e-4,
            schedule=Schedule.LINEAR,
            mixup=4.0,
            later_mixup=1.0,
        ),
    ),
    variants=repeated_lines(LINES),
    space={"trainer.epsilon": Grid(1.0, 2.0, 4.0)},
    smoke=smoke_of_stages(limit=4000),
)

if __name__ == "__main__":
    main(SWEEP)

"""LP-1ST to LP-3ST on all 60,000 images of Fashion-MNIST, beside the rows of Ghazi et al. 2021.

| | epsilon 1 | 2 | 3 | 4 | no privacy |
|---|---|---|---|---|---|
| LP-1ST | 80.78 | 90.18 | 92.52 | 93.50 | 94.28 |
| LP-2ST | 83.26 | 91.24 | 93.18 | 94.10 | |

The paper: a small Inception, 40 epochs per stage, the rate rising to 0.02 and falling linearly to
0, momentum 0.9, mixup. Here: a small CNN on a CPU, and the same number of epochs in all for any
number of stages, so that more stages win by their labels and not by more training. A repetition
draws everything anew: noise, partitions, initial weights. `--smoke`: 4,000 images, one seed, four
epochs.

Hardware: two cores; one to two minutes per trial.
"""

from labeldp.platform.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.space import Grid
from labeldp.platform.sweep import Smoke, Sweep, Variant
from labeldp.platform.sweep_command import main
from labeldp.trainers.lp_mst import LpMstConfig
from labeldp.trainers.models import ModelName
from labeldp.trainers.training import Schedule

SWEEP = Sweep(
    name="lp_mst_fashion_mnist",
    base=TrialConfig(
        method="lp_mst",
        data=DataSettings(name="fashion_mnist"),
        audit=AuditSettings(canaries=1000),
        trainer=LpMstConfig(
            model=ModelName.SMALL_CNN,
            epochs=30,
            batch_size=128,
            learning_rate=0.05,
            weight_decay=1e-4,
            schedule=Schedule.LINEAR,
            mixup=4.0,
            later_mixup=1.0,
        ),
    ),
    variants=[
        Variant(
            name=f"LP-{stages}ST",
            changes={"trainer.stages": stages, "seed": repetition, "noise.draw": repetition},
        )
        for repetition in range(3)
        for stages in (1, 2, 3)
    ],
    space={"trainer.epsilon": Grid(1.0, 2.0, 4.0)},
    smoke=Smoke(
        changes={
            "data.limit": 4000,
            "audit.canaries": 100,
            "trainer.epochs": 4,
            "seed": 0,
            "noise.draw": 0,
        },
        space={"trainer.epsilon": Grid(2.0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

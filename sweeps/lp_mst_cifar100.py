"""LP-1ST and LP-2ST on CIFAR-100, and the knobs around them: splits, temperature and mixup.

| | epsilon 3 | 4 | 5 | 6 | 8 |
|---|---|---|---|---|---|
| LP-1ST | 20.96 | 46.28 | 61.38 | 68.34 | 73.59 |
| LP-2ST | 28.74 | 50.15 | 63.51 | 70.58 | 74.14 |

Ghazi et al. 2021, Table 2: ResNet18, batches of 256, rate 0.2, 200 epochs in each stage. The paper
gives no split, temperature or mixup for CIFAR-100: eight draws for each epsilon, the same for all.
The best of eight by test accuracy can't be compared with the one LP-1ST. No cutout. `--preset
home` as in `lp_mst_cifar10`, with three draws.

Hardware: a GPU, about 3 hours a trial (an estimate); at home 7 minutes a stage on a core.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.space import Choice, Grid, Uniform
from labeldp.platform.settings.sweep import Preset, Resources, Sweep, Variant
from labeldp.platform.studies.presets import EPOCHS, SMALL_CNN, network_preset
from labeldp.trainers.base import ModelName
from labeldp.trainers.methods.settings import LpMstConfig
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.schedules import Schedule


def stages(epochs: int) -> tuple[Variant, ...]:
    """Return one stage, and two with their knobs, of so many epochs each."""
    return (
        Variant(name="LP-1ST", changes={"trainer.stages": 1, "trainer.epochs": epochs}),
        Variant(
            name="LP-2ST",
            changes={"trainer.stages": 2, "trainer.epochs": 2 * epochs},
            space={
                "trainer.splits": Choice((0.5, 0.5), (0.6, 0.4), (0.7, 0.3)),
                "trainer.temperature": Uniform(0.3, 1.0),
                "trainer.later_mixup": Choice(2.0, 4.0, 8.0),
            },
        ),
    )


SWEEP = Sweep(
    name="lp_mst_cifar100",
    base=TrialConfig(
        method="lp_mst",
        data=DataSettings(name="cifar100"),
        audit=AuditSettings(canaries=1000, coin_canaries=100),
        trainer=LpMstConfig(
            model=ModelName.RESNET18,
            epochs=400,
            batch_size=256,
            learning_rate=0.2,
            weight_decay=1e-4,
            schedule=Schedule.TENTHS,
            augment=True,
            mixup=4.0,
        ),
        performance=Performance(precision=Precision.BF16, channels_last=True),
    ),
    variants=stages(200),
    samples=8,
    space={"trainer.epsilon": Grid(3.0, 4.0, 5.0, 6.0, 8.0)},
    resources=Resources(cpus=1, gpus=1),
    gpu_hours_per_trial=3.0,
    presets={"home": network_preset(variants=stages(EPOCHS), samples=3)},
    smoke=Preset(
        changes={**SMALL_CNN, "trainer.batch_size": 128, "trainer.learning_rate": 0.05},
        space={"trainer.epsilon": Grid(4.0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

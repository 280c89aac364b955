"""LP-1ST, LP-2ST and ALIBI on CIFAR-100, and LP-2ST's knobs: splits, temperature and mixup.

| | epsilon 3 | 4 | 5 | 6 | 8 |
|---|---|---|---|---|---|
| LP-1ST | 20.96 | 46.28 | 61.38 | 68.34 | 73.59 |
| LP-2ST | 28.74 | 50.15 | 63.51 | 70.58 | 74.14 |
| ALIBI | 55.0 | 65.0 | 69.0 | 71.5 | 74.4 |

Ghazi et al. 2021, Table 2, and Malek et al. 2021, Table 2: ResNet18 V2, batches of 256, rate 0.2,
200 epochs in each stage, cutout. The first paper gives no split, temperature or mixup for
CIFAR-100: eight draws for each epsilon, the same for all. The best of eight by test accuracy can't
be compared with the one LP-1ST. The second gives no rate for this network: ALIBI trains as LP-1ST
does. `--preset network` (one draw) and `--preset home` (three) as in `lp_mst_cifar10`.

Hardware: a GPU; `labeldp plan` states its hours. At home 7 minutes a stage on a core.
"""

from collections.abc import Mapping
from typing import Any

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Choice, Grid, Preset, Uniform, Variant
from labeldp.platform.studies.presets import (
    EPOCHS,
    LONGER_EPOCHS,
    SMALL_CNN,
    network_preset,
    sweep_of_paper,
)
from labeldp.trainers.base import ModelName
from labeldp.trainers.methods.settings import LpMstConfig
from labeldp.trainers.settings.training import Schedule

#: Of every line at full size.
TRAINING: Mapping[str, Any] = {
    "trainer.model": ModelName.RESNET18_V2,
    "trainer.batch_size": 256,
    "trainer.learning_rate": 0.2,
    "trainer.weight_decay": 1e-4,
    "trainer.schedule": Schedule.TENTHS,
    "trainer.augment": True,
    "trainer.recipe.cutout": 8,
    "trainer.mixup": 4.0,
}


def stages(epochs: int, training: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Return ALIBI, one stage, and two with their knobs, of so many epochs each."""
    return (
        Variant(name="ALIBI", changes={"method": "alibi", **training, "trainer.epochs": epochs}),
        Variant(name="LP-1ST", changes={**training, "trainer.stages": 1, "trainer.epochs": epochs}),
        Variant(
            name="LP-2ST",
            changes={**training, "trainer.stages": 2, "trainer.epochs": 2 * epochs},
            space={
                "trainer.splits": Choice((0.5, 0.5), (0.6, 0.4), (0.7, 0.3)),
                "trainer.temperature": Uniform(0.3, 1.0),
                "trainer.later_mixup": Choice(2.0, 4.0, 8.0),
            },
        ),
    )


SWEEP = sweep_of_paper(
    "lp_mst_cifar100",
    data="cifar100",
    trainer=LpMstConfig(epochs=400),
    variants=stages(200, TRAINING),
    samples=8,
    space={"trainer.epsilon": Grid(3.0, 4.0, 5.0, 6.0, 8.0)},
    paper=Preset(samples=8, needs_gpu=True),
    network=network_preset(variants=stages(LONGER_EPOCHS, {}), full=True),
    home=network_preset(variants=stages(EPOCHS, {}), samples=3),
    smoke=Preset(
        changes={**SMALL_CNN, "trainer.batch_size": 128, "trainer.learning_rate": 0.05},
        space={"trainer.epsilon": Grid(4.0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

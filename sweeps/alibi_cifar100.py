"""ALIBI and AGIBI on CIFAR-100 at the levels of "Antipodes of Label DP", Tables 1, 4 and 6.

| level | epsilon (2 / lambda) | learning rate | weight decay | accuracy | epsilon_m, 95% |
|---|---|---|---|---|---|
| very high | 8.1 | .0037 | 33.5e-4 | 75.3 | 3.5 to 4.5 |
| high | 6.3 | .0057 | 17.5e-4 | 71.4 | 2.8 to 3.5 |
| medium | 3.0 | .100 | 2.33e-4 | 51.6 | 1.4 to 2.4 |
| low | 2.0 | .1 | 1.00e-4 | 31.4 | 0.6 to 1.0 |

Around each row, learning rate and weight decay are searched (half, one and two times): the nine
trials of a level read one release. WRN-28-8, otherwise as `alibi_cifar10`.

`--preset paper`: unsearched, with AGIBI's rows (69.9 at epsilon 17, 50.8 at 8.4, 28.7 at 5.4).
`--preset network`: those in the fast network. `--preset home`: ALIBI at epsilon 2 to 8 by three
kinds of noise.

Hardware: a GPU; `labeldp plan` states its hours. At home as `alibi_cifar10`.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid, Preset, Variant
from labeldp.platform.studies.presets import (
    ALIBI_KEYS,
    EPOCHS,
    LONGER_EPOCHS,
    SMALL_CNN,
    agibi,
    levels,
    network_preset,
    on_fast_network,
    sweep_of_paper,
)
from labeldp.trainers.base import ModelName
from labeldp.trainers.methods.settings import AlibiConfig, Noise

FACTORS = (0.5, 1.0, 2.0)
#: Level: epsilon, and the rate and weight decay of the paper's Table 4, searched around.
LEVELS = {
    "very high": (8.1, 0.0037, 33.5e-4),
    "high": (6.3, 0.0057, 17.5e-4),
    "medium": (3.0, 0.100, 2.33e-4),
    "low": (2.0, 0.1, 1.00e-4),
}
#: As published, Gaussian noise included.
PAPER = (
    *levels(ALIBI_KEYS, LEVELS),
    *agibi(LEVELS, {"high": 17.0, "medium": 8.4, "low": 5.4}),
)
#: Five epsilons, in ten epochs of the fast network.
HOME_LINES = tuple(
    Variant(
        name=noise.value.replace("_", " "),
        changes={"trainer.epochs": EPOCHS, "trainer.noise": noise},
        space={"trainer.epsilon": Grid(2.0, 3.0, 4.0, 6.0, 8.0)},
    )
    for noise in (Noise.SUBSET, Noise.RANDOMIZED_RESPONSE, Noise.LAPLACE)
)

SWEEP = sweep_of_paper(
    "alibi_cifar100",
    data="cifar100",
    trainer=AlibiConfig(
        model=ModelName.WIDE_RESNET28, width=8, epochs=200, batch_size=128, augment=True
    ),
    variants=[
        Variant(
            name=name,
            changes={"trainer.epsilon": epsilon},
            space={
                "trainer.learning_rate": Grid(*(rate * factor for factor in FACTORS)),
                "trainer.weight_decay": Grid(*(decay * factor for factor in FACTORS)),
            },
        )
        for name, (epsilon, rate, decay) in LEVELS.items()
    ],
    paper=Preset(variants=PAPER, needs_gpu=True),
    network=network_preset(variants=on_fast_network(PAPER, epochs=LONGER_EPOCHS), full=True),
    home=network_preset(variants=HOME_LINES),
    smoke=Preset(
        changes={**SMALL_CNN, "trainer.width": 16},
        space={
            "trainer.learning_rate": Grid(0.02, 0.05),
            "trainer.weight_decay": Grid(1e-4),
        },
    ),
)

if __name__ == "__main__":
    main(SWEEP)

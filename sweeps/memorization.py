"""1,000 canaries in one model against ten models of 100: the paper's own check.

Malek et al. 2021, supplement, Table 5: the published intervals for epsilon_m of ALIBI on CIFAR-10
are 2.9-4.0 with 1 x 1,000 canaries and 2.7-3.6 with 10 x 100 (high accuracy), 1.0-2.2 and 0.2-2.5
(medium), 0.0-2.2 and 0.0-1.6 (low). Here: a small CNN on 10,000 images of Fashion-MNIST, trained
until it remembers. Expect overlapping intervals, and corrected ones below the published.

Eleven sweeps run into subfolders; `blocks.md` and `blocks.csv` compare them. `--preset paper` is
ALIBI as in `alibi_cifar10`; `network` has the fast network, `home` half its width and ten epochs.

Hardware: two cores; 33 trials of minutes each, about three hours. `paper`: a GPU.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid, Preset, Resources, Sweep, Variant
from labeldp.platform.studies.presets import (
    ALIBI_CIFAR10,
    ALIBI_KEYS,
    EPOCHS,
    LONGER_EPOCHS,
    audited,
    levels,
    network_preset,
    on_fast_network,
)
from labeldp.trainers.base import ModelName
from labeldp.trainers.methods.settings import AlibiConfig, Noise
from labeldp.trainers.performance import Precision

CIFAR10 = {"data.name": "cifar10", "data.limit": None}
LEVELS = levels(ALIBI_KEYS, ALIBI_CIFAR10)

SWEEP = Sweep(
    name="memorization",
    base=audited(
        "fashion_mnist",
        AlibiConfig(model=ModelName.SMALL_CNN, epochs=40, batch_size=128, learning_rate=0.05),
        limit=10_000,
    ),
    variants=[
        Variant(name="ALIBI", space={"trainer.epsilon": Grid(2.0, 8.0)}),
        Variant(name="no privacy", changes={"trainer.noise": Noise.NONE}),
    ],
    blocks=10,
    presets={
        "paper": Preset(
            changes={
                **CIFAR10,
                "trainer.model": ModelName.WIDE_RESNET28,
                "trainer.epochs": 200,
                "trainer.augment": True,
                "performance.precision": Precision.AUTO,
                "performance.channels_last": True,
            },
            variants=LEVELS,
            resources=Resources(gpu=1, shared=True),
            needs_gpu=True,
        ),
        "network": network_preset(
            CIFAR10, variants=on_fast_network(LEVELS, epochs=LONGER_EPOCHS), full=True
        ),
        "home": network_preset(CIFAR10, variants=on_fast_network(LEVELS, epochs=EPOCHS)),
    },
    smoke=Preset(
        changes={
            "data.name": "digits",
            "data.limit": None,
            "audit.canaries": 200,
            "trainer.model": ModelName.MLP,
            "trainer.epochs": 60,
            "trainer.learning_rate": 0.1,
            "trainer.weight_decay": 0.0,  # it would keep so small a set from being remembered
        },
        space={"trainer.epsilon": Grid(8.0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

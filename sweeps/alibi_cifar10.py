"""ALIBI on CIFAR-10 at the three privacy levels of "Antipodes of Label DP", Tables 1 and 4.

| level | epsilon | learning rate | weight decay | accuracy | epsilon_m, 95% interval |
|---|---|---|---|---|---|
| high | 8.0 | .308 | .568e-4 | 94.0 | 2.9 to 4.0 |
| medium | 2.1 | .960 | .00796e-4 | 84.2 | 1.0 to 2.2 |
| low | 1.0 | .315 | 1.50e-4 | 71.0 | 0.0 to 2.2 |

WRN-28-4, batches of 128, 200 epochs, 1,000 canaries. The paper picks the best test epoch; here the
last one counts. `--preset home`: the fast network at half width, ten epochs at its own rate,
on subset selection.

Hardware: a GPU, about 2 hours a trial (an estimate); at home a core of an Intel Xeon with AMX,
seven minutes a trial.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.space import Grid
from labeldp.platform.settings.sweep import Preset, Resources, Sweep
from labeldp.platform.studies.presets import SMALL_CNN, levels, network_preset
from labeldp.trainers.base import ModelName
from labeldp.trainers.methods.settings import AlibiConfig, Noise
from labeldp.trainers.performance import Performance, Precision

SWEEP = Sweep(
    name="alibi_cifar10",
    base=TrialConfig(
        data=DataSettings(name="cifar10"),
        audit=AuditSettings(canaries=1000, coin_canaries=100),
        trainer=AlibiConfig(
            model=ModelName.WIDE_RESNET28, width=4, epochs=200, batch_size=128, augment=True
        ),
        performance=Performance(precision=Precision.BF16, channels_last=True),
    ),
    variants=levels(
        ("trainer.epsilon", "trainer.learning_rate", "trainer.weight_decay"),
        {
            "high": (8.0, 0.308, 0.568e-4),
            "medium": (2.1, 0.960, 0.00796e-4),
            "low": (1.0, 0.315, 1.50e-4),
        },
    ),
    space={"seed": Grid(0, 1, 2)},
    resources=Resources(cpus=1, gpus=1),
    gpu_hours_per_trial=2.0,
    presets={"home": network_preset({"trainer.noise": Noise.SUBSET})},
    smoke=Preset(
        changes={**SMALL_CNN, "trainer.width": 16, "trainer.learning_rate": 0.05},
        space={"seed": Grid(0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

"""ALIBI and AGIBI on CIFAR-10 at the privacy levels of "Antipodes of Label DP", Tables 1, 4 and 6.

| level | epsilon | learning rate | weight decay | accuracy | epsilon_m, 95% interval |
|---|---|---|---|---|---|
| high | 8.0 | .308 | .568e-4 | 94.0 | 2.9 to 4.0 |
| medium | 2.1 | .960 | .00796e-4 | 84.2 | 1.0 to 2.2 |
| low | 1.0 | .315 | 1.50e-4 | 71.0 | 0.0 to 2.2 |

WRN-28-4, batches of 128, 200 epochs, 1,000 canaries. AGIBI, with Gaussian noise at the same rates:
93.5 at epsilon 19, 84.3 at 7.7, 71.3 at 3.7 (`--only AGIBI`; delta 1e-5). The paper picks the best
test epoch; here the last one counts, unless you set `evaluation.checkpoint=test_selected`.

`--preset network`: the fast network, thirty epochs at its own rate. `--preset home`: half its
width, ten epochs, ALIBI's levels on subset selection.

Hardware: a GPU; `labeldp plan` states its hours. At home a core of an Intel Xeon with AMX,
seven minutes a trial.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid, Preset
from labeldp.platform.studies.presets import (
    ALIBI_CIFAR10,
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

ALIBI = levels(ALIBI_KEYS, ALIBI_CIFAR10)
LINES = (*ALIBI, *agibi(ALIBI_CIFAR10, {"high": 19.0, "medium": 7.7, "low": 3.7}))
SUBSET = {"trainer.noise": Noise.SUBSET}

SWEEP = sweep_of_paper(
    "alibi_cifar10",
    data="cifar10",
    trainer=AlibiConfig(
        model=ModelName.WIDE_RESNET28, width=4, epochs=200, batch_size=128, augment=True
    ),
    variants=LINES,
    space={"seed": Grid(0, 1, 2)},
    network=network_preset(variants=on_fast_network(LINES, epochs=LONGER_EPOCHS), full=True),
    home=network_preset(variants=on_fast_network(ALIBI, epochs=EPOCHS, **SUBSET)),
    smoke=Preset(
        changes={**SMALL_CNN, "trainer.width": 16, "trainer.learning_rate": 0.05},
        space={"seed": Grid(0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)

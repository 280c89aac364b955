r"""Regression on secret amounts: what to release of them, from epsilon .5 to 4.

Noisy sums of amounts, and one output for each amount by three channels, on California housing
(labeldp data fetch california_housing), or on amounts of your own, between bounds that you state:

    python sweeps/amounts.py data.name=own data.path=FILE.csv data.label_column=spent \
        data.bounds=0,500 data.hold_out=none

Expect: sums have the least error up to epsilon 1, randomized response on bins at 4
(docs/amounts.md). Hardware: two cores, some minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import DataSettings, TrialConfig
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.trainers.methods.settings import AmountRelease, AmountsConfig

EPSILONS = {"trainer.epsilon": Grid(0.5, 1.0, 2.0, 4.0)}
RELEASES = {
    "sums": AmountRelease.SUMS,
    "unbiased": AmountRelease.UNBIASED,
    "least error": AmountRelease.LEAST_ERROR,
    "randomized response": AmountRelease.RANDOMIZED_RESPONSE,
}

SWEEP = Sweep(
    name="amounts",
    base=TrialConfig(
        method="amounts",
        data=DataSettings(name="california_housing"),
        trainer=AmountsConfig(),
    ),
    variants=[
        Variant(name=name, changes={"trainer.release": release}, space=EPSILONS)
        for name, release in RELEASES.items()
    ],
    smoke=Preset(changes={"data.limit": 2000}, space={"trainer.epsilon": Grid(1.0)}),
)

if __name__ == "__main__":
    main(SWEEP)

"""PATE-FM on CIFAR-100 at the three privacy levels of "Antipodes of Label DP", Tables 1 and 3.

| level | T | sigma1 | sigma2 | tau | K | ensemble | accuracy | epsilon | epsilon_m, 95% interval |
|---|---|---|---|---|---|---|---|---|---|
| high | 20 | 7 | 2 | 2 | 9,400 | 74.0 | 69.9 | 715 | 0.4 to 1.0 |
| medium | 100 | 45 | 15 | 10 | 1,000 | 55.0 | 50.0 | 16 | 0.2 to 0.7 |
| low | 100 | 90 | 30 | 10 | 1,000 | 28.8 | 30.5 | 7.9 | 0.2 to 0.6 |

FixMatch on WRN-28-8, weight decay 1e-3, teachers and three students for 125 epochs; else as
`pate_fm_cifar10`.

Hardware: a GPU for each actor; `labeldp plan` states its hours. Medium and low share votes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import pate_fm
from labeldp.trainers.settings.training import FixMatchConfig

FIXMATCH = FixMatchConfig(width=8, epochs=125, weight_decay=1e-3)

SWEEP = pate_fm(
    "cifar100",
    {
        "high": (10_000, 20, 7, 2, 2, 9_400),
        "medium": (2_000, 100, 45, 15, 10, 1_000),
        "low": (2_000, 100, 90, 30, 10, 1_000),
    },
    teacher=FIXMATCH,
    student=FIXMATCH,
)

if __name__ == "__main__":
    main(SWEEP)

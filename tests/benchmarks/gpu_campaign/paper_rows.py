"""Rows of the papers, as the sweeps have them; a test holds them against `sweeps/`.

The sweeps' own files need the platform, which the accelerator's machine has not got.
"""

from collections.abc import Iterator

from labeldp.trainers.models.schedules import Schedule
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.methods import AlibiConfig, LpMstConfig
from labeldp.trainers.settings.pate import (
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.settings.training import FixMatchConfig
from tests.benchmarks.gpu_campaign.pate_step import PateStep
from tests.benchmarks.gpu_campaign.trial_step import TrialStep

#: Level -> epsilon, rate, weight decay, published accuracy; Malek et al. 2021, Tables 1 and 4.
ALIBI_CIFAR10 = {
    "high": (8.0, 0.308, 0.568e-4, "94.0"),
    "medium": (2.1, 0.960, 0.00796e-4, "84.2"),
    "low": (1.0, 0.315, 1.50e-4, "71.0"),
}
ALIBI_CIFAR100 = {
    "very high": (8.1, 0.0037, 33.5e-4, "75.3"),
    "high": (6.3, 0.0057, 17.5e-4, "71.4"),
    "medium": (3.0, 0.100, 2.33e-4, "51.6"),
    "low": (2.0, 0.1, 1.00e-4, "31.4"),
}
#: epsilon, split, mixup, later mixup, temperature, published LP-2ST; Ghazi et al. 2021.
LP_2ST_CIFAR10 = (
    (1.0, 0.8, 16.0, 8.0, 0.6, "63.67"),
    (2.0, 0.7, 8.0, 8.0, 0.5, "86.05"),
    (4.0, 0.6, 8.0, 4.0, 0.5, "93.37"),
    (8.0, 0.6, 4.0, 4.0, 0.5, "94.52"),
)
#: epsilon -> published LP-1ST and LP-2ST with ResNet18, at settings that the paper does not give.
LP_CIFAR100 = {3.0: ("20.96", "28.74"), 4.0: ("46.28", "50.15"), 8.0: ("73.59", "74.14")}
#: Level -> teachers, queries, sigma1, sigma2, tau, answers, published; Malek et al., Table 3.
PATE_FM_CIFAR10 = {
    "high": (200, 1500, 160, 20, 100, 500, "93.7"),
    "medium": (800, 1000, 800, 300, 400, 250, "86.9"),
    "low": (800, 1000, 800, 500, 400, 250, "73.4"),
}
PATE_FM_CIFAR100 = {
    "high": (20, 10_000, 7, 2, 2, 9_400, "69.9"),
    "medium": (100, 2_000, 45, 15, 10, 1_000, "50.0"),
    "low": (100, 2_000, 90, 30, 10, 1_000, "30.5"),
}


def alibi_steps(dataset: str, width: int) -> Iterator[TrialStep]:
    """Yield ALIBI's levels with WRN-28."""
    levels = ALIBI_CIFAR10 if dataset == "cifar10" else ALIBI_CIFAR100
    for level, (epsilon, rate, decay, published) in levels.items():
        yield TrialStep(
            name=f"{dataset}-wrn-28-{width}-alibi-{level.replace(' ', '-')}",
            row=f"ALIBI, {level}",
            network=f"WRN-28-{width}",
            dataset=dataset,
            published=published,
            config=AlibiConfig(
                model=ModelName.WIDE_RESNET28,
                width=width,
                epochs=200,
                batch_size=128,
                augment=True,
                epsilon=epsilon,
                learning_rate=rate,
                weight_decay=decay,
            ),
        )


def lp_2st_steps() -> Iterator[TrialStep]:
    """Yield LP-2ST on CIFAR-10 with ResNet18."""
    for epsilon, split, mixup, later, temperature, published in LP_2ST_CIFAR10:
        yield TrialStep(
            name=f"cifar10-resnet18-lp-2st-e{epsilon:g}",
            row="LP-2ST",
            network="ResNet18",
            dataset="cifar10",
            published=published,
            config=LpMstConfig(
                model=ModelName.RESNET18,
                epochs=400,
                batch_size=512,
                learning_rate=0.4,
                weight_decay=1e-4,
                schedule=Schedule.TENTHS,
                augment=True,
                epsilon=epsilon,
                mixup=mixup,
                splits=(split, round(1 - split, 6)),
                later_mixup=later,
                temperature=temperature,
            ),
        )


def lp_steps_cifar100() -> Iterator[TrialStep]:
    """Yield LP-1ST and LP-2ST on CIFAR-100 with ResNet18; knobs that are not published are ours."""
    for epsilon, published in LP_CIFAR100.items():
        for stages in (2, 1):
            yield TrialStep(
                name=f"cifar100-resnet18-lp-{stages}st-e{epsilon:g}",
                row=f"LP-{stages}ST",
                network="ResNet18",
                dataset="cifar100",
                published=published[stages - 1],
                config=LpMstConfig(
                    model=ModelName.RESNET18,
                    epochs=200 * stages,
                    stages=stages,
                    batch_size=256,
                    learning_rate=0.2,
                    weight_decay=1e-4,
                    schedule=Schedule.TENTHS,
                    augment=True,
                    mixup=4.0,
                    epsilon=epsilon,
                ),
            )


def pate_steps(dataset: str) -> Iterator[PateStep]:
    """Yield PATE-FM's levels: thousands of hours in all, so that they are the last."""
    small = dataset == "cifar10"
    levels = PATE_FM_CIFAR10 if small else PATE_FM_CIFAR100
    teachers_learn = (
        FixMatchConfig(width=4, epochs=40)
        if small
        else FixMatchConfig(width=8, epochs=125, weight_decay=1e-3)
    )
    students_learn = FixMatchConfig(width=4, epochs=200) if small else teachers_learn
    for level, (teachers, queries, sigma1, sigma2, tau, answers, published) in levels.items():
        yield PateStep(
            name=f"{dataset}-pate-fm-{level}",
            row=f"PATE-FM, {level}",
            network="WRN-28-4" if small else "WRN-28-8",
            dataset=dataset,
            published=published,
            ensemble=f"{dataset}-{teachers}-teachers",
            config=PateConfig(
                ensemble=EnsembleConfig(
                    kind=TeacherKind.FIXMATCH,
                    teachers=teachers,
                    queries=queries,
                    fixmatch=teachers_learn,
                ),
                sigma1=sigma1,
                sigma2=sigma2,
                threshold=tau,
                answers=answers,
                publish_cost=False,
                student=StudentConfig(kind=StudentKind.FIXMATCH, fixmatch=students_learn),
            ),
        )

"""The campaign at the size of a toy: every kind of step, on a processor, in seconds."""

from dataclasses import replace

from labeldp.trainers.models.recipe import fast_training
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
from tests.benchmarks.gpu_campaign.speed_step import SpeedStep
from tests.benchmarks.gpu_campaign.step import Step
from tests.benchmarks.gpu_campaign.steps import encoder_steps
from tests.benchmarks.gpu_campaign.trial_step import TrialStep
from tests.benchmarks.gpu_measuring import SMALL


def small_campaign(dataset: str = "cifar10") -> tuple[Step, ...]:
    """Return a step of each kind, of networks that are too small to learn anything.

    Args:
        dataset: On which; `Place.limit` says of how many images.
    """
    network = fast_training(epochs=2, width=2) | {"batch_size": 50}
    two = fast_training(epochs=2, width=2) | {"batch_size": 50}
    fast = TrialStep(
        name=f"{dataset}-alibi",
        row="ALIBI",
        network="fast network, width 2",
        dataset=dataset,
        config=AlibiConfig(epsilon=2.0, **network),
        needs_seconds=0.0,
    )
    encoder = encoder_steps(
        dataset,
        ModelName.FAST_CNN,
        2,
        epochs=2,
        epsilons=(1.0,),
        batch_size=50,
        projection=8,
        landmarks=20,
    )
    return (
        fast,
        SpeedStep(
            seconds=0.01,
            sizes=replace(SMALL, widths=(), encoders=(), teachers=()),
            needs_seconds=0.0,
        ),
        *(replace(step, needs_seconds=0.0) for step in encoder),
        replace(
            fast,
            name=f"{dataset}-lp-2st",
            row="LP-2ST",
            config=LpMstConfig(epsilon=2.0, **two),
        ),
        _pate(dataset),
    )


def _pate(dataset: str) -> PateStep:
    tiny = FixMatchConfig(
        model=ModelName.SMALL_CNN,
        width=2,
        epochs=2,
        steps_per_epoch=1,
        batch_size=8,
        unlabeled_ratio=2,
    )
    return PateStep(
        name=f"{dataset}-pate-fm",
        row="PATE-FM",
        network="small CNN, width 2",
        dataset=dataset,
        needs_seconds=0.0,
        ensemble=f"{dataset}-3-teachers",
        config=PateConfig(
            ensemble=EnsembleConfig(
                kind=TeacherKind.FIXMATCH, teachers=3, queries=40, fixmatch=tiny
            ),
            threshold=1.0,
            sigma1=1.0,
            sigma2=1.0,
            answers=20,
            publish_cost=False,
            students=1,
            student=StudentConfig(kind=StudentKind.FIXMATCH, fixmatch=tiny),
        ),
    )

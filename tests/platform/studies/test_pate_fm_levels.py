"""PATE-FM's levels: a row of the paper's table is what a trial runs with, and smoke is small."""

from labeldp.platform.studies.pate_fm_levels import SMOKE, level
from labeldp.platform.sweep.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.sweep.sweep import Sweep, plan_trials, smoke_sized
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import PateConfig

SWEEP = Sweep(
    name="levels",
    base=TrialConfig(
        method="pate",
        data=DataSettings(name="cifar10"),
        audit=AuditSettings(canaries=1000),
        trainer=PateConfig(),
    ),
    variants=[
        level("high", teachers=200, queries=1500, sigma1=160, sigma2=20, tau=100, answers=500)
    ],
    smoke=SMOKE,
)


def test_a_row_of_the_table_is_what_a_trial_asks() -> None:
    (trial,) = plan_trials(SWEEP)
    config = trial.config.trainer
    assert trial.variant == "high"
    assert (config.ensemble.teachers, config.ensemble.queries) == (200, 1500)
    assert (config.sigma1, config.sigma2, config.threshold, config.answers) == (160, 20, 100, 500)


def test_smoke_makes_teachers_and_students_small() -> None:
    (trial,) = plan_trials(smoke_sized(SWEEP))
    config = trial.config.trainer
    assert trial.config.data.limit == 300
    assert (config.ensemble.teachers, config.students, config.answers) == (4, 1, 20)
    for fixmatch in (config.ensemble.fixmatch, config.student.fixmatch):
        assert fixmatch.model is ModelName.SMALL_CNN
        assert (fixmatch.epochs, fixmatch.steps_per_epoch) == (1, 2)

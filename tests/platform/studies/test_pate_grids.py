"""pate_grids: levels of PATE-FM as in the paper's table, 36 settings of noise on two ensembles."""

from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.studies.pate_grids import FIXMATCH_SMOKE, VARIANTS, level, smoke
from labeldp.platform.sweep.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import Sweep, ensembles_of, plan_trials, smoke_sized
from labeldp.trainers.settings.base import FeatureSet
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
    smoke=FIXMATCH_SMOKE,
)


def test_a_row_of_the_table_is_what_a_trial_asks() -> None:
    (trial,) = plan_trials(SWEEP)
    config = trial.config.trainer
    assert trial.variant == "high"
    assert (config.ensemble.teachers, config.ensemble.queries) == (200, 1500)
    assert (config.sigma1, config.sigma2, config.threshold, config.answers) == (160, 20, 100, 500)


def sweep(**changes: Any) -> Sweep:
    """A sweep of these grids."""
    base = TrialConfig(
        method="pate",
        data=DataSettings(name="mnist", features=FeatureSet.PATCHES),
        trainer=PateConfig(),
    )
    return Sweep(name="probes", base=base, variants=VARIANTS, **changes)


def test_every_noise_of_a_variant_reads_the_votes_of_the_same_teachers() -> None:
    trials = plan_trials(sweep())
    assert len({trial.hash("data") for trial in trials}) == 36
    assert sorted(each.teachers for each in ensembles_of(trials)) == [250, 800]


def test_smoke_takes_digits_where_there_is_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path))
    small = smoke("mnist", changes={"trainer.students": 1}, space={"seed": Grid(0)})
    trials = plan_trials(smoke_sized(sweep(smoke=small)))
    assert len(trials) == 24
    for trial in trials:
        assert (trial.config.data.name, trial.config.data.limit) == ("digits", 2000)
        config = trial.config.trainer
        assert isinstance(config, PateConfig)
        assert (config.answers, config.students, config.ensemble.queries) == (100, 1, 400)

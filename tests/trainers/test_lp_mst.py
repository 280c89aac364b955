"""LP-MST on digits: stages cost what one costs, learn, are filtered, resume and refuse."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.methods.lp_mst import LpMst
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import LpMstConfig, PriorSettings, PriorSource
from labeldp.trainers.trainer import LabelSource
from tests.trainers.tiny_data import digits

ON_CPU = Performance(device=Device.CPU)
QUICK = LpMstConfig(epochs=8, width=32, epsilon=2.0, learning_rate=0.1, batch_size=64)


def started(config: LpMstConfig, labels: LabelSource | None = None, *, seed: int = 0) -> LpMst:
    data, seeded = digits()
    trainer = config.start(data=data, labels=labels or seeded, seed=seed, performance=ON_CPU)
    assert isinstance(trainer, LpMst)
    return trainer


def trained(config: LpMstConfig, labels: LabelSource | None = None, *, seed: int = 0) -> LpMst:
    trainer = started(config, labels, seed=seed)
    for _ in range(config.epochs):
        trainer.epoch()
    return trainer


def vault_of_digits(**limits: Any) -> LabelVault:
    return LabelVault(labels=load("digits").train_labels, num_classes=10, **limits)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_all_stages_cost_what_one_costs(stages: int) -> None:
    """By the ledger: each label is in one release, and has paid epsilon in the end."""
    vault = vault_of_digits(budget=Budget(epsilon=2.0))
    trainer = trained(replace(QUICK, stages=stages, filter_earlier=False), vault)
    charges = vault.charges()
    assert len(charges) == stages
    asked = np.concatenate([charge.indices for charge in charges if charge.indices is not None])
    assert sorted(asked.tolist()) == list(range(vault.num_labels))
    assert vault.epsilon(delta=0.0) == 2.0
    assert sorted(trainer.noisy_labels()[0].tolist()) == list(range(vault.num_labels))


def test_parts_that_overlap_cost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def overlapping(count: int, **_: Any) -> tuple[NDArray[np.intp], ...]:
        return np.arange(count - 100), np.arange(count - 101, count)

    monkeypatch.setattr("labeldp.trainers.methods.lp_mst.partition", overlapping)
    vault = vault_of_digits()
    trained(QUICK, vault)
    assert vault.epsilon(delta=0.0) == 4.0
    with pytest.raises(BudgetExceeded):
        trained(QUICK, vault_of_digits(budget=Budget(epsilon=2.0)))


def test_one_stage_under_other_files_priors_is_not_one_release_in_the_plan() -> None:
    priors = [PriorSettings(source=PriorSource.FILE, path=path) for path in ("a.npy", "b.npy")]
    plans = {
        replace(QUICK, stages=1, prior=prior).planned_charge(num_classes=10, seed=seed).release
        for prior in (PriorSettings(), *priors)
        for seed in (0, 1)
    }
    assert len(plans) == 3


@pytest.mark.parametrize("source", [PriorSource.CLUSTERS, PriorSource.MOMENTS])
def test_trials_of_one_stage_share_a_prior_and_what_is_asked_under_it(source: PriorSource) -> None:
    prior = PriorSettings(source=source, clusters=20, landmarks=50)
    config = replace(QUICK, stages=1, epochs=1, prior=prior)
    vault = vault_of_digits()
    plans = []
    for rate in (0.1, 0.2):
        trial = replace(config, learning_rate=rate)
        plans.append(trial.planned_charge(num_classes=10, seed=0))
        started(trial, vault)
    assert plans[0].chain() == plans[1].chain() and len(plans[0].chain()) == 2
    assert [charge.event for charge in vault.charges()] == [
        part.event for part in reversed(plans[0].chain())
    ]

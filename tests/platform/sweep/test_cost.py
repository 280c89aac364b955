"""cost: what a sweep costs before it starts, against sums by hand, and the budget."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import PureEvent, gaussian_epsilon
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.vault import Charge, LabelVault, Mechanism
from labeldp.platform.sweep.configuration import TrialConfig, with_changes
from labeldp.platform.sweep.cost import (
    SweepCost,
    budget_of,
    check_budget,
    check_what_is_left,
    cost_of,
)
from labeldp.platform.sweep.sweep import plan_trials
from labeldp.trainers.trainer import PlannedCharge
from tests.platform.sweep.examples import a_sweep


def cost(**overrides: object) -> SweepCost:
    """Cost of one line of trials with these settings, `a__b` for `a.b`."""
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    return cost_of(plan_trials(a_sweep(variants=()), named), num_classes=10)


@pytest.mark.parametrize(
    ("settings", "epsilons", "releases", "total"),
    [
        # One release for any learning rate and weight decay.
        (
            {
                "trainer.epsilon": 1.5,
                "trainer.learning_rate": [0.01, 0.1],
                "trainer.weight_decay": [0.0, 1e-3, 1e-2],
            },
            [1.5] * 6,
            1,
            1.5,
        ),
        ({"trainer.epsilon": [0.5, 1, 2], "seed": [0, 1]}, [0.5, 0.5, 1, 1, 2, 2], 3, 3.5),
        (
            {"trainer.noise": "randomized_response", "noise.draw": [0, 1, 2]},
            [1, 1, 1],
            3,
            3.0,
        ),
        ({"trainer.noise": "none"}, [math.inf], 1, math.inf),
        # The user's own prior alone costs nothing; what a release builds on is paid too.
        (
            {
                "method": "prior_labels",
                "trainer.prior.source": "file",
                "trainer.prior.path": "mine.npy",
            },
            [0.0],
            0,
            0.0,
        ),
        ({"method": "alibi_prior", "trainer.epsilon": 2.0}, [2.0], 2, 2.0),
        # Every stage is a release, and a label is in one.
        ({"method": "lp_mst", "trainer.epsilon": 2.0, "trainer.stages": 3}, [2.0], 3, 2.0),
    ],
)
def test_releases_are_counted_and_their_epsilons_added(
    settings: dict[str, Any], epsilons: list[float], releases: int, total: float
) -> None:
    base = with_changes(TrialConfig(), {"method": settings.get("method", "alibi")})
    found = cost_of(plan_trials(a_sweep(base=base, variants=()), settings), num_classes=10)
    assert sorted(found.epsilons) == pytest.approx(epsilons)
    assert (found.releases, found.delta) == (releases, 0.0)
    assert found.epsilon_total == pytest.approx(total)


def test_gaussian_releases_compose_exactly() -> None:
    found = cost(
        trainer__noise="gaussian", trainer__epsilon=1, trainer__delta=1e-5, noise__draw=[0, 1]
    )
    noise_std = calibrate_gaussian(epsilon=1.0, delta=1e-5).noise_std
    # Two releases of noise s and an L2 sensitivity of sqrt 2 are one of noise s / sqrt 2.
    both = gaussian_epsilon(noise_multiplier=noise_std / 2, delta=1e-5)
    assert found.epsilons == pytest.approx((1.0, 1.0), rel=1e-9)
    assert found.epsilon_total == pytest.approx(both, rel=1e-9)
    assert 1 < both < 2
    assert found.delta == 1e-5


@pytest.mark.parametrize("failing", [4e-6, 8e-6, 2e-5])
def test_a_trial_is_priced_at_the_delta_of_its_record(
    failing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GaussianNoise, "failure_probability", failing)
    found = cost(trainer__noise="gaussian", trainer__epsilon=1, trainer__delta=1e-5)
    noise_std = calibrate_gaussian(epsilon=1.0, delta=1e-5).noise_std
    vault = LabelVault(labels=np.arange(40) % 10, num_classes=10)
    vault.release(GaussianNoise(noise_std=noise_std, num_classes=10))
    assert found.delta == max(1e-5, 2 * failing)
    assert found.epsilons == pytest.approx((vault.epsilon(delta=found.delta),), rel=1e-9)


def test_earlier_failures_are_taken_off_the_budgets_delta() -> None:
    pure = PureEvent(epsilon=1.0)
    line = Charge(key="r", event=pure, indices=None, mechanism={}, failure_probability=4e-6)
    check_left([line] * 2, Budget(epsilon=2.5, delta=1.6e-5), trainer__epsilon=0.5)
    with pytest.raises(BudgetExceeded, match=r"2 is spent and this would make it 2\.5"):
        check_left([line] * 2, Budget(epsilon=2.4, delta=1.6e-5), trainer__epsilon=0.5)


def test_a_budget_that_is_met_exactly_is_enough() -> None:
    found = cost(trainer__noise="laplace", trainer__epsilon=[0.1, 0.2, 0.3])
    check_budget(found, Budget(epsilon=0.6))
    check_budget(found, None)
    check_budget(found, Budget(epsilon=math.inf))
    with pytest.raises(BudgetExceeded) as caught:
        check_budget(found, Budget(epsilon=0.59))
    for word in ("3 trials", "3 releases", "epsilon 0.59", "0.6", "raise the budget"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("budget", "granted"),
    [
        (Budget(epsilon=1.0, delta=1e-7), False),
        (Budget(epsilon=1.0, delta=1e-5), True),
        (Budget(epsilon=0.9, delta=1e-3), True),
        (Budget(epsilon=0.9, delta=1e-5), False),
        (Budget(epsilon=100.0), False),
    ],
)
def test_plan_start_and_vault_hold_a_budget_at_its_own_delta(budget: Budget, granted: bool) -> None:
    """Whatever the delta of the trials: AGIBI of epsilon 1 at 1e-5."""
    agibi: dict[str, object] = {"trainer__noise": "gaussian", "trainer__epsilon": 1.0}
    (trial,) = plan_trials(
        a_sweep(variants=()), {key.replace("__", "."): value for key, value in agibi.items()}
    )
    vault = LabelVault(labels=np.arange(40) % 10, num_classes=10, budget=budget)
    for ask in (
        lambda: check_budget(cost(**agibi), budget),
        lambda: check_left([], budget, **agibi),
        lambda: vault.release(trial.config.trainer.mechanism(10)),
    ):
        with nullcontext() if granted else pytest.raises(BudgetExceeded, match=" 0 is spent"):
            ask()


def test_what_may_fail_is_taken_off_the_budgets_delta() -> None:
    """A plan of PATE whose published bound fails more often than the budget's delta allows."""
    paid = PlannedCharge(event=PureEvent(epsilon=1.0), failure_probability=1e-6, release="r")
    planned = SweepCost(
        epsilons=(1.0,), releases=1, epsilon_total=1.0, delta=2e-6, trials=1, trained=[paid]
    )
    check_budget(planned, Budget(epsilon=1.0, delta=1e-6))
    with pytest.raises(BudgetExceeded, match="would make it inf"):
        check_budget(planned, Budget(epsilon=1.0, delta=0.9e-6))


def earlier(*mechanisms: Mechanism) -> Sequence[Charge]:
    """Lines of a ledger: each of these mechanisms was asked once."""
    vault = LabelVault(labels=np.arange(40) % 10, num_classes=10)
    for mechanism in mechanisms:
        vault.release(mechanism)
    return vault.charges()


def check_left(charges: Sequence[Charge], budget: Budget | None, **overrides: object) -> None:
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    trials = plan_trials(a_sweep(variants=()), named)
    check_what_is_left(trials, charges, num_classes=10, num_labels=40, budget=budget)


def test_what_was_spent_is_spent() -> None:
    charges = earlier(LaplaceNoise(epsilon=1.0, num_classes=10))
    check_left(charges, None, trainer__epsilon=0.5)
    check_left(charges, Budget(epsilon=1.5), trainer__epsilon=0.5)
    # The release that is there costs nothing more, for any learning rate.
    check_left(charges, Budget(epsilon=1.0), trainer__epsilon=1, trainer__learning_rate=[0.1, 0.2])
    with pytest.raises(BudgetExceeded, match=r"1 is spent and this would make it 1\.5"):
        check_left(charges, Budget(epsilon=1.4), trainer__epsilon=[0.5, 1])
    with pytest.raises(BudgetExceeded, match="1 releases that are new"):
        check_left(charges, Budget(epsilon=1.4), trainer__epsilon=1, noise__draw=1)
    with pytest.raises(BudgetExceeded, match="1 releases that are new"):
        check_left(charges, Budget(epsilon=1.4), trainer__epsilon=1, noise__seed=0)


def test_releases_that_nobody_knows_yet_are_counted_each() -> None:
    """Of a search: what it will ask for depends on what it finds."""
    charges = earlier(LaplaceNoise(epsilon=1.0, num_classes=10))
    (trial,) = plan_trials(a_sweep(variants=()), {"trainer.epsilon": 0.5})
    search = [replace(trial, own_releases=3), replace(trial, own_releases=2)]
    asked: dict[str, Any] = {"num_classes": 10, "num_labels": 40}
    check_what_is_left(search, charges, **asked, budget=Budget(epsilon=1.0 + 5 * 0.5))
    with pytest.raises(BudgetExceeded, match=r"would make it 3\.5; .*") as caught:
        check_what_is_left(search, charges, **asked, budget=Budget(epsilon=3.4))
    assert "5 releases that are new" in str(caught.value)


def test_what_may_fail_of_the_plan_is_taken_off_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LaplaceNoise, "failure_probability", 4e-6)
    wanted: dict[str, Any] = {"trainer__epsilon": 0.5, "noise__draw": [0, 1]}
    check_left((), Budget(epsilon=1.0, delta=8.1e-6), **wanted)
    with pytest.raises(BudgetExceeded, match="would make it inf"):
        check_left((), Budget(epsilon=1.0, delta=7.9e-6), **wanted)


def test_what_was_overspent_already_can_still_be_read() -> None:
    charges = earlier(LaplaceNoise(epsilon=2.0, num_classes=10))
    check_left(charges, Budget(epsilon=1.0), trainer__epsilon=2)


def test_labels_that_nobody_asked_about_have_paid_nothing() -> None:
    vault = LabelVault(labels=np.arange(40) % 10, num_classes=10)
    mechanism = RandomizedResponse(epsilon=1.0, num_classes=10)
    vault.release(mechanism, indices=np.arange(20))
    vault.release(mechanism, indices=np.arange(20, 40))
    check_left(vault.charges(), Budget(epsilon=1.5), trainer__epsilon=0.5)


def test_the_command_line_tightens_a_sweeps_budget_and_never_loosens_it() -> None:
    stated = Budget(epsilon=2.0, delta=1e-7)
    assert budget_of(None, None, delta=1e-5) is None
    assert budget_of(stated, None, delta=1e-5) == stated
    assert budget_of(None, 3.0, delta=1e-5) == Budget(epsilon=3.0, delta=1e-5)
    assert budget_of(stated, 9.0, delta=1e-5) == stated
    assert budget_of(stated, 1.0, delta=1e-5) == Budget(epsilon=1.0, delta=1e-7)
    for bad in (math.nan, 0.0, -1.0):
        with pytest.raises(ValueError, match="epsilon"):
            budget_of(stated, bad, delta=1e-5)

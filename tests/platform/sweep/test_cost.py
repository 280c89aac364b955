"""cost: what a sweep costs before it starts, against sums by hand, and the budget."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.ledger import Budget, BudgetExceeded, epsilon_of_prices
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.release_store import describe
from labeldp.mechanisms.vault import Charge, LabelVault, Mechanism
from labeldp.platform.settings.configuration import ConfigurationError, TrialConfig, with_changes
from labeldp.platform.settings.sweep import PlannedTrial, plan_trials
from labeldp.platform.sweep.cost import (
    SweepCost,
    check_budget,
    check_what_is_left,
    cost_of,
    held_out_mechanism,
)
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.settings.trainer import PlannedCharge
from tests.platform.sweep.examples import a_sweep


def trials_of(**overrides: object) -> list[PlannedTrial]:
    """One line of trials with these settings, `a__b` for `a.b`."""
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    base = with_changes(TrialConfig(), {"method": named.get("method", "alibi")})
    return plan_trials(a_sweep(base=base, variants=()), named)


def cost(**overrides: object) -> SweepCost:
    return cost_of(trials_of(**overrides), num_classes=10)


@pytest.mark.parametrize(
    ("settings", "epsilons", "releases", "total"),
    [
        # One release for any learning rate and weight decay.
        (
            {
                "trainer__epsilon": 1.5,
                "trainer__learning_rate": [0.01, 0.1],
                "trainer__weight_decay": [0.0, 1e-3, 1e-2],
            },
            [1.5] * 6,
            1,
            1.5,
        ),
        ({"trainer__epsilon": [0.5, 1, 2], "seed": [0, 1]}, [0.5, 0.5, 1, 1, 2, 2], 3, 3.5),
        ({"trainer__noise": "randomized_response", "noise__draw": [0, 1, 2]}, [1] * 3, 3, 3.0),
        ({"trainer__noise": "none"}, [math.inf], 1, math.inf),
        # What a release builds on is paid too.
        ({"method": "alibi_prior", "trainer__epsilon": 2.0}, [2.0], 2, 2.0),
        # Every stage is a release, and a label is in one.
        ({"method": "lp_mst", "trainer__epsilon": 2.0, "trainer__stages": 3}, [2.0], 3, 2.0),
    ],
)
def test_releases_are_counted_and_their_epsilons_added(
    settings: dict[str, Any], epsilons: list[float], releases: int, total: float
) -> None:
    found = cost(**settings)
    assert sorted(found.epsilons) == pytest.approx(epsilons)
    assert (found.releases, found.delta) == (releases, 0.0)
    assert found.epsilon_total == pytest.approx(total)


AGIBI: dict[str, Any] = {
    "trainer__noise": "gaussian",
    "trainer__epsilon": 1.0,
    "trainer__delta": 1e-5,
}


@pytest.mark.parametrize("failing", [4e-6, 8e-6, 2e-5])
def test_a_trial_is_priced_at_its_own_delta(
    failing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GaussianNoise, "failure_probability", failing)
    found = cost(**AGIBI)
    noise_std = calibrate_gaussian(epsilon=1.0, delta=1e-5)
    vault = LabelVault(labels=np.arange(40) % 10, num_classes=10)
    vault.release(GaussianNoise(noise_std=noise_std, num_classes=10))
    assert found.delta == max(1e-5, 2 * failing)
    assert found.epsilons == pytest.approx((vault.epsilon(delta=found.delta),), rel=1e-9)


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
    (trial,) = trials_of(**AGIBI)
    vault = LabelVault(labels=np.arange(40) % 10, num_classes=10, budget=budget)
    for ask in (
        lambda: check_budget(cost(**AGIBI), budget),
        lambda: check_left([trial], [], budget),
        lambda: vault.release(trial.config.trainer.mechanism(10)),
    ):
        with nullcontext() if granted else pytest.raises(BudgetExceeded, match=" 0 is spent"):
            ask()


def test_failure_probabilities_take_a_budgets_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    paid = PlannedCharge(event=PureEvent(epsilon=1.0), failure_probability=1e-6, release="r")
    planned = SweepCost(
        epsilons=(1.0,), releases=1, epsilon_total=1.0, delta=2e-6, trials=1, trained=[paid]
    )
    check_budget(planned, Budget(epsilon=1.0, delta=1e-6))
    with pytest.raises(BudgetExceeded, match="would make it inf"):
        check_budget(planned, Budget(epsilon=1.0, delta=0.9e-6))
    # Of earlier starts
    pure = PureEvent(epsilon=1.0)
    line = Charge(key="r", event=pure, indices=None, mechanism={}, failure_probability=4e-6)
    half = trials_of(trainer__epsilon=0.5)
    check_left(half, [line] * 2, Budget(epsilon=2.5, delta=1.6e-5))
    with pytest.raises(BudgetExceeded, match=r"2 is spent and this would make it 2\.5"):
        check_left(half, [line] * 2, Budget(epsilon=2.4, delta=1.6e-5))
    # and of trials that are left.
    monkeypatch.setattr(LaplaceNoise, "failure_probability", 4e-6)
    twice = trials_of(trainer__epsilon=0.5, noise__draw=[0, 1])
    check_left(twice, (), Budget(epsilon=1.0, delta=8.1e-6))
    with pytest.raises(BudgetExceeded, match="would make it inf"):
        check_left(twice, (), Budget(epsilon=1.0, delta=7.9e-6))


def check_left(
    trials: Any, charges: Any, budget: Budget | None, held_out: int = 0, read: Any = ()
) -> None:
    size = DataSize(num_classes=10, num_labels=40, held_out=held_out, has_test_split=True)
    check_what_is_left(trials, charges, size, budget=budget, read=read)


def test_spent_epsilon_stays_spent_and_a_stored_release_costs_nothing() -> None:
    charges = held_out_lines(training=[LaplaceNoise(epsilon=1.0, num_classes=10)])
    half, one = trials_of(trainer__epsilon=0.5), trials_of(trainer__epsilon=1)
    check_left(half, charges, None)
    check_left(half, charges, Budget(epsilon=1.5))
    # The release that is there costs nothing more, for any learning rate.
    rates = trials_of(trainer__epsilon=1, trainer__learning_rate=[0.1, 0.2])
    check_left(rates, charges, Budget(epsilon=1.0))
    check_left(one, charges, Budget(epsilon=0.5))  # overspent, and nothing is new
    with pytest.raises(BudgetExceeded, match=r"1 is spent and this would make it 1\.5"):
        check_left([*half, *one], charges, Budget(epsilon=1.4))
    for other in ({"noise__draw": 1}, {"noise__seed": 0}):
        with pytest.raises(BudgetExceeded, match="1 releases that are new"):
            check_left(trials_of(trainer__epsilon=1, **other), charges, Budget(epsilon=1.4))


@pytest.mark.parametrize(
    ("method", "settings", "releases"),
    [
        ("alibi_prior", {}, 2),
        ("alibi_prior", {"trainer__prior__source": "moments", "trainer__noise": "optimal"}, 2),
        ("lp_mst", {"trainer__prior__source": "clusters", "trainer__stages": 2}, 2),
        ("staged_moments", {"trainer__stages": 3}, 3),
        ("pate", {"trainer__sigma1": 100.0, "trainer__sigma2": 40.0}, 2),
        ("pate", {"trainer__aggregator": "interactive"}, 2),
    ],
)
def test_all_releases_of_a_trial_are_counted_before_it_pays_for_the_first(
    method: str, settings: dict[str, Any], releases: int
) -> None:
    (trial,) = trials_of(method=method, **settings)
    planned = trial.config.trainer.planned_charge(num_classes=10, seed=0)
    asked = [each for part in planned.chain() for each in part.mechanisms]
    assert len(asked) == releases
    whole, half = (
        Budget(epsilon=share * epsilon_of_prices(asked, delta=1e-5), delta=1e-5)
        for share in (1 + 1e-9, 0.99)
    )
    earlier = [
        Charge(
            key=str(number),
            event=each.event,
            indices=None,
            mechanism=describe(each, OsEntropy()),
            failure_probability=each.failure_probability,
        )
        for number, each in enumerate(asked)
    ]
    for paid in range(releases):
        check_left([trial], earlier[:paid], whole)
        with pytest.raises(BudgetExceeded, match=f"and {releases - paid} releases that are new"):
            check_left([trial], earlier[:paid], half)
    check_left([trial], earlier, half)  # overspent, and nothing is new


def counted(*epsilons: float, **changes: Any) -> list[PlannedTrial]:
    """Trials by randomized response, each with a count of 1.5."""
    settings = {"trainer__noise": "randomized_response", "evaluation__epsilon": 1.5, **changes}
    return trials_of(trainer__epsilon=list(epsilons), **settings)


@pytest.mark.parametrize("method", ["prior_labels", "pate", "lp_mst"])
def test_releases_that_tell_nothing_of_single_labels_show_no_accuracy(method: str) -> None:
    config = with_changes(TrialConfig(), {"method": method, "evaluation.estimate": "release"})
    with pytest.raises(ConfigurationError, match=r"evaluation\.estimate=count"):
        held_out_mechanism(config, num_classes=3)


def test_a_plan_prices_estimates_apart_from_the_training() -> None:
    without = cost_of(counted(1.0, 2.0), num_classes=3)
    assert (without.releases, without.epsilon_total) == (2, 3.0)
    counts = cost_of(counted(1.0, 2.0), num_classes=3, with_estimates=True)
    assert counts.releases == 4
    assert counts.epsilons == (1.5, 2.0)  # a count of 1.5 is dearer than a training of 1
    assert counts.epsilon_total == 3.0  # two counts of 1.5, or trainings of 1 and 2
    dear = cost_of(counted(1.0, evaluation__epsilon=4.0), num_classes=3, with_estimates=True)
    assert dear.epsilon_total == 4.0
    alike = counted(1.0, 2.0, evaluation__estimate="histogram")  # priced as counts are
    assert cost_of(alike, num_classes=3, with_estimates=True).epsilons == counts.epsilons
    shared = counted(1.0, 2.0, evaluation__estimate="release")
    free = cost_of([*shared, *shared], num_classes=3, with_estimates=True)
    assert (free.releases, free.epsilon_total) == (4, 3.0)


def held_out_lines(*mechanisms: Mechanism, training: Sequence[Mechanism] = ()) -> Sequence[Charge]:
    """Lines of a ledger of 40 labels to train on and 10 that are held out."""
    vault = LabelVault(labels=np.arange(50) % 10, num_classes=10)
    for number, mechanism in enumerate(mechanisms):
        guesses = [np.full(10, number)] if isinstance(mechanism, CorrectCount) else []
        vault.release(mechanism, *guesses, indices=np.arange(40, 50))
    for mechanism in training:
        vault.release(mechanism, indices=np.arange(40))
    return vault.charges()


def test_counts_that_are_still_to_be_requested_are_counted_before_the_start() -> None:
    two, earlier = counted(0.5, 1.0), held_out_lines(*[CorrectCount(epsilon=1.5)] * 2)
    read = [charge.key for charge in earlier]
    for charges, known, total in (
        ([], [], 3.0),
        (earlier, read, 6.0),  # finished trials have read both, and two trials request two more
        (earlier, read[:1], 4.5),  # one is of a trial that ended before its record
    ):
        check_left(two, charges, Budget(epsilon=total), held_out=10, read=known)
        with pytest.raises(BudgetExceeded, match=f"2 trials left.*would make it {total:g};"):
            check_left(two, charges, Budget(epsilon=total - 0.1), held_out=10, read=known)
    check_left([], earlier, Budget(epsilon=0.1), held_out=10, read=read)


def test_held_out_labels_and_training_pay_apart() -> None:
    one = held_out_lines(CorrectCount(epsilon=1.5))
    check_left(counted(1.0), one, Budget(epsilon=1.6), held_out=10)
    with pytest.raises(BudgetExceeded):
        check_left(counted(2.0), one, Budget(epsilon=1.6), held_out=10)
    # A release of held-out labels is not one of the training's, by the same mechanism neither.
    apart = held_out_lines(RandomizedResponse(epsilon=1.0, num_classes=10))
    again = held_out_lines(training=[RandomizedResponse(epsilon=2.0, num_classes=10)])
    budget = Budget(epsilon=2.9)
    with pytest.raises(BudgetExceeded, match="2 releases that are new"):
        check_left(counted(1.0), [*apart, *again], budget, held_out=10, read=[apart[0].key])


def test_one_release_of_held_out_labels_serves_all_trials_that_are_left() -> None:
    own = RandomizedResponse(epsilon=2.0, num_classes=10)
    shared = counted(2.0, trainer__learning_rate=[0.1, 0.2], evaluation__estimate="release")
    check_left(shared, [], Budget(epsilon=2.0), held_out=10)
    with pytest.raises(BudgetExceeded, match="2 releases that are new"):
        check_left(shared, [], Budget(epsilon=1.9), held_out=10)
    check_left(shared, held_out_lines(own, training=[own]), Budget(epsilon=0.1), held_out=10)

"""plan: what a sweep costs before it starts, against sums by hand, and the budget."""

import math

import pytest

from labeldp.mechanisms.accounting import GaussianEvent, PureEvent, epsilon_of, gaussian_epsilon
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.platform.plan import SweepCost, check_budget, cost_of
from labeldp.platform.sweep import plan_trials
from tests.platform.examples import a_sweep


def cost(**overrides: object) -> SweepCost:
    """Cost of one line of trials with these settings, `a__b` for `a.b`."""
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    return cost_of(plan_trials(a_sweep(variants=()), named), num_classes=10)


def test_one_release_for_any_learning_rate_and_weight_decay() -> None:
    found = cost(
        trainer__noise="laplace",
        trainer__epsilon=1.5,
        trainer__learning_rate=[0.01, 0.1],
        trainer__weight_decay=[0.0, 1e-3, 1e-2],
    )
    assert found.epsilons == (1.5,) * 6
    assert (found.releases, found.epsilon_total, found.delta) == (1, 1.5, 0.0)


def test_epsilons_add_over_releases() -> None:
    found = cost(trainer__noise="laplace", trainer__epsilon=[0.5, 1, 2], seed=[0, 1])
    assert sorted(found.epsilons) == [0.5, 0.5, 1, 1, 2, 2]
    assert (found.releases, found.epsilon_total, found.delta) == (3, 3.5, 0.0)


def test_draws_of_the_noise_are_releases_of_their_own() -> None:
    found = cost(trainer__noise="randomized_response", trainer__epsilon=1, noise__draw=[0, 1, 2])
    assert found.releases == 3
    assert found.epsilon_total == pytest.approx(3.0)


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


def test_mixed_releases_are_held_at_a_delta() -> None:
    found = cost(trainer__noise=["laplace", "gaussian"], trainer__epsilon=1)
    noise_std = calibrate_gaussian(epsilon=1.0, delta=1e-5).noise_std
    pure, gaussian = PureEvent(epsilon=1), GaussianEvent(noise_multiplier=noise_std / math.sqrt(2))
    assert found.epsilon_total == pytest.approx(epsilon_of([pure, gaussian], delta=1e-5))
    assert found.releases == 2


def test_a_baseline_has_no_privacy() -> None:
    found = cost_of(plan_trials(a_sweep()), num_classes=10)
    assert found.epsilons == pytest.approx((0.5, 2, 0.5, 2, math.inf))
    assert (found.releases, found.epsilon_total) == (5, math.inf)


def test_a_budget_that_is_met_exactly_is_enough() -> None:
    found = cost(trainer__noise="laplace", trainer__epsilon=[0.1, 0.2, 0.3])
    check_budget(found, Budget(epsilon=0.6))
    check_budget(found, None)
    check_budget(found, Budget(epsilon=math.inf))
    with pytest.raises(BudgetExceeded) as caught:
        check_budget(found, Budget(epsilon=0.59))
    for word in ("3 trials", "3 releases", "epsilon 0.59", "0.6", "raise the budget"):
        assert word in str(caught.value)


def test_a_pure_budget_pays_for_pure_releases_only() -> None:
    gaussian = cost(trainer__noise="gaussian", trainer__epsilon=1)
    with pytest.raises(BudgetExceeded, match=r"at delta 0, .* would make it inf"):
        check_budget(gaussian, Budget(epsilon=100.0))
    check_budget(gaussian, Budget(epsilon=1.1, delta=1e-5))

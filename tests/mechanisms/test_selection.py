"""Selection: exact best-of-k distributions stay within the price; dp-accounting agrees."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import ORDERS, pure_rdp
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.selection import TrialDistribution, selection_price, winner_rdp

GEOMETRIC, LOGARITHMIC, POISSON = TrialDistribution
SOME_ORDERS = ORDERS[::3]


def number_of_trials(distribution: TrialDistribution, mean: float) -> NDArray[np.float64]:
    """Pr[number of trials = 0..20,000] by the distributions' textbook formulas."""
    count = np.arange(1, 20_001)
    match distribution:
        case TrialDistribution.GEOMETRIC:
            positive = (1 - 1 / mean) ** (count - 1) / mean
            none = 0.0
        case TrialDistribution.LOGARITHMIC:
            low, high = 1e-9, 1.0  # gamma by bisection: the mean falls in gamma
            for _ in range(200):
                middle = (low + high) / 2
                too_high = (1 / middle - 1) / -math.log(middle) > mean
                low, high = (middle, high) if too_high else (low, middle)
            positive = (1 - low) ** count / count / -math.log(low)
            none = 0.0
        case TrialDistribution.POISSON:
            positive = np.exp(count * math.log(mean) - mean - np.cumsum(np.log(count)))
            none = math.exp(-mean)
    return np.concatenate([[none], positive])


def winner(single: NDArray[np.float64], trials: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pr[winner = o], where a larger output o scores higher; the last entry is for no winner."""
    below = np.concatenate([[0.0], np.cumsum(single)])
    powers = below[:, None] ** np.arange(len(trials))[None, :]
    generating = powers @ trials
    return np.append(np.diff(generating), trials[0])


@pytest.mark.parametrize("mean_trials", [1.2, 5.0, 60.0])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("distribution", list(TrialDistribution))
def test_the_exact_best_of_k_of_randomized_response_stays_within_the_price(
    distribution: TrialDistribution, epsilon: float, mean_trials: float
) -> None:
    trials = number_of_trials(distribution, mean_trials)
    assert trials.sum() == pytest.approx(1.0, abs=1e-9)
    assert trials @ np.arange(len(trials)) == pytest.approx(mean_trials, rel=1e-6)
    keep = RandomizedResponse(epsilon=epsilon, num_classes=3).keep_probability
    matrix = np.full((3, 3), (1 - keep) / 2) + np.eye(3) * (keep - (1 - keep) / 2)
    worst = 0.0
    for first, second in itertools.permutations(range(3), 2):
        outcomes = slice(None) if trials[0] > 0 else slice(-1)  # no winner: Poisson only
        ratio = winner(matrix[first], trials)[outcomes] / winner(matrix[second], trials)[outcomes]
        worst = max(worst, float(np.log(ratio).max()))
    price = selection_price(epsilon=epsilon, mean_trials=mean_trials, distribution=distribution)
    assert worst <= price + 1e-9
    assert worst > epsilon  # choosing does cost something


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 2.0])
def test_pure_limits(epsilon: float) -> None:
    for mean_trials in (20.0, 1000.0):
        for distribution, factor in (("geometric", 3), ("logarithmic", 2)):
            price = selection_price(
                epsilon=epsilon, mean_trials=mean_trials, distribution=distribution
            )
            assert price == pytest.approx(factor * epsilon)
        price = selection_price(epsilon=epsilon, mean_trials=mean_trials, distribution="poisson")
        assert price == pytest.approx(epsilon + mean_trials * math.tanh(epsilon / 2))
    for distribution in ("geometric", "logarithmic"):
        once = selection_price(epsilon=epsilon, mean_trials=1, distribution=distribution)
        assert once == epsilon


@pytest.mark.parametrize("mean_trials", [1.5, 10.0, 300.0])
@pytest.mark.parametrize(
    "trial",
    [pure_rdp(0.3, SOME_ORDERS), pure_rdp(4.0, SOME_ORDERS), SOME_ORDERS / 4.5],
)
def test_renyi_curves_agree_with_dp_accounting(
    trial: NDArray[np.float64], mean_trials: float
) -> None:
    accountant = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    shapes = {GEOMETRIC: 1.0, LOGARITHMIC: 0.0, POISSON: math.inf}
    for distribution, shape in shapes.items():
        found = winner_rdp(SOME_ORDERS, trial, mean_trials=mean_trials, distribution=distribution)
        expected = accountant._compute_rdp_repeat_and_select(SOME_ORDERS, trial, mean_trials, shape)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_trials_that_are_not_pure_need_a_delta_that_covers_them() -> None:
    """Where the Renyi curve is less than the pure price, the delta that is left decides."""
    terms: dict[str, Any] = {"epsilon": 0.1, "mean_trials": 10, "distribution": "poisson"}
    spent, left, whole = (
        selection_price(**terms, delta=delta, trial_delta=failing)
        for delta, failing in ((0.1, 0.009), (0.01, 0.0), (0.1, 0.0))
    )
    assert spent == pytest.approx(left) and left > 2 * whole

"""label_inference: the bound is met by the best attack on randomized response, and never passed."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.auditing.label_inference import advantage_bound


def channel(*, epsilon: float, candidates: int, shown: float) -> NDArray[np.float64]:
    """Pr[output | label] [m, 2 m] of randomized response that shows some labels for certain."""
    odds = np.where(np.eye(candidates, dtype=bool), math.exp(epsilon), 1.0)
    noisy = odds / odds.sum(axis=1, keepdims=True)
    return np.hstack([(1 - shown) * noisy, shown * np.eye(candidates)])


def best_accuracy(law: NDArray[np.float64]) -> float:
    """Of all attacks, deterministic ones suffice: every one of them is tried, label uniform."""
    candidates, outputs = law.shape
    attacks = itertools.product(range(candidates), repeat=outputs)
    right = [float(law[list(attack), range(outputs)].sum()) for attack in attacks]
    best: float = max(right) / candidates
    return best


@pytest.mark.parametrize("shown", [0.0, 1e-3, 0.2])
@pytest.mark.parametrize("candidates", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_the_best_attack_on_randomized_response_attains_the_bound(
    epsilon: float, candidates: int, shown: float
) -> None:
    law = channel(epsilon=epsilon, candidates=candidates, shown=shown)
    # It is (epsilon, shown)-DP: of any event, at most so much lies above e^epsilon times another's.
    excess = np.maximum(law[:, None] - math.exp(epsilon) * law[None, :], 0).sum(axis=2)
    assert excess.max() == pytest.approx(shown, abs=1e-12)
    bound = advantage_bound(epsilon=epsilon, candidates=candidates, delta=shown)
    assert best_accuracy(law) - 1 / candidates == pytest.approx(bound, rel=1e-12, abs=1e-15)
    pure = advantage_bound(epsilon=epsilon, candidates=candidates)
    assert bound <= pure + shown  # the looser bound that is easier to remember


def test_figures_of_the_bound() -> None:
    assert advantage_bound(epsilon=2.0, candidates=9) == pytest.approx(0.36904, abs=5e-6)
    assert advantage_bound(epsilon=1.0, candidates=2) == pytest.approx(0.23106, abs=5e-6)
    assert advantage_bound(epsilon=0.0, candidates=7) == 0.0
    assert advantage_bound(epsilon=math.inf, candidates=9) == pytest.approx(8 / 9, rel=1e-15)
    assert advantage_bound(epsilon=0.0, candidates=2, delta=0.25) == pytest.approx(0.125)
    assert advantage_bound(epsilon=1.0, candidates=4, delta=1.0) == pytest.approx(0.75)

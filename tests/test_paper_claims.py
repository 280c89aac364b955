"""The small measurements of the papers' claims find what is so by construction."""

import numpy as np
import pytest

from tests.benchmarks.memorization_games import play


@pytest.mark.parametrize("same_canary", [True, False])
def test_a_canary_is_guessed_as_often_as_its_noise_allows(*, same_canary: bool) -> None:
    epsilon = 3.0
    guesses, correct = play(epsilon=epsilon, runs=1000, same_canary=same_canary, seed=0)
    assert guesses > 500
    # Interpolation shows the noisy label, which is one of the two in most runs.
    assert 0.85 < correct / guesses < 1 / (1 + np.exp(-epsilon)) + 0.02


def test_without_a_bit_of_budget_a_canary_is_a_coin() -> None:
    guesses, correct = play(epsilon=1e-3, runs=2000, same_canary=False, seed=0)
    assert abs(correct / guesses - 0.5) < 0.1

"""The harness itself: it must catch leaks of the size that matters, and accept what is private."""

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.randomized_response import RandomizedResponse
from tests.mechanisms.privacy_loss import (
    RUNS,
    assert_private,
    privacy_loss_lower_bound,
)


def randomized_response_runs(epsilon: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    mechanism = RandomizedResponse(epsilon=epsilon, num_classes=4)
    generator = np.random.default_rng(1)
    first, second = (
        mechanism.release(np.full(RUNS, label), generator=generator) for label in (0, 1)
    )
    return first, second


def test_the_bound_is_close_to_the_truth_and_below_it() -> None:
    first, second = randomized_response_runs(1.0)
    bound = privacy_loss_lower_bound(first, second)
    assert 0.97 < bound <= 1.0
    assert privacy_loss_lower_bound(first, second, delta=0.1) < bound


def test_a_mechanism_that_leaks_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"1\.0 is claimed"):
        assert_private(lambda epsilon: randomized_response_runs(1.2 * epsilon), epsilon=1.0)
    with pytest.raises(AssertionError, match="went unnoticed"):
        assert_private(lambda _: randomized_response_runs(0.5), epsilon=1.0)

"""automatic_method: the border is where it is said to be, and every choice has a name and a why."""

import math

import pytest

from labeldp.platform.api.automatic_method import ENOUGH_KEPT, choose, kept
from labeldp.platform.api.method_names import NAMED


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 10, 100])
def test_single_labels_are_asked_for_above_the_border_and_sums_below(classes: int) -> None:
    border = math.log((classes - 1) * ENOUGH_KEPT / (1 - ENOUGH_KEPT))
    assert kept(epsilon=border, num_classes=classes) == pytest.approx(ENOUGH_KEPT)
    above = choose(epsilon=border + 0.01, delta=1e-5, num_classes=classes)
    assert above.name == "alibi_randomized_response"
    assert choose(epsilon=border - 0.01, delta=1e-5, num_classes=classes).name == "moment_labels"
    pure = choose(epsilon=border - 0.01, delta=0.0, num_classes=classes)
    assert pure.name == "alibi_cluster_prior" and "delta is 0" in pure.reason
    assert {above.name, pure.name} <= set(NAMED)


def test_it_agrees_with_the_best_lines_of_the_reproduction() -> None:
    """docs/reproduction.md, ten classes: moment labels up to epsilon 2, ALIBI at 4.

    On CIFAR-10 ALIBI learns more from randomized response than from its own noise.
    """
    chosen = [
        choose(epsilon=epsilon, delta=1e-5, num_classes=10).name
        for epsilon in (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
    ]
    assert chosen == ["moment_labels"] * 5 + ["alibi_randomized_response"]


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="epsilon is 0"):
        choose(epsilon=0, delta=1e-5, num_classes=2)
    with pytest.raises(ValueError, match="num_classes is 1"):
        choose(epsilon=1, delta=1e-5, num_classes=1)

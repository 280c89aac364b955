"""The choice of a threshold: exact privacy on small cases, and coverage under bad distributions."""

import itertools
import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

from labeldp.mechanisms.accuracy_estimate import CoverageChoice
from labeldp.mechanisms.randomness import SecureEntropy

Floats = NDArray[np.float64]


def exact_chances(labels: NDArray[np.int64], choice: CoverageChoice) -> Floats:
    """Of each candidate [J]: the law of the largest of utilities with exponential noise."""
    covered = [int((labels <= j).sum()) for j in range(choice.candidates)]
    wanted = choice.wanted(len(labels))
    far = [
        max(wanted - count, before - wanted, 0)
        for before, count in zip([0, *covered], covered, strict=False)
    ]
    passes = [math.exp(-choice.epsilon * each / 2) for each in far]

    def wins(one: int) -> float:
        # v is the chance that the noise of `one` is passed by noise alone.
        def others(v: float) -> float:
            rivals = [passes[k] / passes[one] for k in range(len(passes)) if k != one]
            return math.prod(max(0.0, 1 - rival * v) for rival in rivals)

        kink = [min(1.0, passes[one] / each) for each in passes]
        return float(quad(others, 0, 1, points=sorted({*kink}), limit=200)[0])

    known = {each: wins(passes.index(each)) for each in {*passes}}
    return np.array([known[each] for each in passes])


def test_no_label_changes_a_chance_by_more_than_epsilon() -> None:
    """Every vector of five labels, and every label changed; the bound is nearly reached."""
    choice, count = CoverageChoice(epsilon=6.0, coverage=0.5, candidates=3), 5
    chances = {
        labels: exact_chances(np.array(labels), choice)
        for labels in itertools.combinations_with_replacement(range(3), count)
    }
    largest = 0.0
    for labels, known in chances.items():
        assert known.sum() == pytest.approx(1, abs=1e-6)
        for place, other in itertools.product(range(count), range(3)):
            neighbor = tuple(sorted((*labels[:place], other, *labels[place + 1 :])))
            largest = max(largest, float(np.log(known / chances[neighbor]).max()))
    assert 3.0 < largest <= 6.0 + 1e-6


@pytest.mark.parametrize("secure", [False, True])
def test_draws_come_as_often_as_they_should(secure: bool) -> None:
    choice = CoverageChoice(epsilon=1.0, coverage=0.5, candidates=4)
    labels, runs = np.arange(24) % 4, 1500
    generator = SecureEntropy().generator("") if secure else np.random.default_rng(3)
    drawn = [int(choice.release(labels, generator=generator)[0]) for _ in range(runs)]
    expected = exact_chances(labels, choice)
    seen = np.bincount(drawn, minlength=4) / runs
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected / runs)).all()


def exact_coverage(labels: NDArray[np.int64], choice: CoverageChoice) -> float:
    """How often one of N + 1 labels, drawn at random, is covered by a choice of the others."""
    held = 0.0
    for value, often in zip(*np.unique(labels, return_counts=True), strict=True):
        others = np.delete(labels, np.flatnonzero(labels == value)[0])
        held += often * exact_chances(others, choice)[value:].sum()
    return held / len(labels)


def trap(wanted: int, *, epsilon: float, count: int, last: int) -> NDArray[np.int64]:
    """Labels that tempt noise most: all candidates miss a few of them but the last two."""
    few, enough = int(wanted - 7 / epsilon), int(wanted + 5 / epsilon)
    return np.repeat([0, last - 1, last], [few, enough - few, count + 1 - enough])


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_further_label_is_covered_often_enough_whatever_the_scores_are(epsilon: float) -> None:
    size: Any = {"epsilon": epsilon, "count": 600, "last": 100}
    choice = CoverageChoice(epsilon=epsilon, coverage=0.9, candidates=101)
    even = np.arange(601) % 8 * 14
    for labels in (trap(choice.wanted(600), **size), even):
        assert exact_coverage(labels, choice) >= 0.9
    plain = math.ceil(0.9 * 601)
    if epsilon == 0.5:
        with patch.object(CoverageChoice, "wanted", lambda *_: plain):  # without a margin
            assert exact_coverage(trap(plain, **size), choice) < 0.9


def test_labels_that_are_too_few_are_refused_before_a_draw() -> None:
    choice = CoverageChoice(epsilon=0.5, coverage=0.9, candidates=101)
    with pytest.raises(ValueError, match=r"60 calibration labels at epsilon 0\.5 are too few"):
        choice.release(np.zeros(60, np.int64), generator=np.random.default_rng(0))
    assert choice.wanted(1000) > CoverageChoice(epsilon=4.0, coverage=0.9, candidates=101).wanted(
        1000
    )

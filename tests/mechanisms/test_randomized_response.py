"""Labels change as rarely as they should, where that is too rare for a 53-bit draw to say."""

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.randomized_response import (
    NoNoise,
    PublishedClasses,
    RandomizedResponse,
    happens,
    wrong_probability,
)
from labeldp.mechanisms.rr_with_prior import RRWithPrior

CELL = 2.0**-53
LABELS = np.array([0, 1, 2])


class Scripted(np.random.Generator):
    """Gives out these uniform numbers, one for each label, and whole numbers like any other."""

    def __init__(self, *draws: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.draws = list(draws)

    def random(self, size: Any = None, *args: Any, **kwargs: Any) -> Any:
        shape = () if size is None else size
        return np.full(shape, self.draws.pop(0))


@pytest.mark.parametrize("epsilon", [36.0, 37.0, 45.0, 60.0, 300.0])
def test_a_label_changes_with_the_probability_of_its_epsilon(epsilon: float) -> None:
    """The largest draw is the only one to change a label; how often is left to the next ones."""
    flip = 2 * math.exp(-epsilon) / (1 + 2 * math.exp(-epsilon))
    mechanism = RandomizedResponse(epsilon=epsilon, num_classes=3)
    assert wrong_probability(epsilon=epsilon, others=2) == pytest.approx(flip, rel=1e-15)
    top, script = 1 - CELL, list[float]()
    rest = flip
    while rest < CELL:
        script.append(top)
        rest /= CELL
    # Now the chance that is left is one that a single draw can decide.
    for last, changed in ((1 - 0.5 * rest, True), (1 - rest - 2 * CELL, False)):
        noisy = mechanism.release(LABELS, generator=Scripted(*script, last, 0.5))
        assert ((noisy != LABELS) == changed).all()


@pytest.mark.parametrize("epsilon", [2e-6, 1.0, 30.0, 36.5, 500.0])
def test_agreement_keeps_its_digits(epsilon: float) -> None:
    with localcontext(prec=60):
        grown = Decimal(epsilon).exp()
        wrong, gain = 1 / (grown + 2), (grown - 1) / (grown + 2)
    found = RandomizedResponse(epsilon=epsilon, num_classes=3).agreement
    assert found[:2] == pytest.approx((float(wrong), float(gain)), rel=1e-14, abs=0)


def test_labels_and_classes_without_noise_are_what_they_are_at_no_bounded_price() -> None:
    plain, generator = NoNoise(num_classes=4), np.random.default_rng()
    labels = torch.tensor([2, 0, 2])
    assert plain.release(labels, generator=generator).tolist() == [2, 0, 2]
    table = np.full((3, 4), -math.inf)
    table[[0, 1, 2], [2, 0, 2]] = 0
    np.testing.assert_array_equal(plain.log_likelihood(labels.numpy()), table)
    classes = PublishedClasses(num_classes=4)
    occur = classes.release(labels.numpy(), generator=generator)
    assert len(occur) == 4 and np.flatnonzero(occur).tolist() == [0, 2]
    assert plain.event.epsilon == classes.event.epsilon == math.inf
    with pytest.raises(ValueError, match=r"labels\[0\] is not one of the classes"):
        plain.release(np.array([7]), generator=generator)
    noisy = RandomizedResponse(epsilon=1.0, num_classes=4).release(labels, generator=generator)
    for each in (plain, RandomizedResponse(epsilon=1.0, num_classes=4)):
        assert all(isinstance(made, torch.Tensor) for made in (noisy, each.log_likelihood(noisy)))
    assert isinstance(plain.release(labels, generator=generator), torch.Tensor)


def test_under_a_prior_as_well() -> None:
    prior = np.full((3, 3), 1 / 3)
    mechanism = RRWithPrior(epsilon=40.0)
    chance = 2 * math.exp(-40.0) / CELL
    for last, changed in ((1 - 0.9 * chance, True), (1 - 1.1 * chance, False)):
        noisy = mechanism.release(LABELS, prior, generator=Scripted(1 - CELL, last))
        assert ((noisy != LABELS) == changed).all()


def test_probabilities_between_two_draws_are_met_exactly() -> None:
    """The share of draws that certainly count, and the rest of the one that is cut in two."""
    for probability in (0.3, CELL, 2.5 * CELL, 1e-10, 1 - CELL):
        cells = math.floor(probability / CELL)
        for above, expected in ((cells, True), (cells + 2, False)):
            if 1 <= above <= 2**53:
                found = happens(np.array([1 - above * CELL]), probability, generator=Scripted())
                assert found[0] == expected
        left = probability / CELL - cells
        if left:
            uniform = np.array([1 - (cells + 1) * CELL])
            for second, expected in ((1 - left, True), (1 - left - CELL, False)):
                found = happens(uniform, probability, generator=Scripted(second, 0.0))
                assert found[0] == expected


def test_seeded_labels_are_those_of_the_plain_comparison() -> None:
    """What was released before draws were looked at so closely, bit for bit."""
    for seed in range(200):
        epsilon, classes = (0.05, 1.0, 4.0, 12.0)[seed % 4], (2, 10, 100)[seed % 3]
        mechanism = RandomizedResponse(epsilon=epsilon, num_classes=classes)
        labels: NDArray[np.int64] = np.random.default_rng(seed).integers(0, classes, size=5000)
        generator = np.random.default_rng([seed, 1])
        shift = generator.integers(1, classes, size=5000)
        keep = generator.random(5000) < mechanism.keep_probability
        expected = np.where(keep, labels, (labels + shift) % classes)
        noisy = mechanism.release(labels, generator=np.random.default_rng([seed, 1]))
        np.testing.assert_array_equal(noisy, expected)

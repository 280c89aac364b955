"""Digits drawn on demand: coins of exact probabilities, comparisons that wait for what differs."""

import math

import numpy as np
import pytest
from scipy import stats

from labeldp.mechanisms.randomness import SecureGenerator
from labeldp.mechanisms.secure_noise import Digits, below, exponential_coins

DRAWS = 200_000
#: Seeds are fixed, so that a test fails always or never; a correct one does once in ten thousand.
LEVEL = 1e-4


def source(seed: int, *, word_bits: int) -> SecureGenerator:
    return SecureGenerator(bits=np.random.default_rng(seed), word_bits=word_bits)


@pytest.mark.parametrize("word_bits", [1, 7, 64])
def test_coins_come_up_as_often_as_the_exponential_says(word_bits: int) -> None:
    generator = source(0, word_bits=word_bits)
    for tossed, probability in (
        (exponential_coins(DRAWS, generator=generator), math.exp(-1)),
        (
            exponential_coins(
                DRAWS, generator=generator, thinned=lambda at: generator.coins(at.size)
            ),
            math.exp(-0.5),
        ),
    ):
        assert stats.binomtest(int(tossed.sum()), DRAWS, probability).pvalue > LEVEL
        assert stats.binomtest(int(tossed.sum()), DRAWS, probability + 0.01).pvalue < LEVEL


@pytest.mark.parametrize("word_bits", [1, 64])
def test_coins_of_a_number_follow_it(word_bits: int) -> None:
    """e^(-x) averages 1 - 1/e over uniform x, and e^(-x/2) in the lower half of them more."""
    generator = source(1, word_bits=word_bits)
    x = Digits(DRAWS, generator=generator)
    every = np.arange(DRAWS)
    tossed = exponential_coins(DRAWS, generator=generator, start=(x, every))
    assert stats.binomtest(int(tossed.sum()), DRAWS, 1 - math.exp(-1)).pvalue > LEVEL
    # Each number knows its own coin: most of those that came up are small.
    value = np.array([float(x.interval(i, 12)[0]) for i in range(0, DRAWS, 20)])
    up = value[tossed[::20]]
    law = stats.rv_histogram((np.exp(-np.linspace(0, 1, 2000)), np.linspace(0, 1, 2001)))
    assert stats.kstest(up, law.cdf).pvalue > LEVEL


def test_numbers_that_are_chosen_keep_their_digits() -> None:
    generator = source(2, word_bits=8)
    one, two = (Digits(50, generator=generator) for _ in range(2))
    one.word(2)
    chosen = np.array([3, 7, 30])
    together = Digits.joined([(one, chosen), (two, chosen)])
    for place in range(3):
        expected = np.concatenate([one.word(place)[chosen], two.word(place)[chosen]])
        np.testing.assert_array_equal(together.word(place), expected)


def test_a_comparison_looks_at_as_many_digits_as_it_needs() -> None:
    generator = source(4, word_bits=1)
    left, right = (Digits(2000, generator=generator) for _ in range(2))
    every = np.arange(2000)
    found = below(left, every, right, every)
    assert len(left._words) > 5
    ends = [(left.interval(i, 64)[0], right.interval(i, 64)[0]) for i in range(2000)]
    assert found.tolist() == [ours < theirs for ours, theirs in ends]

"""Secure noise: exact to the last digit, of the right distribution, on the lattice."""

import math
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from labeldp.mechanisms import additive_noise
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.pate.accounting import CheckNoise
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.randomness import (
    LATTICE,
    Digits,
    RealNoise,
    SecureEntropy,
    SecureGenerator,
    below,
    discrete_laplace,
    exponential,
    floors,
    laplace,
    largest,
    normal,
    on_lattice,
    reaches,
    rounded_sum,
)
from labeldp.mechanisms.vault import LabelVault

DRAWS = 200_000
#: Seeds are fixed, so that a test fails always or never; a correct one does once in ten thousand.
LEVEL = 1e-4
PER_LABEL = [LaplaceNoise(epsilon=1.0, num_classes=3), GaussianNoise(noise_std=1.5, num_classes=3)]


def source(seed: int = 0, *, word_bits: int = 64) -> SecureGenerator:
    return SecureGenerator(bits=np.random.default_rng(seed), word_bits=word_bits)


def lies_on_lattice(values: NDArray[Any]) -> bool:
    return bool((values * LATTICE == np.round(values * LATTICE)).all())


@pytest.mark.parametrize("word_bits", [1, 5, 64])
@pytest.mark.parametrize(
    ("draw", "law"),
    [(normal, stats.norm()), (laplace, stats.laplace()), (exponential, stats.expon())],
)
def test_noise_has_the_distribution_it_is_named_after(draw: Any, law: Any, word_bits: int) -> None:
    """With words of one digit nearly every decision waits for more of them; with 64 none does."""
    size = DRAWS if word_bits == 64 else 8000
    steps = floors(draw(size, generator=source(1, word_bits=word_bits)), scale=1.7 * LATTICE)
    noise = (steps + 0.5) / (1.7 * LATTICE)
    assert stats.kstest(noise, law.cdf).pvalue > LEVEL
    # Sizes by themselves: both halves together hide what is wrong with each of them.
    sizes, at_zero = np.abs(noise), law.cdf(0)
    of_sizes = stats.kstest(sizes, lambda size: (law.cdf(size) - at_zero) / (1 - at_zero))
    assert of_sizes.pvalue > LEVEL
    if size == DRAWS:
        assert stats.kstest(noise * 1.02, law.cdf).pvalue < LEVEL
    far = law.isf(1e-3)  # the tail, where a rejection goes wrong first
    beyond = int((noise > far).sum())
    assert stats.binomtest(beyond, size, 1e-3).pvalue > LEVEL


def test_neighbors_and_both_parts_of_a_number_are_independent() -> None:
    noise = normal(DRAWS, generator=source(2))
    value, _ = noise.nearly()
    assert abs(np.corrcoef(value[1:], value[:-1])[0, 1]) < 4 / math.sqrt(DRAWS)
    tails = exponential(DRAWS, generator=source(3))
    assert abs(np.corrcoef(tails.whole, tails.fraction.first())[0, 1]) < 4 / math.sqrt(DRAWS)
    assert abs(noise.negative.mean() - 0.5) < 2 / math.sqrt(DRAWS)


def exact_values(noise: RealNoise) -> list[Fraction]:
    """The numbers to 70 digits more than any decision here needs."""
    return [sum(noise.interval(i, 70), Fraction(0)) / 2 for i in range(len(noise.whole))]


@pytest.mark.parametrize("draw", [normal, laplace, exponential])
def test_numbers_are_as_near_as_they_say_and_may_be_none(draw: Any) -> None:
    assert draw(0, generator=source()).nearly()[0].size == 0
    for word_bits in (1, 64):
        noise = draw(50, generator=source(7, word_bits=word_bits))
        for i, (value, error) in enumerate(zip(*noise.nearly(), strict=True)):
            low, high = noise.interval(i, 70)
            assert max(abs(Fraction(value) - end) for end in (low, high)) <= Fraction(error)
            assert high - low == Fraction(1, 2 ** (70 * word_bits))
            assert word_bits == 1 or error >= 2.0**-50
    size = draw(50, generator=source(8)).nearly()[0]
    released = on_lattice(draw, source(8), scale=2.5, shape=(50,))
    assert np.abs(released - 2.5 * size).max() <= 0.51 / LATTICE


def test_numbers_are_compared_on_the_digits_that_they_have() -> None:
    left, right = (Digits(400, generator=source(seed, word_bits=1)) for seed in (1, 2))
    order = np.arange(400)
    ends = [(left.interval(i, 60), right.interval(399 - i, 60)) for i in range(400)]
    assert below(left, order, right, order[::-1]).tolist() == [
        ours < theirs for ours, theirs in ends
    ]


def test_decisions_are_those_of_the_real_numbers() -> None:
    """Words of one digit leave everything to be decided later, on more digits: by the oracle."""
    for seed in range(5):
        noise = laplace(120, generator=source(seed, word_bits=1))
        scale = 3.3
        found = floors(noise, scale=scale, offset=Fraction(1, 2))
        counts = np.random.default_rng(seed).integers(0, 6, size=(30, 4))
        labels = largest(counts, noise, scale=scale)
        reached = reaches(counts.ravel().astype(float), noise, scale=scale, threshold=4.25)
        real = [Fraction(scale) * value for value in exact_values(noise)]
        assert found.tolist() == [math.floor(value + Fraction(1, 2)) for value in real]
        noisy = [int(count) + value for count, value in zip(counts.ravel(), real, strict=True)]
        assert reached.tolist() == [value >= Fraction(4.25) for value in noisy]
        many = np.full(120, 2.0**54)  # beside which the noise is lost in double precision
        reached = reaches(many, noise, scale=scale, threshold=2.0**54)
        assert reached.tolist() == [value >= 0 for value in real]
        rows = [noisy[4 * row : 4 * row + 4] for row in range(30)]
        assert labels.tolist() == [row.index(max(row)) for row in rows]


@pytest.mark.parametrize("whole", [0, 1, 1000])
def test_decisions_near_a_tie_are_those_of_the_real_numbers(whole: int) -> None:
    """Double precision can not tell 2^-60 beside a bound, or a tie of two noisy counts."""
    for seed in range(40):
        noise, scale = laplace(2, generator=source(seed)), 3.3
        first, second = exact_values(noise)
        for beside in (-1, 1):
            offset = whole + Fraction(beside, 2**60) - Fraction(scale) * first
            found = floors(noise, scale=scale, offset=offset)
            assert found[0] == whole - (beside < 0)
            noisy = [whole + Fraction(scale) * value for value in (first, second)]
            near = float(noisy[0])
            for threshold in (near, math.nextafter(near, beside * math.inf), near + beside):
                at_least = reaches(np.full(2, whole), noise, scale=scale, threshold=threshold)
                assert at_least.tolist() == [value >= Fraction(threshold) for value in noisy]
        if second > first:
            scale = float(2 / (second - first))
            counts = np.array([[whole + 2, whole]])
            wins = 2 + Fraction(scale) * first < Fraction(scale) * second
            assert largest(counts, noise, scale=scale).tolist() == [int(wins)]


def test_discrete_laplace_noise_has_its_probabilities() -> None:
    scale = 1.5
    noise = discrete_laplace(source(5), scale=scale, shape=(DRAWS,))
    values = np.arange(-10, 11)
    ratio = math.exp(-1 / scale)
    expected = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values)
    inside = np.abs(noise) <= 10
    counts = np.bincount(noise[inside] + 10, minlength=21)
    rest = DRAWS - int(inside.sum())
    chances = np.append(expected, 1 - expected.sum())
    assert stats.chisquare(np.append(counts, rest), DRAWS * chances).pvalue > LEVEL


@pytest.mark.parametrize("label", [0, 1])
def test_outputs_of_both_labels_lie_on_one_lattice(label: int) -> None:
    """Where floating-point noise gives its label away: outputs near 0 on a finer grid."""
    labels = np.full(3000, label)
    laws: dict[Any, Any] = {
        LaplaceNoise(epsilon=1.0, num_classes=2): stats.laplace(scale=2.0),
        GaussianNoise(noise_std=1.5, num_classes=2): stats.norm(scale=1.5),
    }
    for mechanism, law in laws.items():
        released = mechanism.release(labels, generator=source())
        assert lies_on_lattice(released)
        assert stats.kstest((released - np.eye(2)[label]).ravel(), law.cdf).pvalue > LEVEL
        assert not lies_on_lattice(mechanism.release(labels, generator=np.random.default_rng(1)))


@pytest.mark.parametrize("mechanism", PER_LABEL)
def test_noise_is_drawn_in_parts(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.arange(6000) % 3
    whole = mechanism.release(labels, generator=np.random.default_rng(5))
    monkeypatch.setattr(additive_noise, "_DRAWN_AT_ONCE", 1000)
    parts = mechanism.release(labels, generator=np.random.default_rng(5))
    np.testing.assert_array_equal(parts, whole)
    tracemalloc.start()
    noisy = mechanism.release(labels, generator=source())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lies_on_lattice(noisy) and len(np.unique(noisy - np.eye(3)[labels])) > 17_000
    assert most < 1_200_000  # all at once take three times as much


def test_moments_are_sums_of_whole_steps_and_no_row_grows() -> None:
    rng = np.random.default_rng(7)
    weights = rng.normal(size=(500, 20))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    labels = rng.integers(0, 3, 500)
    mechanism = LabelMoments(noise_std=1e-9, num_classes=3)  # noise below the lattice: none
    moments = mechanism.release(labels, weights, generator=source())
    assert lies_on_lattice(moments)
    np.testing.assert_allclose(moments, weights.T @ np.eye(3)[labels], atol=500 / LATTICE + 2e-3)
    loud = LabelMoments(noise_std=3.0, num_classes=3)
    assert 2.2 < (loud.release(labels, weights, generator=source()) - moments).std() < 3.8
    # One label changed moves the sums by its row, exactly, and that is no longer than sqrt(2).
    other = labels.copy()
    other[17] = (labels[17] + 1) % 3
    steps = (mechanism.release(other, weights, generator=source()) - moments) * LATTICE
    moved = steps.astype(np.int64)
    assert (moved == steps).all() and int((moved**2).sum()) <= 2 * LATTICE**2
    order = rng.permutation(500)  # floating-point sums would depend on it
    again = mechanism.release(labels[order], weights[order], generator=source())
    np.testing.assert_array_equal(again, moments)


VOTES = np.random.default_rng(9).multinomial(60, [0.5, 0.3, 0.2], size=40_000)


@pytest.mark.parametrize(
    "aggregator",
    [
        LNMax(scale=10.0),
        GNMax(noise_std=15.0),
        ConfidentGNMax(threshold=30.0, sigma1=12.0, sigma2=9.0),
        ConfidentGNMax(threshold=30.0, sigma1=12.0, sigma2=9.0, check_noise=CheckNoise.PER_CLASS),
    ],
)
def test_votes_are_answered_as_often_as_with_plain_noise(aggregator: Any) -> None:
    """The distribution is the same, so that all prices hold as they are."""
    secure = aggregator.answer(VOTES, generator=source(10))
    plain = aggregator.answer(VOTES, generator=np.random.default_rng(11))
    table = [np.bincount(labels + 1, minlength=4) for labels in (secure, plain)]
    columns = np.array(table)[:, np.sum(table, axis=0) > 0]
    assert stats.chi2_contingency(columns).pvalue > LEVEL
    louder = {name: 1.5 * x for name, x in vars(aggregator).items() if isinstance(x, float)}
    wider = replace(aggregator, **louder).answer(VOTES, generator=source(12))
    both = np.array([np.bincount(labels + 1, minlength=4) for labels in (wider, plain)])
    assert stats.chi2_contingency(both[:, both.sum(axis=0) > 0]).pvalue < LEVEL


def test_a_published_cost_lies_on_a_public_lattice() -> None:
    value, noise_std = 0.123456789, 0.37
    sums = np.array([rounded_sum(value, noise_std, generator=source(s)) for s in range(400)])
    steps = sums / noise_std * LATTICE
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-4)
    noise = [normal(1, generator=source(s)).nearly()[0][0] for s in range(400)]
    off = (sums - value) / noise_std - noise  # to the nearest multiple, so half a step at most
    assert np.abs(off).max() * LATTICE <= 0.5001
    assert stats.kstest((sums - value) / noise_std, stats.norm.cdf).pvalue > LEVEL


def test_a_mechanism_that_can_not_is_refused_and_nothing_is_charged() -> None:
    class Plain(LaplaceNoise):
        def release(self, labels: Any, *, generator: Any) -> Any:
            from labeldp.mechanisms.randomness import as_numpy_generator

            return as_numpy_generator(generator).laplace(size=(len(labels), 2))

    vault = LabelVault(labels=np.array([0, 1]), num_classes=2)
    with pytest.raises(ValueError, match="draws floating-point noise only"):
        vault.release(Plain(epsilon=1.0, num_classes=2), noise=SecureEntropy())
    assert not vault.charges()

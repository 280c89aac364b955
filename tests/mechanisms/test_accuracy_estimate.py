"""accuracy_estimate: unbiased, with a true error and a true interval; the price of choosing."""

import itertools
import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import quad

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate, CorrectCount, CoverageChoice
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.channels import SubsetSelection
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.randomized_response import BitFlip, NoNoise, RandomizedResponse
from labeldp.mechanisms.randomness import SecureEntropy, SecureGenerator, discrete_laplace

CLASSES, EXAMPLES, RUNS = 10, 600, 1000
#: Accuracy of a classifier that does not change, among all examples there are.
TRUTH = 0.8

RELEASES: dict[str, PerLabel] = {
    "Laplace": LaplaceNoise(epsilon=1.0, num_classes=CLASSES),
    "Gaussian": GaussianNoise(noise_std=2.0, num_classes=CLASSES),
    "randomized response": RandomizedResponse(epsilon=1.0, num_classes=CLASSES),
    "subsets": SubsetSelection(epsilon=1.0, num_classes=CLASSES),
    "flipped bits": BitFlip(epsilon=1.0, num_classes=CLASSES),
    "no noise": NoNoise(num_classes=CLASSES),
}
COUNTS = {f"count at {epsilon}": CorrectCount(epsilon=epsilon) for epsilon in (0.02, 0.1, 1.0)}


def estimated(way: str, generator: np.random.Generator) -> AccuracyEstimate:
    """The estimate for examples that are drawn anew."""
    labels = generator.integers(CLASSES, size=EXAMPLES)
    wrong = (labels + generator.integers(1, CLASSES, size=EXAMPLES)) % CLASSES
    predictions = np.where(generator.random(EXAMPLES) < TRUTH, labels, wrong)
    if way in COUNTS:
        count = COUNTS[way].release(labels, predictions, generator=generator)
        return AccuracyEstimate.from_count(count[0], examples=EXAMPLES, mechanism=COUNTS[way])
    mechanism = RELEASES[way]
    values = mechanism.release(labels, generator=generator)
    return AccuracyEstimate.from_release(values, predictions, mechanism)


@pytest.mark.parametrize("way", [*RELEASES, *COUNTS])
def test_estimates_are_unbiased_and_their_error_and_interval_are_true(way: str) -> None:
    generator = np.random.default_rng(0)
    found = [estimated(way, generator) for _ in range(RUNS)]
    values = np.array([each.accuracy for each in found])
    stated = np.sqrt(np.mean([each.error**2 for each in found]))
    assert abs(values.mean() - TRUTH) < 3.5 * stated / np.sqrt(RUNS)
    # Neither too small nor too large; Laplace noise has heavy tails, and so has its deviation.
    assert values.std() == pytest.approx(stated, rel=0.12)
    intervals = [each.interval() for each in found]
    covered = sum(low <= TRUTH <= high for low, high in intervals)
    assert covered >= 0.93 * RUNS
    for low, high in intervals:
        assert 0 <= low <= high <= 1


@pytest.mark.parametrize("way", [*RELEASES, "count at 0.1", "count at 1.0"])
def test_intervals_hold_for_few_examples(way: str) -> None:
    """The worst of five accuracies; by a normal interval 91 to 94%."""
    generator, runs, examples = np.random.default_rng(4), 3_000, 20
    mechanism = COUNTS.get(way) or RELEASES[way]
    covered = []
    for truth in (0.5, 0.7, 0.8, 0.9, 0.95):
        correct = generator.binomial(examples, truth, size=runs)
        labels = (np.arange(examples) >= correct[:, None]).astype(np.int64)  # 0 where right
        if isinstance(mechanism, CorrectCount):
            counts = correct + generator.laplace(scale=mechanism.scale, size=runs)
            found = [
                AccuracyEstimate.from_count(each, examples=examples, mechanism=mechanism)
                for each in counts.tolist()
            ]
        else:
            values = mechanism.release(labels.ravel(), generator=generator)
            found = [
                AccuracyEstimate.from_release(each, np.zeros(examples, dtype=np.int64), mechanism)
                for each in values.reshape(runs, examples, *values.shape[1:])
            ]
        low, high = np.array([each.interval() for each in found]).T
        covered.append(((low <= truth) & (truth <= high)).mean())
    # Three standard errors of the simulation below 95%.
    assert min(covered) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / runs)


# Counts and choices


def test_a_secure_count_is_that_of_the_sampler() -> None:
    """The sampler's law is tested in test_secure_noise."""
    one, other = (SecureGenerator(bits=np.random.default_rng(8)) for _ in range(2))
    noise = discrete_laplace(one, scale=1 / 0.7, shape=(1,))
    count = CorrectCount(epsilon=0.7).release(np.arange(3), np.ones(3, int), generator=other)
    values = np.arange(-200, 201)
    law = np.exp(-0.7 * np.abs(values))
    std = math.sqrt((values**2) @ law / law.sum())
    assert CorrectCount(epsilon=0.7).noise_std == pytest.approx(std, rel=1e-12)
    assert noise != 0 and count.tolist() == (1 + noise).tolist() and count.dtype == np.int64
    assert CorrectCount(epsilon=0.7).event == PureEvent(epsilon=0.7)
    # Of groups, each has noise of its own.
    noise = discrete_laplace(one, scale=1 / 0.7, shape=(2,))
    groups = np.array([0, 1, 1])
    count = CorrectCount(epsilon=0.7).release(np.arange(3), np.arange(3), groups, generator=other)
    assert count.tolist() == (np.array([1, 2]) + noise).tolist()


def test_an_interval_is_as_wide_as_its_noise_and_the_number_of_choices_ask() -> None:
    """Exact quantiles where one kind of noise is all there is; the chosen one pays for all."""
    normal = AccuracyEstimate(accuracy=0.7, sampling_error=0.01).interval(confidence=0.9, choices=3)
    width = 0.01 * stats.norm.isf(0.1 / 3 / 2)
    assert normal == pytest.approx((0.7 - width, 0.7 + width), rel=1e-12)
    laplace = AccuracyEstimate(accuracy=0.5, sampling_error=0.0, count_scale=0.02)
    width = stats.laplace(scale=0.02).isf(0.025)
    assert laplace.interval() == pytest.approx((0.5 - width, 0.5 + width), rel=1e-12)
    assert AccuracyEstimate(accuracy=0.999, sampling_error=0.1).interval()[1] == 1.0


@pytest.mark.parametrize("right", [0, 3, 9, 20])
def test_a_sampling_error_is_the_wider_side_of_clopper_and_pearson(right: int) -> None:
    """With noise, of the share nearest to a half within two standard deviations."""
    share = right / 20
    interval = stats.binomtest(right, 20).proportion_ci(method="exact")  # to eight digits
    side = max(share - interval.low, interval.high - share)
    exact = AccuracyEstimate.from_mean(share, examples=20, count_scale=0.0)
    assert exact.sampling_error == pytest.approx(side / stats.norm.isf(0.025), rel=1e-7)
    noisy = AccuracyEstimate.from_mean(share, examples=20, count_scale=0.1)
    nearest = float(np.clip(0.5, share - 0.2 * 2**0.5, share + 0.2 * 2**0.5))
    moved = AccuracyEstimate.from_mean(nearest, examples=20, count_scale=0.0)
    assert noisy.sampling_error == pytest.approx(moved.sampling_error, rel=1e-12)
    of_count = AccuracyEstimate.from_count(right, examples=20, mechanism=CorrectCount(epsilon=0.5))
    assert of_count.count_scale == pytest.approx(2 / 20)


def test_an_estimate_from_a_release_has_its_noise_divided_by_its_gain() -> None:
    mechanism = RandomizedResponse(epsilon=1.0, num_classes=4)
    values = np.array([0, 1, 2, 3] * 25)
    found = AccuracyEstimate.from_release(values, np.zeros(100, dtype=np.int64), mechanism)
    agreement = mechanism.agreement
    noise = agreement.noise_std / 10
    shared = AccuracyEstimate.from_mean(0.25, examples=100, count_scale=noise / 2**0.5)
    assert found.accuracy == pytest.approx((0.25 - agreement.wrong) / agreement.gain)
    error = np.hypot(shared.sampling_error, noise) / agreement.gain
    assert found.sampling_error == pytest.approx(error, rel=1e-12)


# Coverage: exact privacy on small cases, and coverage under bad distributions

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

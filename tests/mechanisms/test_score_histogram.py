"""ScoreHistogram: what a label moves; figures agree with scikit-learn's, and intervals hold."""

import itertools
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from labeldp.mechanisms.amounts import LEVELS, ErrorSums, error_estimates
from labeldp.mechanisms.randomness import SecureGenerator, discrete_laplace
from labeldp.mechanisms.score_histogram import (
    ScoreCells,
    ScoreEstimates,
    ScoreHistogram,
    sensitivity,
)

#: So much that a release has no noise.
EXACT = 100.0


def scored(
    size: int, share: float, random: np.random.Generator, stretch: float = 1.0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels [N] and their scores [N]: too sure of themselves where `stretch` is above 1."""
    labels = (random.random(size) < share).astype(np.int64)
    feature = random.normal(size=size) + 1.6 * labels
    return labels, expit(stretch * (logit(share) + 1.6 * feature - 1.28))


def several(
    size: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    labels = random.choice(4, size=size, p=[0.5, 0.3, 0.15, 0.05])
    return labels, softmax(random.normal(size=(size, 4)) + 2 * np.eye(4)[labels], axis=1)


def estimated(
    labels: NDArray[np.int64], scores: NDArray[np.float64], epsilon: float, seed: int = 0
) -> ScoreEstimates:
    cells = ScoreCells.of(scores, epsilon=min(epsilon, 5.0))
    mechanism = ScoreHistogram(epsilon=epsilon)
    counts = mechanism.release(labels, cells.places, generator=np.random.default_rng(seed))
    return ScoreEstimates(cells, counts, epsilon=epsilon)


@given(st.data(), st.integers(2, 5), st.integers(1, 30))
@settings(max_examples=200, deadline=None)
def test_a_substituted_label_changes_counts_by_no_more_than_is_charged(
    data: st.DataObject, classes: int, size: int
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    cells = ScoreCells.of(softmax(9 * random.normal(size=(size, classes)), axis=1), epsilon=1.0)
    assert set(np.unique(cells.places)) - {-1} == set(range(cells.number))
    labels = random.integers(classes, size=size)
    other = labels.copy()
    other[random.integers(size)] = data.draw(st.integers(0, classes - 1))
    counts, changed = (
        ScoreHistogram(epsilon=EXACT).release(each, cells.places, generator=random)
        for each in (labels, other)
    )
    assert np.abs(counts - changed).sum() <= sensitivity(cells.places) == min(classes - 1, 2)
    np.testing.assert_array_equal(counts, cells.exactly(labels))
    # Each label is in one cell; the first of two classes is what is left.
    assert counts.sum() == (len(labels) if classes > 2 else (labels == 1).sum())


@pytest.mark.parametrize("two", [True, False])
def test_without_noise_figures_are_nearly_those_of_the_labels(two: bool) -> None:
    random = np.random.default_rng(1)
    labels, scores = scored(20_000, 0.1, random) if two else several(20_000, random)
    found = estimated(labels, scores, EXACT)
    truth = labels if two else np.eye(4)[labels]
    assert found.figures()["roc_auc"].value == pytest.approx(roc_auc_score(truth, scores), abs=2e-3)
    precision = average_precision_score(truth, scores)
    assert found.figures()["average_precision"].value == pytest.approx(precision, abs=1e-2)
    assert found.figures()["log_loss"].value == pytest.approx(log_loss(labels, scores), abs=5e-3)
    answers = (scores > 0.5) if two else scores.argmax(1)
    assert found.accuracy.accuracy == pytest.approx((answers == labels).mean(), abs=1e-9)
    np.testing.assert_allclose(found.prior, np.bincount(labels) / len(labels), atol=1e-6)
    if two:
        assert (scores >= found.threshold).sum() == labels.sum()


#: Share of positives, held-out labels, epsilon, stretch, runs; `-m benchmark` has all.
CASES = [(0.02, 500, 0.1, 1, 100), (0.02, 5000, 1.0, 1, 100), (0.2, 500, 0.5, 1, 100)]
MEASURED = itertools.product((0.02, 0.2), (500, 5000), (0.1, 0.5, 1.0), (1, 2, 0.5), [1000])


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("share", "held_out", "epsilon", "stretch", "runs"),
    [*CASES, *(pytest.param(*each, marks=pytest.mark.benchmark) for each in MEASURED)],
)
def test_intervals_hold_the_truth_in_93_of_100_runs(
    share: float, held_out: int, epsilon: float, stretch: float, runs: int
) -> None:
    labels, scores = scored(300_000, share, np.random.default_rng(1), stretch)
    truth = {"roc_auc": roc_auc_score(labels, scores), "log_loss": log_loss(labels, scores)}
    random = np.random.default_rng(2)
    held = dict.fromkeys(truth, 0)
    width = dict.fromkeys(truth, 0.0)
    for seed in range(runs):
        own, score = scored(held_out, share, random, stretch)
        found = estimated(own, score, epsilon, seed).figures()
        for name, value in truth.items():
            held[name] += found[name].low <= value <= found[name].high
            width[name] += (found[name].high - found[name].low) / runs
    print(f"\n{share:g}, {held_out}, {epsilon:g}, {stretch:g}: {truth}, {held} of {runs}, {width}")
    assert min(held.values()) >= 0.93 * runs, held


#: Of two classes and of three: value, low, high, noise.
GOLDEN = {
    True: {
        "roc_auc": (0.833, 0.756, 0.904, 0.02575),
        "average_precision": (0.703, 0.481, 0.869, 0.07425),
        "log_loss": (0.552181, 0.406983, 0.697379, 0.0473211),
        "brier_score": (0.186379, 0.139417, 0.23334, 0.0144059),
        "calibration_error": (0.133732, 0.0345958, 0.281071, 0.0237898),
        "lift": (1.91, 0.89, 2.95, 0.2375),
        "positive_share": (0.391667, 0.310233, 0.473100, 0.0237898),
    },
    False: {
        "roc_auc": (0.552333, 0.432403, 0.666606, 0.0352335),
        "average_precision": (0.379667, 0.00910671, 0.528376, 0.0743548),
        "log_loss": (1.10214, 1.00221, 1.20207, 0.0360815),
        "brier_score": (0.66822, 0.605733, 0.730708, 0.0224418),
        "calibration_error": (0.0310585, 0.0, 0.296473, 0.0267172),
        "lift": (1.15, 0.0479644, 2.23967, 0.260787),
    },
}


@pytest.mark.parametrize("two", [True, False])
def test_figures_of_given_counts_are_golden(two: bool) -> None:
    index = np.arange(240)
    at = (index * 77 % 240 + 0.5) / 240
    scores = np.round(at**2.5, 2) if two else softmax(3 * at[:, None] ** [1, 2, 5], 1)
    cells = ScoreCells.of(scores, epsilon=0.8)
    labels = (index * 29 % 240 / 240 < at**1.5) + 0
    labels = labels if two else np.where(labels, 0, 1 + index % 2)
    counts = cells.exactly(labels) + index[: cells.number] * 5 % 7 - 3
    found = ScoreEstimates(cells, counts, epsilon=0.8)
    assert found.noise_std == pytest.approx(1.72149 if two else 3.51207, rel=1e-5)
    figures = found.figures()
    assert list(figures) == list(GOLDEN[two])
    for name, expected in GOLDEN[two].items():
        one = figures[name]
        assert (one.value, one.low, one.high, one.noise) == pytest.approx(expected, rel=1e-5)
        assert one.error == pytest.approx((one.high - one.low) / 4)
        assert replace(one, std=0.5).error == 0.5
    accuracy = found.accuracy
    assert (accuracy.accuracy, accuracy.sampling_error, accuracy.count_scale) == pytest.approx(
        (0.704167, 0.0325572, 0.0168219) if two else (0.401389, 0.0332759, 0.0267172), rel=1e-5
    )
    np.testing.assert_allclose(
        found.prior, [0.608333, 0.391667] if two else [0.401389, 0.305556, 0.293056], atol=1e-6
    )
    assert found.threshold == pytest.approx(0.29 if two else 0.318491, rel=1e-5)


@pytest.mark.parametrize(
    ("most", "top", "share", "auc", "lift"),
    [
        (-1, -1, 0.0, (0.657, 0.0, 1.0, 0.75), (1.82, 0.0, 10.0, 7.5)),
        (0, 40, 1 / 6, (1.0, 0.946, 1.0, 0.056), (10.0, 7.51, 10.0, 1.3925)),
        (60, 60, 1.0, (0.413, 0.41, 0.416, 0.0015), (1.82, 1.66, 1.98, 0.0325)),
    ],
)
def test_figures_of_extreme_counts_stay_in_bounds(
    most: int, top: int, share: float, auc: tuple[float, ...], lift: tuple[float, ...]
) -> None:
    """Fewer than no label, labels at the top alone, and more labels than examples."""
    cells = ScoreCells.of(np.round(((np.arange(240) + 0.5) / 240) ** 2.5, 2), epsilon=0.8)
    found = ScoreEstimates(cells, np.array([most] * 10 + [top]), epsilon=0.8)
    assert found.prior[1] == pytest.approx(share, abs=1e-10) and (found.prior > 0).all()
    figures = found.figures()
    for name, expected in (("roc_auc", auc), ("lift", lift)):
        one = figures[name]
        assert (one.value, one.low, one.high, one.noise) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("size", [14, 1000])
def test_equal_scores_are_alike_in_rows_that_are_sorted_by_label(size: int) -> None:
    labels = np.sort(np.arange(size) % 2)
    found = estimated(labels, np.full(size, 0.5), EXACT).figures()
    assert found["lift"].value == pytest.approx(1.0)
    assert found["calibration_error"].value == pytest.approx(0.0)


def test_figures_are_numbers_whatever_noise_made_of_the_counts() -> None:
    random = np.random.default_rng(4)
    for (size, classes), epsilon in itertools.product([(1, 2), (3, 2), (40, 6)], [0.01, 8.0]):
        scores = np.eye(classes)[random.integers(classes, size=size)]  # as sure as can be, or tied
        found = estimated(random.integers(classes, size=size), scores, epsilon)
        for name, each in found.figures().items():
            assert np.isfinite([each.value, each.low, each.high, each.noise]).all(), name
            assert each.low <= each.high
            # Where the interval is cut at 0, the standard error is not.
            assert each.error >= each.noise or name not in ("log_loss", "brier_score")
        assert found.prior.sum() == pytest.approx(1.0) and np.isfinite(found.threshold)


def test_bins_follow_the_labels_that_are_hard_to_guess() -> None:
    # Of 2,000 sure examples 200 / 2.
    assert ScoreCells.of(np.linspace(0.8, 1.0, 2000), epsilon=0.5).number == 10
    assert ScoreCells.of(np.linspace(0.8, 1.0, 2000), epsilon=2.0).number == 20
    assert ScoreCells.of(np.array([[0.0, 1.0 + 1e-9]]), epsilon=1.0).scores.max() == 1


def test_two_counts_are_charged_wherever_a_label_may_be_in_two_cells() -> None:
    assert sensitivity(np.array([[-1, 1], [-1, 0]])) == 1
    assert sensitivity(np.array([[-1, 0], [0, 1]])) == 2
    assert sensitivity(np.array([[-1, 0, 1]])) == sensitivity(np.array([[1, 2, 0]])) == 2
    generator = np.random.default_rng(0)
    found = ScoreHistogram(epsilon=EXACT).release(
        torch.tensor([1]), torch.tensor([[0, 1]]), generator=generator
    )
    assert isinstance(found, torch.Tensor) and found.tolist() == [0, 1]


# error_sums: intervals that hold, a sensitivity that is reached, a price that is not exceeded.

STEPS = 1 << 20
NAMES = ("mean_squared_error", "mean_absolute_error")


def drawn(
    generator: np.random.Generator, size: int, *, heavy: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Levels, and guesses whose errors are normal or have heavy tails."""
    levels = generator.integers(LEVELS, size=size)
    noise = generator.standard_t(2.1, size=size) / 4 if heavy else generator.normal(size=size)
    return levels, (levels + 0.5) / LEVELS + 0.1 * noise


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(("epsilon", "examples"), [(0.2, 1000), (1.0, 50), (1.0, 1000), (9.0, 200)])
def test_intervals_hold_and_errors_are_true(epsilon: float, examples: int, heavy: bool) -> None:
    generator, runs, width = np.random.default_rng(1), 1500, 250.0
    mechanism = ErrorSums(epsilon=epsilon, largest=0.8)
    levels, guesses = drawn(generator, 500_000, heavy=heavy)
    errors = np.abs(np.clip(guesses, 0, 1) - (levels + 0.5) / LEVELS).clip(0, 0.8) * width
    truth = dict(zip(NAMES, ((errors**2).mean(), errors.mean()), strict=True))
    found = []
    for _ in range(runs):
        sums = mechanism.release(*drawn(generator, examples, heavy=heavy), generator=generator)
        found.append(error_estimates(sums, mechanism, examples=examples, width=width))
    for name in NAMES:
        each = [run[name] for run in found]
        covered = np.mean([one.low <= truth[name] <= one.high for one in each])
        # Three standard errors of the simulation below 95%.
        assert covered >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / runs)
        values = np.array([one.value for one in each])
        assert abs(values.mean() - truth[name]) < 4 * values.std() / np.sqrt(runs)
        stated = np.sqrt(np.mean([one.error**2 for one in each]))
        # It is too large rather than too small, since the variance itself is noisy.
        assert 0.9 * values.std() < stated < 3.5 * values.std()


@pytest.mark.parametrize(
    ("means", "squared", "absolute"),
    [
        ((0.2, 0.06, 0.01), (1.00176, 6.67824, 1.37181), (1.24905, 1.95095, 0.169411)),
        ((-0.01, 0.001, -0.002), (0, 2.66523, 1.24348), (0, 0.234585, 0.149666)),
        ((0.97, 0.95, 0.99), (57.195, 64, 1.77989), (7.38566, 8, 0.181978)),
        ((0.3, 0.35, 0.02), (20.0034, 24.7966, 1.13137), (1.90664, 2.89336, 0.244949)),
        ((0.05, 0.04, 0.03), (0, 5.44106, 1.39485), (0.0404014, 0.759599, 0.174069)),
    ],
)
def test_intervals_of_given_sums_are_golden(
    means: tuple[float, ...], squared: tuple[float, ...], absolute: tuple[float, ...]
) -> None:
    mechanism = ErrorSums(epsilon=0.5, largest=0.8)
    found = error_estimates(np.array(means) * STEPS * 400, mechanism, examples=400, width=10.0)
    for name, power, noise, expected in zip(
        NAMES, (means[1] * 64, means[0] * 8), (1.13137, 0.141421), (squared, absolute), strict=True
    ):
        one = found[name]
        assert (one.value, one.noise) == pytest.approx((power, noise), rel=1e-5)
        assert (one.low, one.high, one.error) == pytest.approx(expected, rel=1e-5)


def exact(level: int, guess: float, largest: float) -> NDArray[np.int64]:
    """Sums of one amount without their noise."""
    mechanism = ErrorSums(epsilon=1.0, largest=largest)
    generator = np.random.default_rng(0)
    with patch("labeldp.mechanisms.amounts.discrete_laplace", return_value=0):
        return mechanism.release(np.array([level]), np.array([guess]), generator=generator)


@pytest.mark.parametrize("largest", [0.1, 0.5, 1.0])
def test_a_substituted_amount_changes_each_sum_by_1_at_most(largest: float) -> None:
    guesses = [-3.0, 0.0, 0.3, 0.5 / LEVELS, 1.0, 7.0]
    sums = np.array(
        [[exact(level, guess, largest) for level in range(LEVELS)] for guess in guesses]
    )
    assert sums.min() >= 0 and sums.max() <= STEPS
    reach = (sums.max(1) - sums.min(1)).max(0)
    assert (reach <= STEPS).all() and reach[0] > 0.98 * STEPS
    scales = ErrorSums(epsilon=2.0, largest=largest).scales
    assert (1 / scales).sum() == pytest.approx(2.0, rel=1e-12)


def test_secure_noise_of_each_sum_is_that_of_the_sampler() -> None:
    one, other = (SecureGenerator(bits=np.random.default_rng(8)) for _ in range(2))
    mechanism = ErrorSums(epsilon=0.7, largest=0.5)
    found = mechanism.release(torch.tensor([3]), torch.tensor([0.3]), generator=other)
    assert isinstance(found, torch.Tensor)
    noise = [discrete_laplace(one, scale=STEPS * s, shape=(1,))[0] for s in mechanism.scales]
    assert (found.numpy() - exact(3, 0.3, 0.5)).tolist() == noise

"""ScoreHistogram: what a label moves; figures agree with scikit-learn's, and intervals hold."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from labeldp.mechanisms.score_histogram import (
    ScoreCells,
    ScoreEstimates,
    ScoreHistogram,
    sensitivity,
)

#: So much that a release has no noise.
EXACT = 100.0


def scored(
    size: int, share: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    labels = (random.random(size) < share).astype(np.int64)
    feature = random.normal(size=size) + 1.6 * labels
    return labels, expit(logit(share) + 1.6 * feature - 1.28)


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


@pytest.mark.parametrize(
    ("share", "held_out", "epsilon"), [(0.02, 500, 0.1), (0.02, 5000, 1.0), (0.2, 500, 0.5)]
)
def test_intervals_hold_the_truth_in_93_of_100_runs(
    share: float, held_out: int, epsilon: float
) -> None:
    """All cases: `tests/benchmarks/test_score_coverage.py`, which finds 94 to 99 of 100."""
    labels, scores = scored(300_000, share, np.random.default_rng(1))
    truth = {"roc_auc": roc_auc_score(labels, scores), "log_loss": log_loss(labels, scores)}
    random, held = np.random.default_rng(2), dict.fromkeys(truth, 0)
    for seed in range(100):
        own, score = scored(held_out, share, random)
        found = estimated(own, score, epsilon, seed).figures()
        for name, value in truth.items():
            held[name] += found[name].low <= value <= found[name].high
    assert min(held.values()) >= 93, held


def test_figures_are_numbers_whatever_noise_made_of_the_counts() -> None:
    random = np.random.default_rng(4)
    for (size, classes), epsilon in itertools.product([(1, 2), (3, 2), (40, 6)], [0.01, 8.0]):
        scores = np.eye(classes)[random.integers(classes, size=size)]  # as sure as can be, or tied
        found = estimated(random.integers(classes, size=size), scores, epsilon)
        for name, each in found.figures().items():
            assert np.isfinite([each.value, each.low, each.high, each.noise]).all(), name
            assert each.low <= each.high
        assert found.prior.sum() == pytest.approx(1.0) and np.isfinite(found.threshold)


@pytest.mark.parametrize(
    ("labels", "places", "message"),
    [
        ([0, 1], [[0, 1]], "1 rows and labels 2"),
        ([0, 1], [[0.0, 1.0], [0.0, 1.0]], "float64"),
        ([0, 1], [[0, 9], [0, 1]], "without gaps"),
        ([0, 1], [[0, -2], [0, 1]], "-1 for what is not counted"),
        ([0, 2], [[0, 1], [0, 1]], r"labels\[1\] is not one of the classes"),
    ],
)
def test_bad_places_are_refused(labels: list[int], places: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScoreHistogram(epsilon=1.0).release(
            np.array(labels), np.array(places), generator=np.random.default_rng()
        )
    with pytest.raises(ValueError, match="scores have shape"):
        ScoreCells.of(np.array([0.1, np.nan]), epsilon=1.0)

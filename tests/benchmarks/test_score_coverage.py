"""Coverage of private estimates of AUC and log loss, and what their intervals cost in width.

Labels of 2% and 20% positives are drawn with scores of a model; a histogram of held-out ones is
released at each epsilon, hundreds of times. The truth is that of a million further examples. Models
that are too sure of themselves, or not sure enough, are as common as right ones, so that all three
are simulated.

    python -m pytest -m benchmark -s tests/benchmarks/test_score_coverage.py
"""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.metrics import log_loss, roc_auc_score

from labeldp.mechanisms.score_histogram import ScoreCells, ScoreEstimates, ScoreHistogram

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

RUNS = 1000
#: A class is found by a feature that is this far apart, in standard deviations.
APART = 1.6


def drawn(
    size: int, share: float, stretch: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels [N] and their scores [N], log odds of which are taken times `stretch`."""
    labels = (random.random(size) < share).astype(np.int64)
    feature = random.normal(size=size) + APART * labels
    return labels, expit(stretch * (logit(share) + APART * feature - APART**2 / 2))


@pytest.mark.parametrize("stretch", [1.0, 2.0, 0.5])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_intervals_hold_the_truth_in_93_of_100_runs(share: float, stretch: float) -> None:
    labels, scores = drawn(1_000_000, share, stretch, np.random.default_rng(1))
    truth = {"roc_auc": roc_auc_score(labels, scores), "log_loss": log_loss(labels, scores)}
    random, missed = np.random.default_rng(2), []
    for held_out, epsilon in itertools.product((500, 5000), (0.1, 0.5, 1.0)):
        held: dict[str, list[bool]] = {name: [] for name in truth}
        widths: dict[str, list[float]] = {name: [] for name in truth}
        for _ in range(RUNS):
            own, score = drawn(held_out, share, stretch, random)
            cells = ScoreCells.of(score, epsilon=epsilon)
            counts = ScoreHistogram(epsilon=epsilon).release(own, cells.places, generator=random)
            found = ScoreEstimates(cells, counts, epsilon=epsilon).figures()
            for name, value in truth.items():
                held[name].append(found[name].low <= value <= found[name].high)
                widths[name].append(found[name].high - found[name].low)
        for name, value in truth.items():
            covered, width = 100 * np.mean(held[name]), np.mean(widths[name])
            print(
                f"{100 * share:g}% positives, log odds x {stretch:g}, {held_out} held out, epsilon "
                f"{epsilon:g}: {name} {value:.3f}, covered {covered:.1f}%, mean width {width:.3f}"
            )
            missed += [(name, held_out, epsilon, covered)] * bool(covered < 93)
    assert not missed

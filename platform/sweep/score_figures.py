"""Figures of a model's scores, for when accuracy means little: on test labels, and estimated.

On public test labels scikit-learn measures. On held-out labels a charged histogram is read; its
shares of the classes are the prior, too. More than two classes are each held against the rest, and
averaged.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from labeldp.mechanisms.error_sums import ErrorSums, error_estimates
from labeldp.mechanisms.score_histogram import (
    TOP_SHARE,
    Estimated,
    ScoreCells,
    ScoreEstimates,
)
from labeldp.platform.sweep.accuracy_figures import figures_of

#: Rows of a reliability figure: mean score, share of labels, number of examples.
Reliability = list[list[float]]


def test_figures(
    scores: NDArray[Any], labels: NDArray[np.int64]
) -> tuple[dict[str, float], Reliability]:
    """Measure scores [M, K] on public labels [M], at least one."""
    cells = ScoreCells.of(scores, epsilon=0.0)  # as few bins as there may be
    scores, classes = cells.scores, range(cells.scores.shape[1])
    truth = labels[:, None] == np.arange(len(classes))
    found = _shares(truth.mean(axis=0), "")
    # Of a class without a label, or without another's, there is nothing to rank.
    counted = [each for each in cells.classes if 0 < truth[:, each].sum() < len(labels)]
    pairs = [(truth[:, each], scores[:, each]) for each in counted]
    if pairs:
        most = max(1, round(TOP_SHARE * len(labels)))
        top = [own[np.argsort(score, kind="stable")[-most:]].mean() for own, score in pairs]
        found |= {
            "roc_auc": float(np.mean([roc_auc_score(*pair) for pair in pairs])),
            "average_precision": float(np.mean([average_precision_score(*pair) for pair in pairs])),
            "lift": float(
                np.mean([x / own.mean() for x, (own, _) in zip(top, pairs, strict=True)])
            ),
        }
    squares = ((scores - truth) ** 2).sum(axis=1).mean()
    counts = cells.exactly(labels)
    sums, _ = cells.expected
    found |= {
        "log_loss": float(log_loss(labels, scores / scores.sum(1, keepdims=True), labels=classes)),
        "brier_score": float(squares) / (2 if len(classes) == 2 else 1),
        "calibration_error": float(np.abs(sums - counts).sum()) / len(labels) / len(cells.classes),
    }
    return found, cells.reliability(counts)


def error_figures(
    found: NDArray[np.float64], amounts: NDArray[np.float64], *, bounds: tuple[float, float]
) -> dict[str, float]:
    """Measure predicted amounts [M] on public ones [M]; the relative error is of their sums."""
    errors, low, high = np.abs(found - amounts), *bounds
    total = float(np.abs(amounts).sum())
    figures = {
        "mean_squared_error": float(np.mean(errors**2)),
        "mean_absolute_error": float(np.mean(errors)),
        "share_beyond_bounds": float(np.mean((amounts < low) | (amounts > high))),
    }
    return figures | ({"relative_error": float(errors.sum()) / total} if total else {})


def estimated_errors(
    sums: NDArray[Any], mechanism: ErrorSums, *, examples: int, bounds: tuple[float, float]
) -> dict[str, float]:
    """Read errors of amounts off sums that were released of held-out ones."""
    width = bounds[1] - bounds[0]
    return _parts(error_estimates(sums, mechanism, examples=examples, width=width))


def estimated_figures(
    cells: ScoreCells, counts: NDArray[Any], *, epsilon: float
) -> tuple[dict[str, float], Reliability]:
    """Read figures off counts that were released of held-out labels."""
    estimates = ScoreEstimates(cells, counts, epsilon=epsilon)
    found = {**figures_of(estimates.accuracy), **_shares(estimates.prior, "_estimated")}
    if len(estimates.prior) == 2:
        found["threshold_estimated"] = estimates.threshold
    return found | _parts(estimates.figures()), cells.reliability(counts)


def _parts(figures: Mapping[str, Estimated]) -> dict[str, float]:
    return {
        f"{name}_estimated{'' if part == 'value' else f'_{part}'}": getattr(each, part)
        for name, each in figures.items()
        for part in ("value", "error", "low", "high", "noise")
    }


def _shares(shares: Sequence[float] | NDArray[np.float64], end: str) -> dict[str, float]:
    return {
        f"majority_share{end}": float(np.max(shares)),
        f"minority_share{end}": float(np.min(shares)),
    }

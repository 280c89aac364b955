"""Accuracy among a trial's figures: measured on a public test split, estimated on held-out labels.

>>> figures = figures_of(AccuracyEstimate(accuracy=0.8, sampling_error=0.01))
>>> figures["accuracy_estimated"], figures["accuracy_estimated_error"]
(0.8, 0.01)
>>> accuracy_text(figures)
'about 80.0% +- 1.0 (estimated)'
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate

_ESTIMATED = "accuracy_estimated"


class ChooseBy(StrEnum):
    """Which accuracy trials are compared by.

    TEST is that on the public test split; who picks by it tunes on those labels. ESTIMATED is that
    on held-out labels, which is paid for, and leaves a test split to the very end.
    """

    TEST = "test"
    ESTIMATED = "estimated"

    @property
    def metric(self) -> str:
        """What tracking calls it."""
        return "accuracy" if self is ChooseBy.TEST else _ESTIMATED


def resolve(
    asked: ChooseBy | None, *, has_test_split: bool, has_held_out: bool, learns: bool = False
) -> ChooseBy:
    """Return what trials are compared by: what was asked, or TEST where that is possible.

    Args:
        asked: By the user or the sweep, if they did.
        has_test_split: Whether test labels are public.
        has_held_out: Whether labels are held out of training.
        learns: Whether the sweep decides by it what to run: that tunes on the labels it looks at,
            so that test labels are looked at only where somebody asks.

    Raises:
        ValueError: There is nothing to compare by as asked.
    """
    if asked is None and learns:
        if has_held_out:
            return ChooseBy.ESTIMATED
        raise ValueError(
            "a search, and stopping trials early, learn from the accuracy that they look at, and "
            "no labels are held out to look at: set evaluation.held_out_share=0.1 (each trial asks "
            "for a count of right answers, charged to those labels alone), or tune on the public "
            "test labels (--choose-by test)"
        )
    if asked is ChooseBy.TEST and not has_test_split:
        raise ValueError(
            "trials can't be chosen by test accuracy: these data have no public test split; choose "
            "by estimated accuracy (--choose-by estimated)"
        )
    if asked is ChooseBy.ESTIMATED and not has_held_out:
        raise ValueError(
            "trials can't be chosen by estimated accuracy: no labels are held out; set "
            "evaluation.held_out_share=0.1, or choose by test accuracy (--choose-by test)"
        )
    if asked is not None:
        return asked
    return ChooseBy.TEST if has_test_split else ChooseBy.ESTIMATED


def chosen_by(figures: Iterable[Mapping[str, float]], asked: ChooseBy | None = None) -> ChooseBy:
    """Return what these finished trials [T] can all be compared by, `asked` if it is given.

    Raises:
        ValueError: Some of them lack it.
    """
    every = list(figures)
    return resolve(
        asked,
        has_test_split=all("accuracy" in each for each in every),
        has_held_out=all(_ESTIMATED in each for each in every),
    )


def figures_of(found: AccuracyEstimate | None) -> dict[str, float]:
    """Return an estimate as figures of a trial: itself, its standard error, its 95% interval."""
    if found is None:
        return {}
    low, high = found.interval()
    return {
        _ESTIMATED: found.accuracy,
        f"{_ESTIMATED}_error": found.error,
        f"{_ESTIMATED}_low": low,
        f"{_ESTIMATED}_high": high,
        f"{_ESTIMATED}_sampling_error": found.sampling_error,
        f"{_ESTIMATED}_count_scale": found.count_scale,
    }


def estimate_of(figures: Mapping[str, float]) -> AccuracyEstimate | None:
    """Return the estimate that a trial's figures hold, if there is one."""
    if _ESTIMATED not in figures:
        return None
    return AccuracyEstimate(
        accuracy=figures[_ESTIMATED],
        sampling_error=figures[f"{_ESTIMATED}_sampling_error"],
        count_scale=figures[f"{_ESTIMATED}_count_scale"],
    )


def majority_figures(
    test_labels: NDArray[np.integer[Any]], probabilities: NDArray[np.floating[Any]] | None
) -> dict[str, float]:
    """Return the share of the largest class, from public labels or from what a model says.

    The share among the secret labels is private itself. So it is that of a public test split; where
    there is none, the mean probability that the trained model gives its likeliest class, which is
    made of releases that are paid for and of public features.

    Args:
        test_labels: Public ones [M]; none where there is no test split.
        probabilities: A model's, of examples without public labels [H, K].
    """
    if len(test_labels):
        return {"majority_share": float(np.bincount(test_labels).max() / len(test_labels))}
    if probabilities is None or not len(probabilities):
        return {}
    return {"majority_share_by_model": float(np.mean(probabilities, axis=0).max())}


def majority_text(figures: Mapping[str, float]) -> str:
    """Say that an accuracy is no better than always answering the largest class, or nearly so.

    Empty where it is better: by more than a point, and by more than twice its standard error.

    >>> majority_text({"accuracy": 0.728, "majority_share": 0.771})
    'no better than always answering the largest class (77.1% of the public test split)'
    >>> majority_text({"accuracy": 0.9, "majority_share": 0.771})
    ''
    """
    found = estimate_of(figures)
    for name, where in (
        ("majority_share", "of the public test split"),
        ("majority_share_by_model", "by the model's own probabilities"),
    ):
        accuracy = figures.get("accuracy", None if found is None else found.accuracy)
        if name not in figures or accuracy is None:
            continue
        error = 0.0 if found is None or "accuracy" in figures else found.error
        if accuracy <= figures[name] + max(0.01, 2 * error):
            return (
                "no better than always answering the largest class "
                f"({100 * figures[name]:.1f}% {where})"
            )
    return ""


def accuracy_text(figures: Mapping[str, float]) -> str:
    """Return a trial's accuracies for a line of text."""
    parts = []
    if "accuracy" in figures:
        parts.append(f"{100 * figures['accuracy']:.1f}%")
    found = estimate_of(figures)
    if found is not None:
        about = f"{estimated_text(found.accuracy)} +- {100 * found.error:.1f}"
        parts.append(f"{about} (estimated)")
    return ", ".join(parts)


def estimated_text(accuracy: float) -> str:
    """Return an estimated accuracy in words; noise may have taken it out of 0 to 100%.

    It stays as it is in records and tables: cut off, estimates would be biased.

    >>> estimated_text(0.81), estimated_text(1.06)
    ('about 81.0%', 'about 100% (106.0% with its noise)')
    """
    nearest = min(1.0, max(0.0, accuracy))
    if nearest == accuracy:
        return f"about {100 * accuracy:.1f}%"
    return f"about {100 * nearest:.0f}% ({100 * accuracy:.1f}% with its noise)"


def beyond_text(accuracy: float) -> str:
    """Return what to say beside an estimate that no accuracy can be; empty for one that may be."""
    if 0 <= accuracy <= 1:
        return ""
    return f"its noise took it {'above 100%' if accuracy > 1 else 'below 0%'}"

"""accuracy_figures: what trials are compared by, and estimates as figures and back."""

import numpy as np
import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.sweep.accuracy_figures import (
    ChooseBy,
    accuracy_text,
    beyond_text,
    chosen_by,
    estimate_of,
    estimated_text,
    figures_of,
    majority_figures,
    majority_text,
    resolve,
)

ESTIMATE = AccuracyEstimate(accuracy=0.81, sampling_error=0.012, count_scale=0.004)


def test_an_estimate_survives_as_figures() -> None:
    figures = figures_of(ESTIMATE)
    assert estimate_of(figures) == ESTIMATE
    assert figures["accuracy_estimated_error"] == ESTIMATE.error
    low, high = ESTIMATE.interval()
    assert (figures["accuracy_estimated_low"], figures["accuracy_estimated_high"]) == (low, high)
    assert figures_of(None) == {} and estimate_of({"accuracy": 0.9}) is None


def test_what_is_not_asked_is_the_test_split_where_there_is_one() -> None:
    both = {"accuracy": 0.8, **figures_of(ESTIMATE)}
    assert chosen_by([both, both]) is ChooseBy.TEST
    assert chosen_by([both, figures_of(ESTIMATE)]) is ChooseBy.ESTIMATED
    assert chosen_by([both], ChooseBy.ESTIMATED) is ChooseBy.ESTIMATED
    assert chosen_by([]) is ChooseBy.TEST


def test_what_is_not_there_is_not_compared_by() -> None:
    with pytest.raises(ValueError, match=r"no public test split; .*--choose-by estimated"):
        resolve(ChooseBy.TEST, has_test_split=False, has_held_out=True)
    with pytest.raises(ValueError, match=r"evaluation\.held_out_share=0\.1"):
        resolve(ChooseBy.ESTIMATED, has_test_split=True, has_held_out=False)


def test_accuracies_in_words() -> None:
    assert accuracy_text({"accuracy": 0.9}) == "90.0%"
    assert accuracy_text(figures_of(ESTIMATE)) == "about 81.0% +- 1.3 (estimated)"
    both = {"accuracy": 0.9, **figures_of(ESTIMATE)}
    assert accuracy_text(both) == "90.0%, about 81.0% +- 1.3 (estimated)"


def test_an_estimate_that_no_accuracy_can_be_is_shown_with_a_word() -> None:
    above = AccuracyEstimate(accuracy=1.06, sampling_error=0.01, count_scale=0.2)
    said = accuracy_text(figures_of(above))
    assert said == "about 100% (106.0% with its noise) +- 28.3 (estimated)"
    assert estimated_text(-0.03) == "about 0% (-3.0% with its noise)"
    assert estimated_text(1.0) == "about 100.0%" and beyond_text(1.0) == beyond_text(0.0) == ""
    assert "above 100%" in beyond_text(1.01) and "below 0%" in beyond_text(-0.01)


def test_an_accuracy_near_the_share_of_the_largest_class_says_so() -> None:
    labels = np.repeat([0, 1], [771, 229])
    public = majority_figures(labels, None)
    assert public == {"majority_share": 0.771}
    for accuracy, said in ((0.728, True), (0.78, True), (0.79, False)):
        assert bool(majority_text({**public, "accuracy": accuracy})) is said
    # Without public labels the model's own probabilities say it: releases and public features.
    probabilities = np.tile([0.8, 0.2], (50, 1))
    own = majority_figures(labels[:0], probabilities)
    assert own == pytest.approx({"majority_share_by_model": 0.8})
    for accuracy, said in ((0.728, True), (0.83, True), (0.85, False)):
        figures = figures_of(AccuracyEstimate(accuracy=accuracy, sampling_error=0.02))
        assert bool(majority_text({**own, **figures})) is said
    assert "by the model's own probabilities" in majority_text(
        {**own, **figures_of(AccuracyEstimate(accuracy=0.7, sampling_error=0.02))}
    )
    assert majority_figures(labels[:0], None) == {} and majority_text({"accuracy": 0.1}) == ""

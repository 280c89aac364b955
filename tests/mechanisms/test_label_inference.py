"""label_inference: the bound is met by the best attack on randomized response, and never passed."""

import math

import numpy as np
import pytest

from labeldp.mechanisms.label_inference import advantage_bound, label_inference


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_bound_is_tight_for_binary_randomized_response(epsilon: float) -> None:
    # uniform binary labels: the best attack repeats the output, the best blind guess is a coin
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert 2 * (keep - 0.5) == pytest.approx(advantage_bound(epsilon=epsilon), rel=1e-12)
    assert advantage_bound(epsilon=epsilon) == pytest.approx(1 - 2 / (1 + math.exp(epsilon)))


def test_no_attack_on_randomized_response_passes_the_bound() -> None:
    generator = np.random.default_rng(0)
    for epsilon in (0.2, 1.0, 2.5):
        for classes in (2, 3, 10):
            keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
            channel = np.full((classes, classes), (1 - keep) / (classes - 1))
            np.fill_diagonal(channel, keep)
            for _ in range(20):
                prior = generator.dirichlet(np.ones(classes))
                best = (prior[:, None] * channel).max(axis=0).sum()  # Bayes' attack on the output
                assert best - prior.max() <= advantage_bound(epsilon=epsilon) + 1e-12


def test_extremes_of_the_bound() -> None:
    assert advantage_bound(epsilon=0.0) == 0.0
    assert advantage_bound(epsilon=math.inf) == 1.0
    assert advantage_bound(epsilon=0.0, delta=0.25) == pytest.approx(0.25)
    assert advantage_bound(epsilon=1.0, delta=1.0) == pytest.approx(1.0)


def test_measured_advantage_of_randomized_response() -> None:
    generator = np.random.default_rng(1)
    labels = generator.integers(10, size=50_000)
    keep = math.exp(2.0) / (math.exp(2.0) + 9)
    shown = np.where(
        generator.random(labels.size) < keep,
        labels,
        (labels + generator.integers(1, 10, size=labels.size)) % 10,
    )
    found = label_inference(shown, generator.integers(10, size=labels.size), labels)
    assert found.accuracy == pytest.approx(keep, abs=4 * 0.0023)
    assert abs(found.advantage - (keep - 0.1)) < 4 * found.standard_error
    assert found.standard_error < 0.01
    assert found.advantage == pytest.approx(found.accuracy - found.baseline_accuracy)


def test_learning_is_no_leak() -> None:
    """Guesses that a label-independent predictor makes too have no advantage at all."""
    labels = np.arange(100) % 4
    guesses = np.where(np.arange(100) < 90, labels, 0)
    found = label_inference(guesses, guesses, labels)
    assert (found.advantage, found.standard_error) == (0.0, 0.0)
    assert found.accuracy > 0.9


def test_bad_input_is_refused() -> None:
    three = np.zeros(3, int)
    with pytest.raises(ValueError, match="labels has 2 entries, guesses 3"):
        label_inference(three, three, three[:2])
    with pytest.raises(ValueError, match="guesses is of type float64"):
        label_inference(three * 1.0, three, three)
    with pytest.raises(ValueError, match=r"baseline\[0\] is -1"):
        label_inference(three, three - 1, three)
    with pytest.raises(ValueError, match="is empty"):
        label_inference(three[:0], three[:0], three[:0])
    with pytest.raises(ValueError, match="epsilon is -1"):
        advantage_bound(epsilon=-1.0)
    with pytest.raises(ValueError, match="delta is 2"):
        advantage_bound(epsilon=1.0, delta=2.0)

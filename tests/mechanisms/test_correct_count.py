"""correct_count: the law of the noise, what it costs, and the choice that costs epsilon once."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.accuracy_estimate import CorrectCount, MostCorrect
from labeldp.mechanisms.randomness import SecureGenerator
from labeldp.mechanisms.secure_noise import discrete_laplace
from tests.mechanisms.privacy_loss import assert_private

LABELS = np.arange(12) % 3
RIGHT_ONCE = np.where(np.arange(12) == 4, LABELS, (LABELS + 1) % 3)
RUNS = 40_000


def counts(epsilon: float, labels: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    mechanism, generator = CorrectCount(epsilon=epsilon), np.random.default_rng(seed)
    return np.array(
        [mechanism.release(labels, RIGHT_ONCE, generator=generator)[0] for _ in range(RUNS)]
    )


def neighbor() -> NDArray[np.int64]:
    """Labels with one substituted: nothing is right any more."""
    other = LABELS.copy()
    other[4] = (other[4] + 1) % 3
    return other


def test_the_noise_is_discrete_laplace_around_the_count() -> None:
    epsilon, low, high = 0.7, -6, 8
    seen = np.clip(counts(epsilon, LABELS, seed=0), low, high)
    values = np.arange(-60, 62)
    law = np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(values - 1))
    expected = np.bincount(np.clip(values, low, high) - low, weights=law) * RUNS
    observed = np.bincount(seen - low, minlength=high - low + 1)
    assert chisquare(observed, expected * RUNS / expected.sum()).pvalue > 0.001


def test_secure_noise_makes_the_same_law_on_digits() -> None:
    """Many counts in one draw of the sampler, and one count through the mechanism."""
    epsilon, low, high = 0.7, -6, 6
    generator = SecureGenerator(bits=np.random.default_rng(8))
    noise = discrete_laplace(generator, scale=CorrectCount(epsilon=epsilon).scale, shape=(RUNS,))
    values = np.arange(-60, 61)
    law = np.bincount(np.clip(values, low, high) - low, weights=np.exp(-epsilon * np.abs(values)))
    observed = np.bincount(np.clip(noise, low, high) - low, minlength=high - low + 1)
    assert chisquare(observed, law * RUNS / law.sum()).pvalue > 0.001
    sure = CorrectCount(epsilon=40.0).release(LABELS, RIGHT_ONCE, generator=generator)
    assert sure.tolist() == [1] and sure.dtype == np.int64


def test_a_secure_choice_is_that_of_permute_and_flip() -> None:
    """Two models, an answer apart: the worse one wins with half of e^(-epsilon/2)."""
    epsilon, runs = 0.5, 3000
    predictions = np.stack([LABELS, np.where(np.arange(12) == 4, (LABELS + 1) % 3, LABELS)])
    generator = SecureGenerator(bits=np.random.default_rng(9))
    mechanism = MostCorrect(epsilon=epsilon)
    worse = sum(
        int(mechanism.release(LABELS, predictions, generator=generator)[0]) for _ in range(runs)
    )
    share = np.exp(-epsilon / 2) / 2
    assert abs(worse / runs - share) < 4 * np.sqrt(share * (1 - share) / runs)


def test_a_count_is_as_private_as_it_says() -> None:
    def draw(epsilon: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        one, other = counts(epsilon, LABELS, seed=2), counts(epsilon, neighbor(), seed=3)
        low, high = -8, 9
        return np.clip(one, low, high) - low, np.clip(other, low, high) - low

    assert_private(draw, epsilon=0.8)
    assert CorrectCount(epsilon=0.8).event == PureEvent(epsilon=0.8)


def test_a_choice_is_as_private_as_it_says() -> None:
    # One label is worth an answer to one model and takes one from the other.
    other = neighbor()
    predictions = np.stack([LABELS, np.where(LABELS == other, LABELS, other)])

    def draw(epsilon: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        mechanism = MostCorrect(epsilon=epsilon)
        one, two = (
            np.array([mechanism.release(truth, predictions, generator=g)[0] for _ in range(RUNS)])
            for truth, g in zip((LABELS, other), map(np.random.default_rng, (4, 5)), strict=True)
        )
        return one, two

    assert_private(draw, epsilon=0.5)
    assert MostCorrect(epsilon=0.5).event == PureEvent(epsilon=0.5)


def test_the_best_of_many_is_chosen_where_it_is_better_by_more_than_the_noise() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(10, size=4000)
    shares = np.array([0.5, 0.8, 0.7, 0.6, 0.75])
    right = random.random((5, 4000)) < shares[:, None]
    predictions = np.where(right, labels, (labels + 1) % 10)
    mechanism = MostCorrect(epsilon=0.2)
    won = [mechanism.release(labels, predictions, generator=random)[0] for _ in range(200)]
    assert won.count(1) >= 195  # 200 answers ahead, where the noise has a mean of 10
    uncertain = MostCorrect(epsilon=0.001)
    won = [uncertain.release(labels, predictions, generator=random)[0] for _ in range(200)]
    assert set(won) == set(range(5))


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (np.zeros(5, dtype=int), r"shape \(5,\) for 12 labels"),
        (np.zeros((12, 3), dtype=int), "for 12 labels; give one for each"),
        (np.zeros(12), "of type float64; they must be classes"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(
    predictions: NDArray[np.int64], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CorrectCount(epsilon=1.0).release(LABELS, predictions, generator=np.random.default_rng())


def test_nothing_to_choose_among_and_epsilons_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="no predictions"):
        nobody = np.empty((0, 12), dtype=int)
        MostCorrect(epsilon=1.0).release(LABELS, nobody, generator=np.random.default_rng())
    for kind in (CorrectCount, MostCorrect):
        with pytest.raises(ValueError, match="epsilon is 0"):
            kind(epsilon=0)

"""Accuracy without public test labels, from what is released of held-out ones.

Some labels are held out: no model is trained on them. Two ways to judge a model's predictions:

- From a *release* of the held-out labels, made like that of the others: post-processing, free for
  any number of models. What a release says about the predicted class is an unbiased estimate of
  "right or wrong": the entry of a noisy one-hot vector, or, where labels or bits are flipped,
  (agreement - flip) / (keep - flip).
- From a *noisy count* of right predictions (`CorrectCount`): charged for every model, and far more
  exact, since one draw of noise is spread over all examples.

Held-out labels are used by nothing else, so that in a ledger they pay for their estimates only.

>>> from labeldp.mechanisms.randomized_response import RandomizedResponse
>>> labels, mechanism = np.arange(5000) % 10, RandomizedResponse(epsilon=2.0, num_classes=10)
>>> released = mechanism.release(labels, generator=np.random.default_rng(7))
>>> predictions = np.where(np.arange(5000) < 4000, labels, (labels + 1) % 10)  # 80% are right
>>> estimate = AccuracyEstimate.from_release(released, predictions, mechanism)
>>> round(estimate.accuracy, 2), round(estimate.error, 2)
(0.83, 0.02)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from labeldp.mechanisms import _validate
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.correct_count import CorrectCount
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse

#: Standard deviations of a normal distribution on either side of which 95% lie.
_TWO_SIDED = 1.959964
#: Mechanisms that say something about each label by itself.
PerLabel = LaplaceNoise | GaussianNoise | RandomizedResponse | BitFlip | NoNoise


@dataclass(frozen=True, kw_only=True)
class AccuracyEstimate:
    """An unbiased estimate of accuracy on examples like those held out.

    Attributes:
        accuracy: The estimate; noise may take it out of [0, 1], or it would be biased.
        sampling_error: Standard error from which examples are held out, and from noise that is
            drawn for each of them. Too large rather than too small, so that intervals hold for few
            examples: by up to a third at 20 of them, by a twentieth at 600.
        count_scale: Scale of the one draw of Laplace noise that a count has, per example; 0 without
            a count.
    """

    accuracy: float
    sampling_error: float
    count_scale: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.number(accuracy=self.accuracy)
        _validate.non_negative(sampling_error=self.sampling_error, count_scale=self.count_scale)

    @classmethod
    def from_release(
        cls, values: NDArray[Any], predictions: NDArray[np.integer[Any]], mechanism: PerLabel
    ) -> "AccuracyEstimate":
        """Estimate from released labels that the model was not trained on, free of charge."""
        if not isinstance(mechanism, PerLabel):
            raise ValueError(
                f"{type(mechanism).__name__} releases nothing about single labels, so that no "
                "accuracy can be read off it; count right answers instead (CorrectCount)"
            )
        guesses = _validate.labels(
            predictions, num_classes=mechanism.num_classes, name="predictions"
        )
        if len(values) != len(guesses):
            raise ValueError(
                f"there are {len(guesses)} predictions for {len(values)} released labels; give one "
                "for each"
            )
        count = len(guesses)
        seen = values == guesses if values.ndim == 1 else values[np.arange(count), guesses]
        mean = float(seen.mean(dtype=np.float64))
        if isinstance(mechanism, LaplaceNoise | GaussianNoise):
            noise = mechanism.noise_std / math.sqrt(count)
            error = math.hypot(_careful_error(mean, count, noise), noise)
            return cls(accuracy=mean, sampling_error=error)
        flip, slope = _flips(mechanism)
        # What is seen is 1 with probability flip + slope * accuracy, and 0 or 1 in any case.
        error = _careful_error(mean, count) / slope
        return cls(accuracy=(mean - flip) / slope, sampling_error=error)

    @classmethod
    def from_count(
        cls, correct: float, *, examples: int, mechanism: CorrectCount
    ) -> "AccuracyEstimate":
        """Estimate from a released, noisy count of right predictions among `examples`."""
        _validate.number(correct=correct)
        _validate.whole(minimum=1, examples=examples)
        accuracy, scale = float(correct) / examples, mechanism.scale / examples
        error = _careful_error(accuracy, examples, math.sqrt(2) * scale)
        return cls(accuracy=accuracy, sampling_error=error, count_scale=scale)

    @property
    def error(self) -> float:
        """Standard error: of the choice of held-out examples and of all noise."""
        return math.hypot(self.sampling_error, math.sqrt(2) * self.count_scale)

    def interval(self, *, confidence: float = 0.95, choices: int = 1) -> tuple[float, float]:
        """Return an interval that holds the accuracy with this confidence, within [0, 1].

        The best of k models by its estimate looks better than it is: with `choices` of k the
        interval is widened so that it holds for all k at once.
        """
        _validate.between(0, 1, confidence=confidence)
        _validate.whole(minimum=1, choices=choices)
        outside = (1 - confidence) / choices
        # Each part by its own quantile: exact for Laplace noise alone and for normal noise alone.
        # Measured coverage at 20 to 600 examples is 95% to 99%, whatever is released.
        width = math.hypot(
            float(-ndtri(outside / 2)) * self.sampling_error, -math.log(outside) * self.count_scale
        )
        low, high = (min(1.0, max(0.0, self.accuracy + side * width)) for side in (-1, 1))
        return low, high


@dataclass(frozen=True, kw_only=True)
class BestOf:
    """The best of k models by estimated accuracy.

    Choosing is post-processing of estimates that are paid for: nothing if they are from one
    release, k counts if each has a count of its own (`MostCorrect` costs less where only the winner
    is needed).

    Attributes:
        place: Of the winner.
        estimate: Its estimate, which is too high on average for having won.
        low: Lower end of an interval for its accuracy that is corrected for the choice.
        high: Upper end.
    """

    place: int
    estimate: AccuracyEstimate
    low: float
    high: float

    @classmethod
    def among(cls, estimates: Sequence[AccuracyEstimate], *, confidence: float = 0.95) -> "BestOf":
        """Choose; of equal ones the first wins.

        Raises:
            ValueError: There are none.
        """
        if not estimates:
            raise ValueError("there are no estimates to choose among; give at least one")
        place = max(range(len(estimates)), key=lambda each: estimates[each].accuracy)
        won = estimates[place]
        low, high = won.interval(confidence=confidence, choices=len(estimates))
        return cls(place=place, estimate=won, low=low, high=high)


def _flips(mechanism: RandomizedResponse | BitFlip | NoNoise) -> tuple[float, float]:
    """Probability that a wrong prediction looks right, and how much more a right one does."""
    match mechanism:
        case NoNoise():
            return 0.0, 1.0
        case BitFlip():
            return mechanism.flip_probability, math.tanh(mechanism.epsilon / 4)
        case RandomizedResponse():
            keep = mechanism.keep_probability
            flip = (1 - keep) / (mechanism.num_classes - 1)
            # keep - flip, without taking nearly equal numbers from each other.
            return flip, flip * math.expm1(mechanism.epsilon) if flip else 1.0


def _careful_error(mean: float, count: int, noise: float = 0.0) -> float:
    """Standard error of a share of right ones that is large enough for intervals of few examples.

    The wider side of Clopper and Pearson's 95% interval over 1.96. Noise may have moved the share
    either way: the error is taken where it is largest within two standard deviations of it.

    Args:
        mean: The share, with its noise.
        count: Among how many.
        noise: Standard deviation of the noise on the share.
    """
    nearest = mean + min(2 * noise, max(-2 * noise, 0.5 - mean))
    share = min(1.0, max(0.0, nearest))
    right, tail = count * share, float(ndtr(-_TWO_SIDED))
    low = float(betaincinv(right, count - right + 1, tail)) if right > 0 else 0.0
    high = float(betaincinv(right + 1, count - right, 1 - tail)) if right < count else 1.0
    return max(share - low, high - share) / _TWO_SIDED

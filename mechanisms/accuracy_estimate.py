"""Accuracy without public test labels, from releases of held-out ones.

Some labels are held out: no model is trained on them. Two ways to judge a model's predictions:

- From a *release* of the held-out labels, made like that of the others: post-processing, free for
  any number of models. Its agreement with the predicted classes (`label_channels.Agreement`) gives
  an unbiased estimate.
- From a *noisy count* of right predictions (`CorrectCount`): charged for every model, and far more
  exact, since one draw of noise is spread over all examples. Substituting one label changes the
  count by 1 at most, so that noise of a few answers is enough, however many are counted. It is
  discrete Laplace noise (Ghosh, Roughgarden and Sundararajan, STOC 2009).

Held-out labels have no other use, so that in a ledger they pay for their estimates only.

`CoverageChoice` chooses the threshold of prediction sets by such labels. Candidates are ordered,
and each covers what those before it cover. Wanted is the first that covers m of n labels; one that
misses this by d labels has the utility -d, which a substituted label moves by 1. Exponential noise
of scale 2 / epsilon on all utilities, of which the largest wins, is permute-and-flip (McKenna and
Sheldon, NeurIPS 2020; Ding et al., NeurIPS 2021): pure, and never worse than the exponential
mechanism.

>>> from labeldp.mechanisms.randomized_response import RandomizedResponse
>>> labels, mechanism = np.arange(5000) % 10, RandomizedResponse(epsilon=2.0, num_classes=10)
>>> released = mechanism.release(labels, generator=np.random.default_rng(7))
>>> predictions = np.where(np.arange(5000) < 4000, labels, (labels + 1) % 10)  # 80% are right
>>> estimate = AccuracyEstimate.from_release(released, predictions, mechanism)
>>> round(estimate.accuracy, 2), round(estimate.error, 2)
(0.83, 0.02)
>>> CorrectCount(epsilon=2.0).release(labels, predictions, generator=np.random.default_rng(7))
array([3999])
>>> CoverageChoice(epsilon=1.0, coverage=0.9, candidates=101).wanted(700)
639
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, Array, as_numpy, like
from labeldp.mechanisms.accounting import PureMechanism
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    DrawnExactly,
    SecureGenerator,
    as_noise_generator,
    discrete_laplace,
    exponential,
    largest,
)

#: Standard deviations of a normal distribution on either side of which 95% lie.
TWO_SIDED = 1.959964


@dataclass(frozen=True, kw_only=True)
class CorrectCount(PureMechanism, DrawnExactly):
    """The number of right predictions, in all or by group, plus discrete Laplace noise: pure.

    Every label lies in one group, and a substituted one moves the count there by 1. The noise is a
    whole number, so that no bits of its rounding reveal anything.
    """

    failure_probability: ClassVar[float] = 0.0

    @property
    def scale(self) -> float:
        """That of the continuous Laplace noise with tails as heavy, in answers."""
        return 1 / self.epsilon

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in answers."""
        return math.sqrt(2 * math.exp(-self.epsilon)) / -math.expm1(-self.epsilon)

    def release(
        self,
        labels: Array,
        predictions: Array,
        groups: Array | None = None,
        *,
        generator: AnyGenerator,
    ) -> NDArray[Any]:
        """Draw the noisy numbers of right predictions, once: int64 [G], below 0 perhaps.

        The predictions [M], and the groups [M], numbered from 0, must be made without these labels
        [M]. Without groups, all labels are in one.
        """
        truth = as_numpy(labels)
        guesses = as_numpy(predictions)
        if truth.ndim != 1 or guesses.shape != truth.shape:
            raise ValueError(
                f"there are predictions of shape {guesses.shape} for {truth.size} labels; give one "
                "for each"
            )
        if guesses.size == 0:
            raise ValueError("predictions are empty; give at least one label and one prediction")
        if not np.issubdtype(guesses.dtype, np.integer):
            raise ValueError(
                f"predictions are of type {guesses.dtype}; they must be classes, whole numbers: "
                "scores become classes by .argmax(1)"
            )
        places = np.zeros(len(truth), np.int64) if groups is None else as_numpy(groups)
        _validate.same_length(groups=len(places), labels=len(truth))
        counts = np.bincount(places, guesses == truth).astype(np.int64)
        return counts + discrete_laplace(generator, scale=self.scale, shape=counts.shape)


@dataclass(frozen=True, kw_only=True)
class AccuracyEstimate:
    """An unbiased estimate of accuracy on examples like those held out.

    The sampling error is that of the choice of held-out examples and of noise drawn for each. It is
    too large rather than too small, so that intervals hold for few examples: by up to a third at 20
    of them, by a twentieth at 600.
    """

    accuracy: float  # noise may take it out of [0, 1], or it would be biased
    sampling_error: float  # a standard error
    count_scale: float = 0.0  # of the one draw of Laplace noise in a count, per example

    def __post_init__(self) -> None:
        _validate.number(accuracy=self.accuracy)
        _validate.non_negative(sampling_error=self.sampling_error, count_scale=self.count_scale)

    @classmethod
    def from_release(
        cls, values: NDArray[Any], predictions: NDArray[np.integer[Any]], mechanism: PerLabel
    ) -> "AccuracyEstimate":
        """Estimate from released labels that the model was not trained on, free of charge."""
        if not isinstance(mechanism, PerLabel):
            raise ValueError(
                f"{type(mechanism).__name__} releases nothing about single labels, so it shows no "
                "accuracy; count right predictions instead (CorrectCount)"
            )
        guesses = _validate.labels(
            predictions, num_classes=mechanism.num_classes, name="predictions"
        )
        _validate.same_length(predictions=len(guesses), values=len(values))
        count = len(guesses)
        seen = values == guesses if values.ndim == 1 else values[np.arange(count), guesses]
        mean = float(seen.mean(dtype=np.float64))
        agreement = mechanism.agreement
        noise = agreement.noise_std / math.sqrt(count)
        error = math.hypot(_careful_error(mean, count, noise), noise)
        return cls(
            accuracy=(mean - agreement.wrong) / agreement.gain,
            sampling_error=error / agreement.gain,
        )

    @classmethod
    def from_count(
        cls, correct: float, *, examples: int, mechanism: CorrectCount
    ) -> "AccuracyEstimate":
        """Estimate from a released, noisy count of right predictions among `examples`."""
        _validate.number(correct=correct)
        _validate.whole(minimum=1, examples=examples)
        return cls.from_mean(
            correct / examples, examples=examples, count_scale=mechanism.scale / examples
        )

    @classmethod
    def from_mean(cls, accuracy: float, *, examples: int, count_scale: float) -> "AccuracyEstimate":
        """Estimate from a noisy share of right predictions; its noise is as that of a count."""
        error = _careful_error(accuracy, examples, math.sqrt(2) * count_scale)
        return cls(accuracy=accuracy, sampling_error=error, count_scale=count_scale)

    @property
    def error(self) -> float:
        """Standard error: of the choice of held-out examples and of all noise."""
        return math.hypot(self.sampling_error, math.sqrt(2) * self.count_scale)

    def interval(self, *, confidence: float = 0.95, choices: int = 1) -> tuple[float, float]:
        """Return an interval that holds the accuracy with this confidence, within [0, 1].

        The best of k models by its estimate looks better than it is: with `choices` of k the
        interval is widened so that it holds for all k at once. Choosing is post-processing of
        estimates that are paid for.
        """
        _validate.between(0, 1, confidence=confidence)
        _validate.whole(minimum=1, choices=choices)
        outside = (1 - confidence) / choices
        # Each part by its own quantile: exact for Laplace noise alone and for normal noise alone.
        # Measured coverage at 20 to 600 examples is 95% to 99%, for every mechanism.
        width = math.hypot(
            float(-ndtri(outside / 2)) * self.sampling_error, -math.log(outside) * self.count_scale
        )
        low, high = (min(1.0, max(0.0, self.accuracy + side * width)) for side in (-1, 1))
        return low, high


def _careful_error(mean: float, count: int, noise: float) -> float:
    """Standard error of a share of right ones that is large enough for intervals of few examples.

    The wider side of Clopper and Pearson's 95% interval over 1.96. Noise may have moved the share
    either way: the error is taken where it is largest within two standard deviations of it.
    """
    nearest = mean + min(2 * noise, max(-2 * noise, 0.5 - mean))
    share = min(1.0, max(0.0, nearest))
    right = count * share
    tail = float(ndtr(-TWO_SIDED))
    low = float(betaincinv(right, count - right + 1, tail)) if right > 0 else 0.0
    high = float(betaincinv(right + 1, count - right, 1 - tail)) if right < count else 1.0
    return max(share - low, high - share) / TWO_SIDED


@dataclass(frozen=True, kw_only=True)
class CoverageChoice(PureMechanism, DrawnExactly):
    """The number of a candidate that covers a further label with probability `coverage` at least.

    The probability is over calibration labels, the further one, and noise, if all labels are
    exchangeable.
    """

    coverage: float
    candidates: int

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.between(0, 1, coverage=self.coverage)
        _validate.whole(candidates=self.candidates, minimum=2)

    def wanted(self, count: int) -> int:
        """Return m, the number of N calibration labels that the ideal candidate covers.

        Remove one of N + 1 exchangeable labels. The noise picks a candidate that misses it with
        probability 1 at most for those above rank m + 1, and for the one at rank m + 1 - k with the
        probability that one of all candidates, each k labels short, beats one that is not short.

        Raises:
            ValueError: The labels are too few for this coverage and epsilon.
        """
        _validate.whole(count=count, minimum=1)
        short = np.maximum(np.exp(-self.epsilon / 2 * np.arange(count + 1)), 1e-15)
        with np.errstate(divide="ignore"):
            none = np.log1p(-short)
        missed = 1 + np.expm1(self.candidates * none) / (self.candidates * short)
        covered = np.arange(1, count + 2) - np.cumsum(missed)
        enough = np.flatnonzero(covered >= self.coverage * (count + 1) + 1e-9)
        if not enough.size:
            raise ValueError(
                f"{count} calibration labels at epsilon {self.epsilon:g} are too few for coverage "
                f"{self.coverage:g}: noise may miss {missed.sum():.0f} of them; give more labels, "
                "or raise epsilon, or lower the coverage"
            )
        return int(enough[0])

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the number of a candidate, once: int64 [1].

        `labels` [N] are numbers of the first candidate that covers each label; the last one covers
        all.
        """
        exact = _validate.labels(labels, num_classes=self.candidates, secret=True)
        covered = np.bincount(exact, minlength=self.candidates).cumsum()
        before = np.append(0, covered[:-1])
        wanted = self.wanted(len(exact))
        utilities = -np.maximum(np.maximum(wanted - covered, before - wanted), 0)
        scale = math.nextafter(2 / self.epsilon, math.inf)
        rng = as_noise_generator(generator)
        if isinstance(rng, SecureGenerator):
            noise = exponential(self.candidates, generator=rng)
            return like(largest(utilities[None], noise, scale=scale), labels)
        noisy = utilities + rng.exponential(scale, size=self.candidates)
        return like(noisy.argmax(keepdims=True).astype(np.int64), labels)

"""Right answers among secret labels: how many, or whose are most, under noise.

Predictions are public, labels are not. Substituting one label changes the number of right answers
by 1 at most, so that noise of a few answers is enough, however many are counted.

`CorrectCount` tells the number under discrete Laplace noise (Ghosh, Roughgarden and Sundararajan,
STOC 2009). `MostCorrect` tells which of k models has most of them and nothing else, by
permute-and-flip (McKenna and Sheldon, NeurIPS 2020): it costs epsilon once, where k counts cost k
times theirs.

>>> labels, predictions = np.array([0, 1, 1, 2]), np.array([0, 1, 0, 2])
>>> count = CorrectCount(epsilon=20.0)
>>> count.release(labels, predictions, generator=np.random.default_rng(7))
array([3])
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._arrays import Array, as_numpy
from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.randomness import AnyGenerator, SecureGenerator, as_numpy_generator
from labeldp.mechanisms.secure_noise import discrete_laplace, exponential, largest


@dataclass(frozen=True, kw_only=True)
class CorrectCount:
    """The number of right predictions plus discrete Laplace noise: pure epsilon-DP.

    The noise is a whole number, so that no bits of its rounding tell anything.

    Attributes:
        epsilon: Privacy loss per label, finite and above 0.
    """

    epsilon: float

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Check epsilon."""
        _validate.positive(epsilon=self.epsilon)

    @property
    def event(self) -> PureEvent:
        """What one count costs each label in it."""
        return PureEvent(epsilon=self.epsilon)

    @property
    def scale(self) -> float:
        """That of the continuous Laplace noise whose tails are as heavy, in answers."""
        return 1 / self.epsilon

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in answers."""
        return math.sqrt(2 * math.exp(-self.epsilon)) / -math.expm1(-self.epsilon)

    def release(
        self, labels: Array, predictions: Array, *, generator: AnyGenerator
    ) -> NDArray[Any]:
        """Draw the noisy number of right predictions, once: int64 [1], below 0 or above M perhaps.

        The predictions [M] must be made without these labels [M].
        """
        right = _right(labels, as_numpy(predictions)[None])
        if isinstance(generator, SecureGenerator):
            return right + discrete_laplace(generator, scale=self.scale, shape=(1,))
        success = -math.expm1(-self.epsilon)
        up, down = as_numpy_generator(generator).geometric(success, size=(2, 1))
        return np.asarray(right + up - down, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class MostCorrect:
    """Which of k models has most right predictions, nearly: pure epsilon-DP, whatever k is.

    The winner falls short of the best by more than (2 / epsilon) (log k + t) answers with a
    probability below e^-t.

    Attributes:
        epsilon: Privacy loss per label for the choice, finite and above 0.
    """

    epsilon: float

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Check epsilon."""
        _validate.positive(epsilon=self.epsilon)

    @property
    def event(self) -> PureEvent:
        """What one choice costs each label in it."""
        return PureEvent(epsilon=self.epsilon)

    def release(
        self, labels: Array, predictions: Array, *, generator: AnyGenerator
    ) -> NDArray[Any]:
        """Draw the place of the winner, once: int64 [1].

        The predictions of each model [k, M] must be made without these labels [M].
        """
        right = _right(labels, as_numpy(predictions))
        # Exponential noise and a maximum are permute-and-flip (Ding et al., 2021). A label may add
        # to one model's count and take from another's, hence the factor 2.
        scale = 2 / self.epsilon
        if isinstance(generator, SecureGenerator):
            drawn = exponential(len(right), generator=generator)
            return largest(right[None], drawn, scale=math.nextafter(scale, math.inf))
        noise = as_numpy_generator(generator).exponential(scale, size=len(right))
        return np.array([(right + noise).argmax()], dtype=np.int64)


def _right(labels: Array, predictions: NDArray[Any]) -> NDArray[np.int64]:
    """Number of right predictions of each model [k]."""
    truth = as_numpy(labels)
    if truth.ndim != 1 or predictions.ndim != 2 or predictions.shape[1:] != truth.shape:
        raise ValueError(
            f"there are predictions of shape {predictions.shape[1:] or predictions.shape} for "
            f"{truth.size} labels; give one for each"
        )
    if predictions.size == 0:
        raise ValueError("there are no predictions; at least one label and one model are needed")
    if not np.issubdtype(predictions.dtype, np.integer):
        raise ValueError(
            f"predictions are of type {predictions.dtype}; they must be classes, whole numbers: "
            "scores become classes by .argmax(1)"
        )
    counts: NDArray[np.int64] = (predictions == truth).sum(axis=1)
    return counts

"""Mechanisms that act on each label by itself, and the law of what their noise reveals of one.

`PerLabel` is the base class of such mechanisms. It states two things, from which accuracy without
test labels (`accuracy_estimate`) and the tight audits (`auditing`) follow: how a release agrees
with a prediction, and the family of channels that the noise belongs to.

A channel is one label's way out. A coin chose between two labels; the attacker knows the
log-likelihood ratio of the release, and L is that ratio, signed so that it is above 0 where it
favors the label that was there. The best guess is its sign, wrong with probability
1 / (1 + exp|L|), and P(L = -l) = exp(-l) P(L = l): nothing but the chances that L is above q and
below -q is needed.

>>> round(float(GaussianFamily().wrong_beyond(1.0, np.zeros(1))[0]), 4)  # Phi(-1/2)
0.3085
>>> round(GaussianFamily().epsilon(1.0, delta=1e-5), 3)
4.377
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Floats
from labeldp.mechanisms.accounting import Event, PureMechanism, brentq, gaussian_epsilon
from labeldp.mechanisms.randomness import AnyGenerator

#: Ratios beyond this are certain in double precision.
_LARGEST_RATIO = 700.0


class Agreement(NamedTuple):
    """How a release agrees with a prediction: its mean is wrong + gain * accuracy.

    The release shows whether for a prediction the released label is the same, or the entry of the
    predicted class. `noise_std` is the standard deviation of noise on that entry, 0 for labels and
    bits.
    """

    wrong: float = 0.0
    gain: float = 1.0
    noise_std: float = 0.0


class PerLabel:
    """Base class of mechanisms that act on each label by itself."""

    num_classes: int
    failure_probability: ClassVar[float]  # each class declares its own

    @property
    @abstractmethod
    def event(self) -> Event:
        """The cost of one release of a label."""

    @property
    @abstractmethod
    def agreement(self) -> Agreement:
        """How a release agrees with a prediction."""

    @property
    @abstractmethod
    def family(self) -> "Family | None":
        """The noise but for its strength; None where a tight audit makes no sense."""

    @abstractmethod
    def release(self, labels: object, *, generator: AnyGenerator) -> Any:
        """Draw the release of labels [N], once: [N] or [N, K]."""

    @abstractmethod
    def log_likelihood(self, noisy: object) -> Any:
        """Log-likelihood of every class [N, K], up to a term that all classes share."""


@dataclass(frozen=True, kw_only=True)
class PurePerLabel(PureMechanism, PerLabel):
    """Base class of those that are epsilon-DP on K labels."""

    num_classes: int  # K, at least 2

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.whole(num_classes=self.num_classes, minimum=2)


class Family(ABC):
    """Noise of one kind: how sure and how wrong the best guess of a coin is, at each strength.

    The larger a strength above 0, the more a release reveals. It is epsilon, or mu of
    Gaussian noise.
    """

    strongest: ClassVar[float] = 80.0  # the end of a search for a strength

    def largest(self, strength: float) -> float:
        """Return the largest |L|; infinite where there is none."""
        return strength

    @abstractmethod
    def right_beyond(self, strength: float, threshold: Floats) -> Floats:
        """Return P(L >= q) for thresholds q of 0 and more."""

    @abstractmethod
    def wrong_beyond(self, strength: float, threshold: Floats) -> Floats:
        """Return P(L <= -q) for thresholds q above 0, and P(L < 0) at 0."""

    def epsilon(self, strength: float, *, delta: float) -> float:
        """Return the smallest epsilon for which each label is (epsilon, delta)-DP.

        P(L >= epsilon) - e^epsilon P(L <= -epsilon) <= delta is the privacy profile of a channel
        whose two labels are each other's mirror image. At delta 0 it is the largest |L|.
        """
        _validate.delta(delta)
        largest = self.largest(strength)
        if delta == 0:
            return largest

        def excess(epsilon: float) -> float:
            at = np.array([epsilon])
            right = float(self.right_beyond(strength, at)[0])
            wrong = float(self.wrong_beyond(strength, at)[0])
            return right - math.exp(epsilon) * wrong - delta

        # At 0 the events L >= 0 and L <= 0 overlap, and the formula counts ties twice.
        tiny = min(1e-9, largest / 2)
        if excess(tiny) <= 0:
            return 0.0
        return float(brentq(excess, tiny, largest, xtol=1e-12))


def mean_error(family: Family, strength: float, surest: Floats) -> Floats:
    """Return P(wrong | among the surest m) of the best guesses, for shares m in (0, 1].

    Where many are equally sure, chance picks.
    """
    low = np.zeros_like(surest)
    # Just above the largest ratio, beyond which nothing lies: many may be as sure as that.
    most = min(family.largest(strength), _LARGEST_RATIO)
    high = np.full_like(surest, np.nextafter(most, math.inf))
    for _ in range(60):  # the largest threshold that at least a share of m lies beyond
        middle = (low + high) / 2
        beyond = family.right_beyond(strength, middle) + family.wrong_beyond(strength, middle)
        low = np.where(beyond >= surest, middle, low)
        high = np.where(beyond >= surest, high, middle)
    # All beyond `high` is taken, and the rest of m at the threshold itself.
    wrong = family.wrong_beyond(strength, high)
    missing = np.maximum(surest - wrong - family.right_beyond(strength, high), 0.0)
    error: NDArray[np.float64] = np.minimum((wrong + missing / (1 + np.exp(low))) / surest, 0.5)
    return error


@dataclass(frozen=True, kw_only=True)
class GaussianFamily(Family):
    """Gaussian noise; L is normal with mean mu^2 / 2 and standard deviation mu, the strength.

    mu is the distance of two labels' means over the noise's standard deviation.
    """

    strongest: ClassVar[float] = 30.0

    def largest(self, strength: float) -> float:
        """Return infinity, since the ratio of a normal law has no bound."""
        return math.inf

    def right_beyond(self, strength: float, threshold: Floats) -> Floats:
        """Return P(L >= q)."""
        return np.asarray(ndtr(strength / 2 - threshold / strength))

    def wrong_beyond(self, strength: float, threshold: Floats) -> Floats:
        """Return P(L <= -q)."""
        return np.asarray(ndtr(-strength / 2 - threshold / strength))

    def epsilon(self, strength: float, *, delta: float) -> float:
        """Return the exact epsilon at `delta`, which must be above 0 (Balle and Wang 2018)."""
        return gaussian_epsilon(noise_multiplier=1 / strength, delta=delta)


@dataclass(frozen=True, kw_only=True)
class LaplaceFamily(Family):
    """Laplace noise of scale 2 / epsilon on each entry of a one-hot label, as ALIBI's.

    Two entries differ between two labels. Each has a ratio of a = epsilon / 2 with chance 1/2, of
    -a with chance e^-a / 2, and density e^(-(a - l) / 2) / 4 between; L is the sum of two, in
    closed form.
    """

    def right_beyond(self, strength: float, threshold: Floats) -> Floats:
        """Return P(L >= q): 1/4 at epsilon, half e^(-epsilon / 2) at 0, a density between."""
        rest = np.maximum(strength - threshold, 0.0)
        between = 0.75 - np.exp(-rest / 2) * (0.75 + rest / 8)
        at_zero = np.where(threshold <= 0, math.exp(-strength / 2) / 2, 0.0)
        return np.where(threshold > strength, 0.0, 0.25 + between + at_zero)

    def wrong_beyond(self, strength: float, threshold: Floats) -> Floats:
        """Return P(L <= -q), and P(L < 0) at 0."""
        rest = np.maximum(strength - threshold, 0.0)
        found = np.exp(rest / 2 - strength) * (0.25 + rest / 8)
        return np.where(threshold > strength, 0.0, found)


class _ThreePoints(Family):
    """Releases that favor one of the two labels with full strength, or neither."""

    @abstractmethod
    def informative(self, strength: float) -> float:
        """Return P(L is not 0)."""

    def right_beyond(self, strength: float, threshold: Floats) -> Floats:
        """Return P(L >= q), at 0 with the releases that favor neither."""
        informative = self.informative(strength)
        right = informative / (1 + math.exp(-strength))
        silent = np.where(threshold <= 0, 1 - informative, 0.0)
        return np.where(threshold > strength, 0.0, right + silent)

    def wrong_beyond(self, strength: float, threshold: Floats) -> Floats:
        """Return P(L <= -q), and P(L < 0) at 0."""
        wrong = self.informative(strength) / (1 + math.exp(strength))
        return np.where(threshold > strength, 0.0, wrong)


def subset_information(*, epsilon: float, num_classes: int, sizes: NDArray[np.int64]) -> Floats:
    """Nats that a set of k classes has about a label that is uniform among K, for each k."""
    rest = (num_classes - sizes) * math.exp(-epsilon)  # in units of e^epsilon
    return math.log(num_classes) - np.log(sizes + rest) - epsilon * rest / (sizes + rest)


def best_subset_size(*, epsilon: float, num_classes: int) -> int:
    """The most informative k in 1..K-1 under a flat prior; of equally good ones the smallest."""
    _validate.positive(epsilon=epsilon)
    _validate.whole(num_classes=num_classes, minimum=2)
    sizes = np.arange(1, num_classes)
    nats = subset_information(epsilon=epsilon, num_classes=num_classes, sizes=sizes)
    # Rounding must not decide between equal sizes: releases of one epsilon would differ by machine.
    return int(sizes[np.argmax(nats >= nats.max() * (1 - 1e-13))])


@dataclass(frozen=True, kw_only=True)
class SubsetFamily(_ThreePoints):
    """Subset selection on K classes; size 1 is randomized response."""

    num_classes: int  # K, at least 2
    subset_size: int  # k in 1..K-1

    def __post_init__(self) -> None:
        _validate.whole(minimum=2, num_classes=self.num_classes)
        _validate.whole(minimum=1, subset_size=self.subset_size)
        if self.subset_size >= self.num_classes:
            raise ValueError(
                f"subset_size is {self.subset_size}; of {self.num_classes} classes a set has at "
                f"most {self.num_classes - 1}"
            )

    def informative(self, strength: float) -> float:
        """Return how often the set holds one of the two labels, and not the other."""
        classes = self.num_classes
        size = self.subset_size
        both = size * (size - 1) * math.exp(strength)
        neither = (classes - size) * (classes - size - 1)
        silent = (both + neither) / (classes - 1) / (size * math.exp(strength) + classes - size)
        return 1 - silent


@dataclass(frozen=True, kw_only=True)
class BitFlipFamily(_ThreePoints):
    """Each bit of a one-hot label flipped with chance 1 / (1 + e^(epsilon / 2))."""

    def informative(self, strength: float) -> float:
        """Return how often both bits keep, or both flip."""
        flip = 1 / (1 + math.exp(strength / 2))
        return flip**2 + (1 - flip) ** 2

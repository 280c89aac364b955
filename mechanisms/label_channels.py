"""Mechanisms that act on each label by itself, and the law of what their noise reveals of one.

`PerLabel` is the base class of such mechanisms. It states two things, from which accuracy without
test labels (`accuracy_estimate`) and the tight audits (`auditing`) follow: how a release agrees
with a prediction, and the family of channels that the noise belongs to.

A channel is one label's way out. A coin chose between two labels; the attacker knows the
log-likelihood ratio of the release, and L is that ratio, signed so that it is above 0 where it
favors the label that was there. The best guess is its sign, wrong with probability
1 / (1 + exp|L|), and P(L = -l) = exp(-l) P(L = l): nothing but the chances that L is above q and
below -q is needed.

>>> channel = GaussianFamily().channel(1.0)
>>> round(float(channel.wrong_beyond(np.zeros(1))[0]), 4)  # Phi(-1/2)
0.3085
>>> round(channel.epsilon(delta=1e-5), 3)
4.377
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import Event, PureMechanism, brentq, log_gaussian_delta
from labeldp.mechanisms.randomness import AnyGenerator

Floats = NDArray[np.float64]

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


class Channel(ABC):
    """One label's way out: how sure and how wrong the best guess of a coin is."""

    largest: float  # the largest |L|; infinite where there is none

    @abstractmethod
    def right_beyond(self, threshold: Floats) -> Floats:
        """Return P(L >= q) for thresholds q of 0 and more."""

    @abstractmethod
    def wrong_beyond(self, threshold: Floats) -> Floats:
        """Return P(L <= -q) for thresholds q above 0, and P(L < 0) at 0."""

    def epsilon(self, *, delta: float) -> float:
        """Return the smallest epsilon for which each label is (epsilon, delta)-DP.

        P(L >= epsilon) - e^epsilon P(L <= -epsilon) <= delta is the privacy profile of a channel
        whose two labels are each other's mirror image. At delta 0 it is the largest |L|.
        """
        _validate.delta(delta)
        if delta == 0:
            return self.largest

        def excess(epsilon: float) -> float:
            at = np.array([epsilon])
            right = float(self.right_beyond(at)[0])
            wrong = float(self.wrong_beyond(at)[0])
            return right - math.exp(epsilon) * wrong - delta

        # At 0 the events L >= 0 and L <= 0 overlap, and the formula counts ties twice.
        tiny = min(1e-9, self.largest / 2)
        if excess(tiny) <= 0:
            return 0.0
        return float(brentq(excess, tiny, self.largest, xtol=1e-12))


class Family(Protocol):
    """Channels of one kind, from the noisiest to the clearest."""

    @property
    def strongest(self) -> float:
        """The end of a search for a strength."""

    def channel(self, strength: float) -> Channel:
        """Return the channel of a strength above 0; the larger, the more a label reveals."""

    def __hash__(self) -> int:
        """As frozen dataclasses have it."""


def mean_error(channel: Channel, surest: Floats) -> Floats:
    """Return P(wrong | among the surest m) of the best guesses, for shares m in (0, 1].

    Where many are equally sure, chance picks.
    """
    low = np.zeros_like(surest)
    # Just above the largest ratio, beyond which nothing lies: many may be as sure as that.
    high = np.full_like(surest, np.nextafter(min(channel.largest, _LARGEST_RATIO), math.inf))
    for _ in range(60):  # the largest threshold that at least a share of m lies beyond
        middle = (low + high) / 2
        enough = channel.right_beyond(middle) + channel.wrong_beyond(middle) >= surest
        low = np.where(enough, middle, low)
        high = np.where(enough, high, middle)
    # All beyond `high` is taken, and the rest of m at the threshold itself.
    wrong = channel.wrong_beyond(high)
    missing = np.maximum(surest - wrong - channel.right_beyond(high), 0.0)
    error: NDArray[np.float64] = np.minimum((wrong + missing / (1 + np.exp(low))) / surest, 0.5)
    return error


@dataclass(frozen=True, kw_only=True)
class GaussianChannel(Channel):
    """Gaussian noise; L is normal with mean mu^2 / 2 and standard deviation mu."""

    separation: float  # mu, distance of two labels' means over the noise's standard deviation
    largest: float = math.inf

    def right_beyond(self, threshold: Floats) -> Floats:
        """Return P(L >= q)."""
        return np.asarray(ndtr(self.separation / 2 - threshold / self.separation))

    def wrong_beyond(self, threshold: Floats) -> Floats:
        """Return P(L <= -q)."""
        return np.asarray(ndtr(-self.separation / 2 - threshold / self.separation))

    def epsilon(self, *, delta: float) -> float:
        """Return the exact epsilon at `delta`, which must be above 0 (Balle and Wang 2018)."""
        _validate.between(0, 1, delta=delta)
        target = math.log(delta)

        def excess(epsilon: float) -> float:
            multiplier = 1 / self.separation
            return log_gaussian_delta(noise_multiplier=multiplier, epsilon=epsilon) - target

        # Forty standard deviations above the mean: delta there underflows.
        largest = self.separation**2 / 2 + 40 * self.separation
        return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, largest, xtol=1e-12))


@dataclass(frozen=True, kw_only=True)
class GaussianFamily:
    """Gaussian noise on labels, whatever its standard deviation; strength is mu."""

    strongest: float = 30.0

    def channel(self, strength: float) -> GaussianChannel:
        """Return the channel with that separation."""
        return GaussianChannel(separation=strength)


@dataclass(frozen=True, kw_only=True)
class LaplaceChannel(Channel):
    """Laplace noise of scale 2 / epsilon on each entry of a one-hot label, as ALIBI's.

    Two entries differ between two labels. Each has a ratio of a = epsilon / 2 with chance 1/2, of
    -a with chance e^-a / 2, and density e^(-(a - l) / 2) / 4 between; L is the sum of two, in
    closed form.
    """

    largest: float  # epsilon

    def right_beyond(self, threshold: Floats) -> Floats:
        """Return P(L >= q): 1/4 at epsilon, half e^(-epsilon / 2) at 0, a density between."""
        rest = np.maximum(self.largest - threshold, 0.0)
        between = 0.75 - np.exp(-rest / 2) * (0.75 + rest / 8)
        at_zero = np.where(threshold <= 0, math.exp(-self.largest / 2) / 2, 0.0)
        return np.where(threshold > self.largest, 0.0, 0.25 + between + at_zero)

    def wrong_beyond(self, threshold: Floats) -> Floats:
        """Return P(L <= -q), and P(L < 0) at 0."""
        rest = np.maximum(self.largest - threshold, 0.0)
        found = np.exp(rest / 2 - self.largest) * (0.25 + rest / 8)
        return np.where(threshold > self.largest, 0.0, found)


@dataclass(frozen=True, kw_only=True)
class LaplaceFamily:
    """Laplace noise on one-hot labels; strength is the pure epsilon."""

    strongest: float = 80.0

    def channel(self, strength: float) -> LaplaceChannel:
        """Return the channel of that epsilon."""
        return LaplaceChannel(largest=strength)


@dataclass(frozen=True, kw_only=True)
class ThreePointChannel(Channel):
    """A release that favors one of the two labels with full strength, or neither."""

    largest: float  # epsilon, the only |L| above 0
    informative: float  # P(L is not 0)

    def right_beyond(self, threshold: Floats) -> Floats:
        """Return P(L >= q), at 0 with the releases that favor neither."""
        right = self.informative / (1 + math.exp(-self.largest))
        silent = np.where(threshold <= 0, 1 - self.informative, 0.0)
        return np.where(threshold > self.largest, 0.0, right + silent)

    def wrong_beyond(self, threshold: Floats) -> Floats:
        """Return P(L <= -q), and P(L < 0) at 0."""
        wrong = self.informative / (1 + math.exp(self.largest))
        return np.where(threshold > self.largest, 0.0, wrong)


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
class SubsetFamily:
    """Subset selection on K classes; size 1 is randomized response. Strength is epsilon."""

    num_classes: int  # K, at least 2
    subset_size: int | None = None  # None for the best size at each epsilon
    strongest: float = 80.0

    def __post_init__(self) -> None:
        _validate.whole(minimum=2, num_classes=self.num_classes)

    def channel(self, strength: float) -> ThreePointChannel:
        """Return the channel of that epsilon: the set holds one of the two labels, or not one."""
        classes = self.num_classes
        size = self.subset_size
        if size is None:
            size = best_subset_size(epsilon=strength, num_classes=classes)
        both = size * (size - 1) * math.exp(strength)
        neither = (classes - size) * (classes - size - 1)
        silent = (both + neither) / (classes - 1) / (size * math.exp(strength) + classes - size)
        return ThreePointChannel(largest=strength, informative=1 - silent)


@dataclass(frozen=True, kw_only=True)
class BitFlipFamily:
    """Each bit of a one-hot label flipped with chance 1 / (1 + e^(epsilon / 2))."""

    strongest: float = 80.0

    def channel(self, strength: float) -> ThreePointChannel:
        """Return the channel of that epsilon: both bits keep, both flip, or one of them."""
        flip = 1 / (1 + math.exp(strength / 2))
        return ThreePointChannel(largest=strength, informative=flip**2 + (1 - flip) ** 2)

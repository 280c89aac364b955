"""Randomized response: of the label, which another one replaces, and of each of its bits.

Warner 1965; on K labels as in Ghazi et al., "Deep Learning with Label Differential Privacy",
NeurIPS 2021, section 2.

>>> round(RandomizedResponse(epsilon=1.0, num_classes=2).keep_probability, 4)
0.7311
>>> bits = BitFlip(epsilon=2.0, num_classes=4)
>>> drawn = bits.release(np.array([3, 0]), generator=np.random.default_rng(7))
>>> drawn.shape, drawn.dtype, round(bits.flip_probability, 4)
((2, 4), dtype('uint8'), 0.2689)
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, as_numpy, is_torch, like
from labeldp.mechanisms.accounting import PureEvent, RandomizedResponseEvent
from labeldp.mechanisms.label_channels import (
    Agreement,
    BitFlipFamily,
    PerLabel,
    PurePerLabel,
    SubsetFamily,
)
from labeldp.mechanisms.randomness import AnyGenerator, as_discrete_generator

#: Of a block of bits: the draws take eight times the space of bits.
_BLOCK_ENTRIES = 1 << 20

AnyNumbers = TypeVar("AnyNumbers", float, NDArray[Any])


@_validate.plain_numbers
def keep_probability(*, epsilon: float, num_classes: int) -> float:
    """Probability e^epsilon / (e^epsilon + K - 1) that the label survives; 1 at epsilon = inf."""
    _validate.positive(epsilon=epsilon, infinity=True)
    _validate.whole(num_classes=num_classes, minimum=2)
    return 1.0 / (1.0 + (num_classes - 1) * math.exp(-epsilon))


@_validate.plain_numbers
def epsilon_from_keep_probability(*, keep_probability: float, num_classes: int) -> float:
    """Epsilon of randomized response that keeps a label with this probability.

    Below 1 / K the label is hidden by lying about it too often, which costs as well: the larger of
    the two log-ratios counts.
    """
    _validate.between(0, 1, keep_probability=keep_probability)
    _validate.whole(num_classes=num_classes, minimum=2)
    other = (1 - keep_probability) / (num_classes - 1)
    return abs(math.log(keep_probability) - math.log(other))


def wrong_probability(*, epsilon: float, others: AnyNumbers) -> AnyNumbers:
    """Probability that a label gives way to one of `others` wrong ones, exact where it is tiny."""
    return others * math.exp(-epsilon) / (1.0 + others * math.exp(-epsilon))


def happens(
    uniform: NDArray[np.float64], probability: Any, *, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Return whether rare events happen, given one draw of `generator.random` each [N].

    Such a draw is a multiple of 2^-53, so that a comparison with it makes the probability one too:
    0, where it lies below. Here 1 - uniform stands for the cell of width 2^-53 below it. A
    probability that cuts the draw's own cell in two, which one draw in 2^53 meets, is decided by
    further draws; the event then happens with exactly the float's probability.
    """
    cell = 2.0**-53
    upper = 1.0 - uniform  # exact, and so is all arithmetic below
    wanted = np.broadcast_to(probability, upper.shape)
    result: NDArray[np.bool_] = upper <= wanted
    cut = np.flatnonzero(~result & (upper - cell < wanted))
    if cut.size:
        inside = (wanted[cut] - (upper[cut] - cell)) / cell
        result[cut] = happens(generator.random(cut.size), inside, generator=generator)
    return result


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(PurePerLabel):
    """Randomized response on K labels: pure epsilon-DP."""

    failure_probability: ClassVar[float] = 0.0

    @property
    def keep_probability(self) -> float:
        """Probability that the released label is the true one."""
        return keep_probability(epsilon=self.epsilon, num_classes=self.num_classes)

    @property
    def event(self) -> RandomizedResponseEvent:
        """The cost of one release of a label."""
        return RandomizedResponseEvent(epsilon=self.epsilon, num_classes=int(self.num_classes))

    @property
    def agreement(self) -> Agreement:
        """Whether the released label is the predicted one."""
        keep = self.keep_probability
        # Without taking nearly equal numbers from each other, whatever epsilon is.
        return Agreement(
            wrong=keep * math.exp(-self.epsilon), gain=keep * -math.expm1(-self.epsilon)
        )

    @property
    def family(self) -> SubsetFamily:
        """Randomized response at any epsilon."""
        return SubsetFamily(num_classes=self.num_classes, subset_size=1)

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy labels, once: int64 [N]."""
        exact = _validate.labels(labels, num_classes=self.num_classes, secret=True)
        numpy_generator = as_discrete_generator(generator)
        # A shift of 1..K-1 reaches every other class equally often; every label costs the same
        # two draws, so the time taken reveals nothing about it.
        shift = numpy_generator.integers(1, self.num_classes, size=exact.shape)
        flip = happens(
            numpy_generator.random(exact.shape),
            wrong_probability(epsilon=self.epsilon, others=self.num_classes - 1),
            generator=numpy_generator,
        )
        return like(np.where(flip, (exact + shift) % self.num_classes, exact), labels)

    def log_likelihood(self, noisy: AnyArray) -> AnyArray:
        """Log-likelihood of every class given the released labels [N] -> [N, K], normalized."""
        seen = _validate.labels(noisy, num_classes=self.num_classes, name="noisy")
        # In logarithms throughout: beyond epsilon = 37 the probability of a keep rounds to 1.
        log_keep = -math.log1p((self.num_classes - 1) * math.exp(-self.epsilon))
        table: NDArray[np.float64] = np.full((len(seen), self.num_classes), log_keep - self.epsilon)
        table[np.arange(len(seen)), seen] = log_keep
        return like(table, noisy)


@dataclass(frozen=True, kw_only=True)
class BitFlip(PurePerLabel):
    """One-hot labels with independently flipped bits: pure epsilon-DP.

    The vector approximation of Zhao et al., "Enhancing Learning with Label Differential Privacy by
    Vector Approximation", ICLR 2025. Two labels differ in two bits, so that each bit may cost half
    of epsilon. More is left of a label than by randomized response where there are many classes.
    """

    failure_probability: ClassVar[float] = 0.0
    family: ClassVar[BitFlipFamily] = BitFlipFamily()

    @property
    def flip_probability(self) -> float:
        """Probability 1 / (1 + e^(epsilon / 2)) that a released bit is wrong."""
        return math.exp(-self.epsilon / 2) / (1 + math.exp(-self.epsilon / 2))

    @property
    def agreement(self) -> Agreement:
        """The bit of the predicted class."""
        # 1 - 2 q = tanh(epsilon / 4), which keeps its digits where epsilon is small.
        return Agreement(wrong=self.flip_probability, gain=math.tanh(self.epsilon / 4))

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy bits of labels [N], once: uint8 [N, K]."""
        exact = _validate.labels(labels, num_classes=self.num_classes, secret=True)
        numpy_generator = as_discrete_generator(generator)
        flipped = np.empty((len(exact), self.num_classes), dtype=np.uint8)
        for rows in _validate.blocks(*flipped.shape, entries=_BLOCK_ENTRIES):
            block = flipped[rows]
            block[:] = numpy_generator.random(block.shape) < self.flip_probability
        flipped[np.arange(len(exact)), exact] ^= 1
        return like(flipped, labels)

    def log_likelihood(self, bits: AnyArray) -> AnyArray:
        """Log-likelihood of every class, up to a term that all classes share [N, K].

        Under class c only bit c is expected to be 1: it speaks for c with epsilon / 2 if it is 1
        and against it with epsilon / 2 if it is 0.
        """
        self._check(bits)
        return (bits - 0.5) * self.epsilon

    def _check(self, bits: Any) -> None:
        if bits.ndim != 2 or bits.shape[1] != self.num_classes:
            raise ValueError(
                f"bits has shape {tuple(bits.shape)}; it must be [N, {self.num_classes}]"
            )
        if is_torch(bits) and bits.device.type != "cpu":
            return  # looking at the values would make every step wait for the device
        array = as_numpy(bits)
        wrong = ((array != 0) & (array != 1)).any(axis=1)
        _validate.refuse_entries(wrong, array, "bits", "every entry must be 0 or 1")


@dataclass(frozen=True, kw_only=True)
class NoNoise(PerLabel):
    """The labels themselves: a baseline without any privacy, priced at epsilon = infinity."""

    num_classes: int  # K, at least 2

    event: ClassVar[PureEvent] = PureEvent(epsilon=math.inf)
    failure_probability: ClassVar[float] = 0.0
    agreement: ClassVar[Agreement] = Agreement()
    family: ClassVar[None] = None  # labels without noise need no audit

    def __post_init__(self) -> None:
        _validate.whole(num_classes=self.num_classes, minimum=2)

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Return the labels [N] unchanged; `generator` is there for the common interface."""
        exact = _validate.labels(labels, num_classes=self.num_classes, secret=True)
        return like(exact, labels)

    def log_likelihood(self, noisy: AnyArray) -> AnyArray:
        """Log-likelihood [N, K]: 0 for the label, -inf for every other class."""
        seen = _validate.labels(noisy, num_classes=self.num_classes, name="noisy")
        table: NDArray[np.float64] = np.full((len(seen), self.num_classes), -math.inf)
        table[np.arange(len(seen)), seen] = 0.0
        return like(table, noisy)


@dataclass(frozen=True, kw_only=True)
class PublishedClasses:
    """The classes that occur, read from the labels: paid for as the labels themselves are."""

    num_classes: int

    #: No bound: a class that one person has is that person's label.
    event: ClassVar[PureEvent] = PureEvent(epsilon=math.inf)
    failure_probability: ClassVar[float] = 0.0

    def release(self, labels: NDArray[Any], *, generator: AnyGenerator) -> NDArray[np.bool_]:
        """Return which classes occur [K] among labels 0..K-1 [N]."""
        return np.isin(np.arange(self.num_classes), labels)

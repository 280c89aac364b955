"""Bit-flipped one-hot labels: every bit of the one-hot vector is turned over with a probability.

The vector approximation of Zhao et al., "Enhancing Learning with Label Differential Privacy by
Vector Approximation", ICLR 2025. Two labels differ in two bits, so that each bit may cost half of
epsilon: a bit is flipped with probability 1 / (1 + e^(epsilon / 2)). More is left of a label than
by randomized response where there are many classes.

>>> mechanism = BitFlip(epsilon=2.0, num_classes=4)
>>> bits = mechanism.release(np.array([3, 0]), generator=np.random.default_rng(7))
>>> bits.shape, bits.dtype, round(mechanism.flip_probability, 4)
((2, 4), dtype('uint8'), 0.2689)
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, is_torch, like
from labeldp.mechanisms.label_channels import Agreement, BitFlipFamily, PurePerLabel
from labeldp.mechanisms.randomness import AnyGenerator, as_discrete_generator

_BLOCK_ENTRIES = 1 << 20


def flip_probability(*, epsilon: float) -> float:
    """Probability 1 / (1 + e^(epsilon / 2)) that a bit is turned over."""
    _validate.positive(epsilon=epsilon)
    return math.exp(-epsilon / 2) / (1 + math.exp(-epsilon / 2))


@dataclass(frozen=True, kw_only=True)
class BitFlip(PurePerLabel):
    """One-hot labels with independently flipped bits: pure epsilon-DP."""

    failure_probability: ClassVar[float] = 0.0

    @property
    def flip_probability(self) -> float:
        """Probability that a released bit is wrong."""
        return flip_probability(epsilon=self.epsilon)

    @property
    def agreement(self) -> Agreement:
        """The bit of the predicted class."""
        # 1 - 2 q = tanh(epsilon / 4), which keeps its digits where epsilon is small.
        return Agreement(wrong=self.flip_probability, gain=math.tanh(self.epsilon / 4))

    @property
    def family(self) -> BitFlipFamily:
        """Bits flipped at any rate."""
        return BitFlipFamily()

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy bits of labels [N], once: uint8 [N, K]."""
        exact = _validate.labels(labels, num_classes=self.num_classes, secret=True)
        numpy_generator = as_discrete_generator(generator)
        flipped = np.empty((len(exact), self.num_classes), dtype=np.uint8)
        rows = max(1, _BLOCK_ENTRIES // self.num_classes)
        for start in range(0, len(exact), rows):  # the draws take eight times the space of bits
            block = flipped[start : start + rows]
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
        wrong = (bits != 0) & (bits != 1)
        if wrong.any():
            rows = np.flatnonzero(np.asarray(wrong).any(axis=1))
            raise ValueError(
                f"bits row {rows[0]} is {np.asarray(bits)[rows[0]]}; every entry must be 0 or 1"
            )

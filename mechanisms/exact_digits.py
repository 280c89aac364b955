"""Real numbers whose binary digits are drawn when a decision needs them, and exact coins of them.

A uniform real number has infinitely many digits. Whether one is below another is known after the
first digits in which they differ, so that coins with probabilities such as e^-x can be tossed
exactly, without any arithmetic on floating-point numbers (von Neumann, "Various techniques used in
connection with random digits", 1951). `secure_noise` makes normal and Laplace noise of them.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.randomness import SecureGenerator

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Digits:
    """Independent uniform real numbers in [0, 1), N of them, drawn word by word.

    A word holds `SecureGenerator.word_bits` binary digits of each number. Words once drawn stay.
    """

    def __init__(self, size: int, *, generator: SecureGenerator) -> None:
        self.size = size
        self._generator = generator
        self._words: list[NDArray[np.uint64]] = []

    def word(self, place: int) -> NDArray[np.uint64]:
        """Return the digits at `place` of every number, the most significant at 0 [N]."""
        while len(self._words) <= place:
            self._words.append(self._generator.words(self.size))
        return self._words[place]

    @property
    def resolution(self) -> float:
        """What the first word leaves open."""
        return float(2.0**-self._generator.word_bits)

    def first(self) -> NDArray[np.float64]:
        """Return the first word as a float in [0, 1], within 2^-word_bits + 2^-53 [N]."""
        return self.word(0).astype(np.float64) * self.resolution

    def interval(self, index: int, places: int) -> tuple[Fraction, Fraction]:
        """Return where a number lies after `places` words: from the first, below the second."""
        bits = self._generator.word_bits
        known = 0
        for place in range(places):
            known = (known << bits) | int(self.word(place)[index])
        whole = 1 << (bits * places)
        return Fraction(known, whole), Fraction(known + 1, whole)

    @classmethod
    def joined(cls, parts: Sequence[tuple["Digits", Indices]]) -> "Digits":
        """Return chosen numbers of several, in order; what they were chosen from is used up."""
        generator = parts[0][0]._generator
        together = cls(sum(len(chosen) for _, chosen in parts), generator=generator)
        for place in range(max(len(digits._words) for digits, _ in parts)):
            words = [digits.word(place)[chosen] for digits, chosen in parts]
            together._words.append(np.concatenate(words))
        return together


def below(left: Digits, left_index: Indices, right: Digits, right_index: Indices) -> Mask:
    """Whether each of these numbers on the left is below its partner on the right [M]."""
    result = np.zeros(len(left_index), dtype=np.bool_)
    open_ = np.arange(len(left_index))
    place = 0
    while open_.size:
        ours = left.word(place)[left_index[open_]]
        theirs = right.word(place)[right_index[open_]]
        result[open_] = ours < theirs
        open_ = open_[ours == theirs]
        place += 1
    return result


def exponential_coins(
    size: int,
    *,
    generator: SecureGenerator,
    start: tuple[Digits, Indices] | None = None,
    thinned: Callable[[Indices], Mask] | None = None,
) -> Mask:
    """Toss coins that come up with probability e^(-p x) [M], exactly.

    Uniform numbers are drawn as long as each is below the one before, x being the first, and a coin
    of probability p comes up beside it. n of them do with probability p^n x^n / n!, so that the
    number of those is even with probability 1 - p x + (p x)^2 / 2! - ... = e^(-p x).

    Args:
        size: M.
        generator: Where digits come from.
        start: The numbers x; 1 if not given.
        thinned: Tosses the coins of probability p, for the numbers at these indices of 0..M-1;
            they always come up if it is not given.
    """
    even = np.ones(size, dtype=np.bool_)
    active: Indices = np.arange(size)
    above = start
    while active.size:
        drawn = Digits(active.size, generator=generator)
        goes_on = np.ones(active.size, dtype=np.bool_)
        if above is not None:
            goes_on = below(drawn, np.arange(active.size), *above)
        if thinned is not None:
            goes_on &= thinned(active)
        active = active[goes_on]
        even[active] ^= True
        above = (drawn, np.flatnonzero(goes_on))
    return even

"""The price of a GNMax answer as a function of log q, and how far one vote can move it.

q bounds the probability of a surprising answer. Papernot et al., "Scalable Private Learning with
PATE", ICLR 2018 (arXiv:1802.08908), Appendix B: the price is flat above some q0; one vote moves q
within known bounds; and if the price and what one vote can add to it grow with q (conditions C5 and
C6), the worst votes within any distance are found by moving votes greedily. Nothing here is secret:
all follows from the noise, the number of classes and the order.

Everything is in logs, so 5,000 unanimous teachers are as good as 20 undecided ones.

>>> price = AnswerPrice(noise_std=40.0, num_classes=10, order=12.5)
>>> round(price.log_q0, 3), round(price.log_q1, 3), price.conditions(num_teachers=250)
(-3.493, -3.6, (True, True))
>>> AnswerPrice(noise_std=20.0, num_classes=10, order=25.0).conditions(num_teachers=250)
(True, False)
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from labeldp.mechanisms import _validate
from labeldp.mechanisms.pate.probabilities import log_q_gaussian
from labeldp.mechanisms.pate.renyi_bounds import Floats, checked_noise, rdp_gnmax

#: Points of log q at which conditions C5 and C6 are checked.
_CONDITION_POINTS = 5_000
#: Differences of prices carry rounding of about this many parts of the largest price.
_ROUNDING = 1e-13


class ConditionsFailed(ValueError):
    """The proofs behind smooth sensitivity do not cover these public parameters."""


@dataclass(frozen=True, kw_only=True)
class AnswerPrice:
    """The Renyi price of one GNMax answer as a function of log q, and how one vote moves it.

    All of it follows from public parameters.

    Attributes:
        noise_std: Standard deviation of the noise on every count.
        num_classes: K, at least 2.
        order: The Renyi order, above 1.
    """

    noise_std: float
    num_classes: int
    order: float

    def __post_init__(self) -> None:
        """Check the parameters."""
        checked_noise(noise_std=self.noise_std)
        _validate.whole(minimum=2, num_classes=self.num_classes)
        checked_order(self.order)

    @property
    def flat(self) -> float:
        """The price whatever the votes are, order / noise_std**2 (PATE 2018, Prop. 8)."""
        return self.order / self.noise_std**2

    @cached_property
    def log_q0(self) -> float:
        """Log of the q above which the price is flat.

        The search starts below the three points beyond which Theorem 6 cannot hold, and ends where
        the data-dependent bound meets the flat one.
        """
        inverse = 1 / self.noise_std
        outermost = max(1 + inverse, (self.order - 0.99) * inverse, inverse)
        high = -(outermost**2)

        def below_flat(log_q: Floats) -> NDArray[np.bool_]:
            # By more than the rounding of either, or a flat bound would pass for one below
            below: NDArray[np.bool_] = self._unclipped(log_q) < self.flat * (1 - _ROUNDING)
            return below

        if below_flat(np.array([high]))[0]:
            return high
        low = 1.5 * high
        while not below_flat(np.array([low]))[0]:
            low *= 1.5
        while high - low > 1e-14 * -low:
            grid = np.linspace(low, high, 66)
            last = int(np.flatnonzero(below_flat(grid[:-1]))[-1])
            if (grid[last], grid[last + 1]) == (low, high):
                break  # neighboring doubles
            low, high = float(grid[last]), float(grid[last + 1])
        return low

    @cached_property
    def log_q1(self) -> float:
        """Log of the q from which one vote can reach q0."""
        return float(self.after_a_vote(np.array([self.log_q0]), direction=-1)[0])

    @cached_property
    def largest_change(self) -> float:
        """The most that one vote can move the price from anywhere, that at q1."""
        return self.flat - float(self.price(np.array([self.log_q1]))[0])

    def _unclipped(self, log_q: Floats) -> Floats:
        return rdp_gnmax(log_q, self.noise_std, [self.order])[:, 0]

    def price(self, log_q: Floats) -> Floats:
        """Price at log q [N]: the data-dependent bound up to q0, and flat above."""
        below = self._unclipped(np.minimum(log_q, self.log_q0))
        below[log_q > self.log_q0] = self.flat
        return below

    def after_a_vote(self, log_q: Floats, *, direction: int) -> Floats:
        """The highest (direction 1) or lowest (-1) log q that one moved vote can lead to [N].

        No gap changes by more than 2 votes. That the worst is a change of all of them at equal gaps
        follows from the concavity of y -> Phi(Phi^-1(y) + t), t > 0, and Jensen.
        """
        log_others = math.log(self.num_classes - 1)
        shift = direction * math.sqrt(2) / self.noise_std
        moved = log_others + log_ndtr(ndtri_exp(log_q - log_others) + shift)
        result: Floats = np.minimum(moved, 0.0)
        return result

    def change(self, log_q: Floats) -> Floats:
        """The most that one vote can move the price at log q [N] (PATE 2018, Algorithm 3)."""
        near_q0 = (self.log_q1 <= log_q) & (log_q <= self.log_q0)
        up = self.after_a_vote(log_q, direction=1)
        down = self.after_a_vote(log_q, direction=-1)
        above, here, below = np.split(self.price(np.concatenate([up, log_q, down])), 3)
        change = np.maximum(np.maximum(above - here, here - below), 0.0)
        return np.where(near_q0, self.largest_change, change)

    def is_constant(self, *, num_teachers: int) -> bool:
        """Whether no votes of `num_teachers` are cheaper than flat, so that nothing is secret."""
        return bool(self._lowest_log_q(num_teachers) > self.log_q0)

    def _lowest_log_q(self, num_teachers: int) -> float:
        _validate.whole(minimum=1, num_teachers=num_teachers)
        unanimous = np.zeros((1, self.num_classes), dtype=np.int64)
        unanimous[0, 0] = num_teachers
        return float(log_q_gaussian(unanimous, self.noise_std)[0])

    def conditions(self, *, num_teachers: int) -> tuple[bool, bool]:
        """Whether conditions C5 and C6 of PATE 2018 hold on a fine grid of log q.

        C5: the price does not fall as q grows to q0. C6: what one vote can add to the price does
        not fall as q grows to q1. They are checked over every q that the votes of `num_teachers`
        can reach and one vote beyond.

        Returns:
            (C5, C6).
        """
        unanimous = np.array([self._lowest_log_q(num_teachers)])
        lowest = float(self.after_a_vote(unanimous, direction=-1)[0])

        def never_falls(values: Floats) -> bool:
            return bool((np.diff(values) >= -_ROUNDING * self.flat).all())

        def grid(high: float) -> Floats:
            # Even steps in sqrt(log 1/q), which is about even steps in the leader's lead
            far = math.sqrt(-min(lowest, high))
            return -(np.linspace(far, math.sqrt(-high), _CONDITION_POINTS) ** 2)

        c5 = never_falls(self.price(grid(self.log_q0)))
        log_q = grid(self.log_q1)
        rise = self.price(self.after_a_vote(log_q, direction=1)) - self.price(log_q)
        return c5, never_falls(rise)

    def require_conditions(self, *, num_teachers: int) -> None:
        """Refuse parameters for which C5 or C6 fails.

        Raises:
            ConditionsFailed: With the condition and the way out.
        """
        c5, c6 = self.conditions(num_teachers=num_teachers)
        if c5 and c6:
            return
        failed, meaning = (
            ("C6", "what one vote can add to the price") if c5 else ("C5", "the price of an answer")
        )
        raise ConditionsFailed(
            f"condition {failed} of PATE 2018, Appendix B, fails at noise_std {self.noise_std:g}, "
            f"{self.num_classes} classes and order {self.order:g}: {meaning} is not monotone in q, "
            "so its smooth sensitivity is not covered by the proofs and no sanitized epsilon can "
            "be released; a larger noise_std or a smaller order helps"
        )


def checked_order(order: float) -> None:
    """Refuse a Renyi order that is not a finite number above 1."""
    _validate.number(order=order)
    if not 1 < order < math.inf:
        raise ValueError(f"order is {order!r}; a Renyi order must be a finite number above 1")

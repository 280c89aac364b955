"""The one-run audit against a mechanism's own trade-off curve instead of its epsilon alone.

Mahloujifar, Melis and Chaudhuri, "Auditing f-Differential Privacy in One Run", ICML 2025
(arXiv:2410.22235). Epsilon-DP allows the worst mechanism of that epsilon; who claims Gaussian noise
or K-class randomized response claims more, namely a whole curve of false positives against false
negatives. Refuting the curve takes fewer right guesses, so the bound is tighter: much
for Gaussian noise, little for randomized response, whose surest outputs are those of the worst.

The answer is an epsilon *of that family*: "if this is randomized response at all, its epsilon is at
least ...". `one_run.one_run_lower_bound` makes no such assumption.

>>> counts = {"canaries": 1000, "guesses": 600, "correct": 450}
>>> round(f_dp_lower_bound(**counts, curve=GaussianCurve(delta=1e-5)), 2)
1.66
>>> round(f_dp_lower_bound(**counts, curve=PureCurve()), 2)
0.93
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from labeldp.mechanisms import _validate
from labeldp.mechanisms._roots import brentq
from labeldp.mechanisms.accounting import log_gaussian_delta
from labeldp.mechanisms.auditing.one_run import check_counts

_LARGEST_EPSILON = 40.0


@dataclass(frozen=True, kw_only=True)
class PureCurve:
    """Any epsilon-DP mechanism at all: chances differ by at most a factor e^epsilon."""

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """How likely a wrong guess must at least be, given the likelihood of a right one."""
        # both lines of the curve: e^-eps x, and 1 - e^eps (1 - x) near certainty
        shrink, grow = math.exp(-epsilon), math.exp(epsilon)
        return lambda right: max(shrink * right, 1 - grow * (1 - right))


@dataclass(frozen=True, kw_only=True)
class RandomizedResponseCurve:
    """K-class randomized response.

    Attributes:
        num_classes: K, at least 2.
    """

    num_classes: int

    def __post_init__(self) -> None:
        """Check the number of classes."""
        _validate.whole(minimum=2, num_classes=self.num_classes)

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """How likely a wrong guess must at least be, given the likelihood of a right one."""
        other = 1 / (math.exp(epsilon) + self.num_classes - 1)
        keep = 1 - (self.num_classes - 1) * other
        # Outputs in the order in which they speak for a label: itself, those that say nothing, the
        # label it is tested against. Sums of their chances under that label, and under the other.
        right = [0.0, keep, 1 - other, 1.0]
        wrong = [0.0, other, 1 - keep, 1.0]
        return lambda likelihood: float(np.interp(likelihood, right, wrong))


@dataclass(frozen=True, kw_only=True)
class GaussianCurve:
    """The Gaussian mechanism, once or composed; its epsilon is stated at `delta`.

    Attributes:
        delta: In (0, 1).
    """

    delta: float

    def __post_init__(self) -> None:
        """Check delta."""
        _validate.between(0, 1, delta=self.delta)

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """How likely a wrong guess must at least be, given the likelihood of a right one."""
        target = math.log(self.delta)

        def excess(log_separation: float) -> float:
            multiplier = math.exp(-log_separation)
            log_delta = log_gaussian_delta(noise_multiplier=multiplier, epsilon=epsilon)
            return max(log_delta, -1e300) - target

        separation = math.exp(brentq(excess, -20.0, 5.0, xtol=1e-12))
        return lambda right: float(ndtr(ndtri(right) - separation))


Curve = PureCurve | RandomizedResponseCurve | GaussianCurve


def f_dp_lower_bound(
    *, canaries: int, guesses: int, correct: int, curve: Curve, confidence: float = 0.95
) -> float:
    """Largest epsilon of the family `curve` that the guesses refute; 0 where they refute none.

    Args:
        canaries: M, canaries in the run, guessed or not.
        guesses: R, how many coins were guessed; fixed without looking at the outputs.
        correct: How many of the guesses are right.
        curve: The family.
        confidence: The bound exceeds the true epsilon with probability at most 1 - confidence.

    Raises:
        ValueError: As `one_run_lower_bound`.
    """
    check_counts(canaries, guesses, correct, confidence)

    def refuted(epsilon: float) -> bool:
        smallest_wrong = curve.smallest_wrong(epsilon)
        return _refuted(smallest_wrong, canaries, guesses, correct, 1 - confidence)

    low, high = 0.0, _LARGEST_EPSILON
    if correct == 0 or not refuted(1e-9):
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


def _refuted(
    smallest_wrong: Callable[[float], float],
    canaries: int,
    guesses: int,
    correct: int,
    error: float,
) -> bool:
    """The paper's recursion, for two candidates.

    If `correct` guesses or more were right with probability `error`, then, going down one right
    guess at a time, right and wrong guesses would have to be at least this likely; together they
    cannot exceed the share of canaries that is guessed.
    """
    right = error * correct / canaries
    wrong = error * (guesses - correct) / canaries
    share = guesses / canaries
    for fewer in range(correct - 1, -1, -1):
        next_wrong = max(wrong, smallest_wrong(right))
        right = min(1.0, right + fewer / (guesses - fewer) * (next_wrong - wrong))
        wrong = next_wrong
        if right + wrong > share:
            return True  # both only grow
    return False

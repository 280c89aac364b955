"""The score of a PATE decision: how its probabilities move with the vote that is changed.

Counts are in units of the noise. A changed vote moves them along a direction s; an outcome i has
probability f_i and *score* t_i, the derivative of log f_i along s. `docs/decision_accounting.md`
derives from scores alone a bound on every Renyi divergence; `decision_certificate` certifies it.

- The check of one noisy count against a threshold: it passes with probability Phi(x), s = 1.
- The answer, for any number of classes: given m, the largest noisy count of all classes but the
  two that the vote moves, X ~ N(u, 1) and Y ~ N(v, 1) are those two less m, and s = (1, -1). The
  first wins if X > 0 and X > Y, the second if Y > 0 and Y > X, another if X < 0 and Y < 0.

>>> passes, fails = check_outcomes(np.array([0.0]))
>>> passes.probability, passes.score.round(4), fails.score.round(4)
(array([0.5]), array([0.7979]), array([-0.7979]))
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from labeldp.mechanisms.pate.renyi_bounds import Floats

#: Positive quadrature of a density of width 1 or less in a window of 18: right to 12 digits.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_WINDOW = 9.0
_ROOT_TWO = math.sqrt(2)
#: Below this exponents are expanded: expm1(y) - y loses digits there.
_SMALL = 1e-2


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """One outcome of a decision at many places of the counts.

    Attributes:
        probability: f [P].
        score: t, the derivative of log f along the direction in which a vote moves the counts [P].
        steepness: Length of the whole gradient of log f [P].
    """

    probability: Floats
    score: Floats
    steepness: Floats


def density(x: Floats) -> Floats:
    """The standard normal density."""
    result: Floats = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return result


def excess(score: Floats, kappa: float) -> Floats:
    """w(t) = (exp(kappa t) - 1 - kappa t) / kappa^2, which is t^2 / 2 at kappa = 0."""
    y = kappa * score
    small = np.abs(y) < _SMALL
    series = score**2 * (1 / 2 + y / 6 + y**2 / 24 + y**3 / 120 + y**4 / 720)
    if small.all():
        return np.asarray(series)
    with np.errstate(over="ignore"):  # a bound of infinity is a bound
        whole = (np.expm1(y) - y) / kappa**2
    return np.where(small, series, whole)


def check_outcomes(x: Floats) -> tuple[Outcome, Outcome]:
    """Passing and failing of a check whose noiseless count is x above the threshold [P]."""
    passes, fails = ndtr(x), ndtr(-x)
    up, down = density(x) / passes, density(x) / fails
    return (
        Outcome(probability=passes, score=up, steepness=up),
        Outcome(probability=fails, score=-down, steepness=down),
    )


def first_wins(u: Floats, v: Floats) -> Floats:
    """Probability that X > 0 and X > Y [P]: the integral over x > 0 of phi(x - u) Phi(x - v)."""
    mode = np.maximum(0.0, np.where(u > v, u, (u + v) / 2))
    low = np.maximum(0.0, mode - _WINDOW)
    half = (mode + _WINDOW - low) / 2
    x = low[..., None] + half[..., None] * (_NODES + 1)
    result: Floats = half * ((density(x - u[..., None]) * ndtr(x - v[..., None])) @ _WEIGHTS)
    return result


def answer_outcomes(u: Floats, v: Floats) -> tuple[Outcome, Outcome, Outcome]:
    """The first class wins, the second, or another; X ~ N(u, 1), Y ~ N(v, 1), u and v [P]."""
    first, second, neither = first_wins(u, v), first_wins(v, u), ndtr(-u) * ndtr(-v)
    # Mass that moves where X = Y > 0, where X = 0 > Y and where Y = 0 > X.
    tie = density((u - v) / _ROOT_TWO) / _ROOT_TWO * ndtr((u + v) / _ROOT_TWO)
    enters, leaves = density(u) * ndtr(-v), density(v) * ndtr(-u)
    up, down = density(u) / ndtr(-u), density(v) / ndtr(-v)
    return (
        Outcome(
            probability=first,
            score=(enters + 2 * tie) / first,
            steepness=np.hypot(enters + tie, tie) / first,
        ),
        Outcome(
            probability=second,
            score=-(leaves + 2 * tie) / second,
            steepness=np.hypot(leaves + tie, tie) / second,
        ),
        Outcome(probability=neither, score=down - up, steepness=np.hypot(up, down)),
    )

"""What a decision of PATE costs for any votes: less than the counts that it was made of.

GNMax gives out which noisy count is the largest, not the counts, and a check one bit. Their Renyi
divergences are bounded here, for any votes and any number of classes, by

    D_a <= (log(1 + kappa^2 C(kappa)) + R) / (a - 1),     kappa = d sqrt(a (a - 1)),
    R = M a (a - 1) d^3 / (6 (sqrt(a) + sqrt(a - 1))^2),

with d = 1 / sigma1, M = 2 for a check and d = 1 / sigma2, M = 4 sqrt(2) for an answer. C is the
largest possible value of sum_i f_i (exp(kappa t_i) - 1 - kappa t_i) / kappa^2 over the outcomes'
probabilities f_i and scores t_i: one function of one number for all noise and all orders. Its table
is certified by `decision_certificate`, and proofs are in docs/decision_accounting.md. With much
noise a decision costs .637 (check) and .641 (answer) of what its counts do. We know of no
publication of these bounds.

Where the table ends (kappa above 8: order 320 at sigma 40) the price is that of the counts, which
is never exceeded.

>>> decision_rdp_gnmax(240.0, [2.0, 20.0]).round(8), (np.array([2.0, 20.0]) / 240**2).round(8)
(array([2.2250e-05, 2.2236e-04]), array([3.4720e-05, 3.4722e-04]))
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from labeldp.mechanisms.pate.decision_table import ROWS
from labeldp.mechanisms.pate.renyi_bounds import Floats, checked_noise, checked_orders

_KAPPA, _CHECK, _ANSWER = np.array(ROWS).T
#: The most that a third derivative of log f_i along the vote's direction can be: twice its length
#: to the third power, since skewness is at most 2 where densities are log-concave.
_CHECK_THIRD, _ANSWER_THIRD = 2.0, 4 * math.sqrt(2)


def decision_rdp_threshold(sigma1: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of a check of one noisy count, for any votes [A].

    Certified; at most order / (2 sigma1^2), the price of the noisy count itself. It holds for a
    count that one vote moves by 1 or less: the largest count of Confident-GNMax, and the largest
    surplus over a student's guess of Interactive-GNMax.

    Args:
        sigma1: Standard deviation of the noise on the count.
        orders: Renyi orders [A], above 1.

    Raises:
        ValueError: Noise or orders out of range.
    """
    checked_noise(sigma1=sigma1)
    checked = checked_orders(orders)
    bound = _bound(1 / sigma1, checked, np.log(_CHECK), _CHECK_THIRD)
    return np.minimum(bound, checked / (2 * sigma1**2))


def decision_rdp_gnmax(sigma2: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of the class with the largest noisy count, for any votes and classes [A].

    Certified; at most order / sigma2^2, the price of all noisy counts. It also holds for a check of
    the largest of noisy counts with `sigma2` on each: that tells less than which of them it is.

    Args:
        sigma2: Standard deviation of the noise on every count.
        orders: Renyi orders [A], above 1.

    Raises:
        ValueError: Noise or orders out of range.
    """
    checked_noise(sigma2=sigma2)
    checked = checked_orders(orders)
    bound = _bound(1 / sigma2, checked, np.log(_ANSWER), _ANSWER_THIRD)
    return np.minimum(bound, checked / sigma2**2)


def _bound(shift: float, orders: Floats, log_table: Floats, third: float) -> Floats:
    """The formula of the module [A]; infinite where the table ends."""
    both = orders * (orders - 1)
    kappa = shift * np.sqrt(both)
    # log C is convex in kappa, so a straight line between two nodes lies above it.
    log_c = np.interp(kappa, _KAPPA, log_table, right=np.inf)
    spread = np.sqrt(orders) + np.sqrt(orders - 1)
    remainder = third * both * shift**3 / (6 * spread**2)
    with np.errstate(over="ignore"):
        first = np.log1p(kappa**2 * np.exp(log_c))
    result: Floats = (first + remainder) / (orders - 1)
    return result

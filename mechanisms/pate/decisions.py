"""What a decision of PATE costs for any votes: less than the counts that it was made of.

GNMax releases which noisy count is the largest, not the counts, and a check one bit. Their Renyi
divergences are bounded here, for any votes and any number of classes, by

    D_a <= (log(1 + kappa^2 C(kappa)) + R) / (a - 1),     kappa = d sqrt(a (a - 1)),
    R = M a (a - 1) d^3 / (6 (sqrt(a) + sqrt(a - 1))^2),

with d = 1 / sigma1, M = 2 for a check and d = 1 / sigma2, M = 4 sqrt(2) for an answer. C is one
function of one number for all noise and all orders; `decision_certificate` certifies its table, and
proofs are in docs/decision_accounting.md. With much noise a decision costs .637 (check) and .641
(answer) of what its counts do. Where the table ends (kappa above 8: order 320 at sigma 40) the
price is that of the counts, which is never exceeded.

>>> decision_rdp_gnmax(240.0, [2.0, 20.0]).round(8), (np.array([2.0, 20.0]) / 240**2).round(8)
(array([2.2250e-05, 2.2236e-04]), array([3.4720e-05, 3.4722e-04]))
>>> run = [Decisions(noise_std=800.0, count=1000, moved=1), Decisions(noise_std=240.0, count=300)]
>>> for accounting in Accounting:
...     (event,) = events_of(run, accounting)
...     print(accounting, round(epsilon_of([event], delta=1e-5), 3))
decision 0.325
counts 0.376
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import ORDERS, DecisionEvent, GaussianEvent, epsilon_of
from labeldp.mechanisms.pate.published_bounds import checked_noise, checked_orders
from labeldp.mechanisms.pate.votes import Floats

__all__ = [
    "Accounting",
    "Decisions",
    "decision_rdp_gnmax",
    "decision_rdp_threshold",
    "epsilon_of",
    "events_of",
]

#: kappa, C(kappa) of a check, C(kappa) of an answer, made by `decision_certificate` [105, 3].
TABLE = np.loadtxt(Path(__file__).with_name("decision_table.csv"), delimiter=",", skiprows=1)
_KAPPA, _CHECK, _ANSWER = TABLE.T
#: The most that a third derivative of log f_i along the vote's direction can be: twice its length
#: to the third power, since skewness is at most 2 where densities are log-concave.
_CHECK_THIRD, _ANSWER_THIRD = 2.0, 4 * math.sqrt(2)


class Accounting(StrEnum):
    """What an answer or a check of PATE is priced as.

    DECISION: What is released: the class with the largest noisy count, or one bit. For any votes
        `decision_rdp_gnmax` and `decision_rdp_threshold`, for given votes `exact_costs`.
    COUNTS: The published price, of all noisy counts: for any votes that of the Gaussian mechanism,
        for given votes the bounds of PATE 2018.
    """

    DECISION = "decision"
    COUNTS = "counts"


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """A number of decisions of one kind.

    Attributes:
        noise_std: Of the noise on every count. count: How many. moved: How many of the noisy counts
        one vote moves: 2 for an answer and for a check with noise
            on every class, 1 for a check of the largest count.
    """

    noise_std: float
    count: int
    moved: int = 2

    def __post_init__(self) -> None:
        checked_noise(noise_std=self.noise_std)
        _validate.whole(count=self.count)
        assert self.moved in (1, 2)

    @property
    def precision(self) -> float:
        """Squared sensitivity of all noisy counts over their variance."""
        return self.moved * self.count / self.noise_std**2

    def rdp(self, orders: ArrayLike = ORDERS) -> Floats:
        """Certified Renyi divergence of the decisions, for any votes [A]."""
        once = decision_rdp_threshold if self.moved == 1 else decision_rdp_gnmax
        return self.count * once(self.noise_std, orders)


def events_of(
    decisions: Sequence[Decisions], accounting: Accounting = Accounting.DECISION
) -> tuple[GaussianEvent, ...]:
    """Return the one event that these decisions are for every label, or none for no decisions."""
    precision = sum(each.precision for each in decisions)
    if not precision:
        return ()
    multiplier = precision**-0.5
    if accounting is Accounting.COUNTS:
        return (GaussianEvent(noise_multiplier=multiplier),)
    rdp: Floats = np.sum([each.rdp() for each in decisions], axis=0)
    return (
        DecisionEvent(
            noise_multiplier=multiplier, orders=tuple(ORDERS.tolist()), rdp=tuple(rdp.tolist())
        ),
    )


def decision_rdp_threshold(sigma1: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of a check of one noisy count, for any votes [A].

    Certified; at most order / (2 sigma1^2), the price of the noisy count itself. It holds for a
    count that one vote moves by 1 or less: the largest count of Confident-GNMax, and the largest
    surplus over a student's guess of Interactive-GNMax.
    """
    checked_noise(sigma1=sigma1)
    checked = checked_orders(orders)
    bound = _bound(1 / sigma1, checked, np.log(_CHECK), _CHECK_THIRD)
    return np.minimum(bound, checked / (2 * sigma1**2))


def decision_rdp_gnmax(sigma2: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of the class with the largest noisy count, any votes and classes [A].

    Certified; at most order / sigma2^2, the price of all noisy counts. It also holds for a check
    with noise of `sigma2` on every count, which reveals less.
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

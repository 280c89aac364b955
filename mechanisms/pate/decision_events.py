"""From numbers of decisions to events: what the ledger charges PATE for, whatever the votes.

>>> run = [Decisions(noise_std=800.0, count=1000, moved=1), Decisions(noise_std=240.0, count=300)]
>>> for accounting in Accounting:
...     (event,) = events_of(run, accounting)
...     print(accounting, round(epsilon_of([event], delta=1e-5), 3))
decision 0.325
counts 0.376
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import ORDERS, DecisionEvent, GaussianEvent, epsilon_of
from labeldp.mechanisms.pate.decision_bounds import decision_rdp_gnmax, decision_rdp_threshold
from labeldp.mechanisms.pate.renyi_bounds import Floats, checked_noise

__all__ = ["Accounting", "Decisions", "epsilon_of", "events_of"]


class Accounting(StrEnum):
    """What an answer or a check of PATE is priced as.

    DECISION: What leaves: the class with the largest noisy count, or one bit. For any votes
        `decision_bounds`, for given votes `exact_costs`.
    COUNTS: The published price, of all noisy counts: for any votes that of the Gaussian mechanism,
        for given votes the bounds of PATE 2018.
    """

    DECISION = "decision"
    COUNTS = "counts"


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """So many decisions of one kind.

    Attributes:
        noise_std: Of the noise on every count.
        count: How many.
        moved: How many of the noisy counts one vote moves: 2 for an answer and for a check with
            noise on every class, 1 for a check of the largest count.
    """

    noise_std: float
    count: int
    moved: int = 2

    def __post_init__(self) -> None:
        """Check the numbers."""
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

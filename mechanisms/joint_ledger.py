"""What several ledgers cost a label together, whether or not it is known which labels they share.

Every fit of a cross-validation sees some of the labels and has a ledger of its own. Where it is
known which label each row is (`people`), a label pays for the fits that it was in. Where it is not,
one label may have been in all of them, at the dearest place in each: that is what is charged.

>>> from labeldp.mechanisms.accounting import PureEvent
>>> charge = Charge(key="r", event=PureEvent(epsilon=1.0), indices=None, mechanism={},
...                 failure_probability=0.0)
>>> def fold(*people):
...     return LedgerPart(charges=[charge], num_labels=2, people=np.array(people))
>>> joint_epsilon([fold(0, 1), fold(1, 2), fold(2, 0)], delta=0.0)
2.0
>>> unknown = LedgerPart(charges=[charge], num_labels=2)
>>> joint_epsilon([unknown, unknown, unknown], delta=0.0)
3.0
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import Event
from labeldp.mechanisms.ledger import PrivacyLedger, check_indices, delta_of_total, ledger_of
from labeldp.mechanisms.release_store import Charge


@dataclass(frozen=True, kw_only=True, eq=False)
class LedgerPart:
    """One of several ledgers.

    Attributes:
        charges: Its lines, over its own labels 0..N-1.
        num_labels: N.
        people: Which label of all there are each of them is [N], each once; None where nobody
            knows.
    """

    charges: Sequence[Charge]
    num_labels: int
    people: NDArray[np.integer] | None = None

    def __post_init__(self) -> None:
        """Check that there is one of `people` for each label, and none twice."""
        _validate.whole(num_labels=self.num_labels, minimum=1)
        if self.people is None:
            return
        if self.people.shape != (self.num_labels,) or self.people.min() < 0:
            raise ValueError(
                f"people has shape {self.people.shape} for {self.num_labels} labels; it must name "
                "each of them by a whole number from 0"
            )
        if len(np.unique(self.people)) < self.num_labels:
            raise ValueError("people names one label twice; every row has a label of its own")


def joint_charges(parts: Sequence[LedgerPart]) -> list[Charge]:
    """Return the lines of all parts, in order."""
    return [charge for part in parts for charge in part.charges]


def joint_delta(parts: Sequence[LedgerPart], *, delta: float) -> float:
    """At which delta `joint_epsilon` is stated, as `delta_of_total`."""
    return delta_of_total(joint_charges(parts), delta=delta)


def joint_epsilon(parts: Sequence[LedgerPart], *, delta: float) -> float:
    """Epsilon of the label that has paid most over all parts; infinite where none holds."""
    known = [part.people for part in parts if part.people is not None]
    total = PrivacyLedger(num_labels=1 + max((int(people.max()) for people in known), default=0))
    for part in parts:
        total.add_failures(part.charges)
        if part.people is None:
            for event in _dearest(part).elements():
                total.charge(event)
            continue
        for charge in part.charges:
            own = charge.indices
            rows = slice(None) if own is None else check_indices(own, part.num_labels)
            total.charge(charge.event, indices=part.people[rows])
    return total.epsilon_or_infinity(delta=delta)


def _dearest(part: LedgerPart) -> "Counter[Event]":
    """Events that no label of a part has more of: each as often as any one label has it."""
    events: Counter[Event] = Counter()
    for history in ledger_of(part.charges, num_labels=part.num_labels).histories():
        events |= history
    return events

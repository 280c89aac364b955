"""The ledger in words: what was released of which labels, at what price.

>>> from labeldp.mechanisms.accounting import PureEvent
>>> charge = Charge(key="9a", event=PureEvent(epsilon=2.0), indices=None, failure_probability=0.0,
...     mechanism={"name": "LaplaceNoise", "epsilon": 2.0, "noise": {"name": "OsEntropy", "draw": 0}})
>>> print(line_of(charge, num_labels=800, delta=1e-5))
LaplaceNoise of 800 labels: epsilon 2, paid now
"""

import math
from dataclasses import dataclass
from typing import Any

from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.mechanisms.release_store import Charge


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """One release, and what it cost each label that it touches.

    Attributes:
        key: Of the release.
        mechanism: What was done to the labels.
        labels: How many of them.
        epsilon: Of this release alone.
        delta: At which it holds; 0 where it is pure.
        seeded: Whether its noise came from a seed, which takes it off again.
        new: Whether it was paid for now; else an earlier fit paid, and it was read again for free.
    """

    key: str
    mechanism: str
    labels: int
    epsilon: float
    delta: float
    seeded: bool
    new: bool

    def __str__(self) -> str:
        """Return the line for people."""
        price = "infinite" if math.isinf(self.epsilon) else f"{self.epsilon:.4g}"
        at = f" at delta {self.delta:g}" if self.delta else ""
        paid = "paid now" if self.new else "paid by an earlier fit and read again"
        seeded = "; noise from a seed: no guarantee for who knows it" if self.seeded else ""
        return f"{self.mechanism} of {self.labels:,} labels: epsilon {price}{at}, {paid}{seeded}"


def line_of(charge: Charge, *, num_labels: int, delta: float, new: bool = True) -> LedgerLine:
    """Return a charge as a line.

    Args:
        charge: Of the ledger.
        num_labels: N, what `indices` None stands for.
        delta: At which it is stated where it is not pure.
        new: Whether it was paid for now.
    """
    at = delta_of_total([charge], delta=delta)
    noise: Any = charge.mechanism.get("noise", {})
    return LedgerLine(
        key=charge.key,
        mechanism=str(charge.mechanism.get("name", "unknown")),
        labels=num_labels if charge.indices is None else len(charge.indices),
        epsilon=epsilon_of_prices([charge], delta=at),
        delta=at,
        seeded=noise.get("name") == "SeededNoise",
        new=new,
    )

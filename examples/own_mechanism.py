"""A mechanism of your own, in a vault: `python examples/own_mechanism.py`.

The exponential mechanism (McSherry and Talwar 2007). docs/adding_a_mechanism.md explains members.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from labeldp.mechanisms import LabelVault
from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.randomness import as_discrete_generator


@dataclass(frozen=True, kw_only=True)
class NearRating:
    """A rating r with probability in proportion to exp(-epsilon |r - true| / (2 (K - 1)))."""

    epsilon: float
    num_classes: int
    failure_probability: ClassVar[float] = 0.0

    @property
    def event(self):
        """Return the price of one release for each label."""
        return PureEvent(epsilon=self.epsilon)

    def release(self, labels, *, generator):
        """Draw a rating for each label."""
        far = np.abs(np.subtract.outer(range(self.num_classes), range(self.num_classes)))
        weights = np.exp(-self.epsilon * far / (self.num_classes - 1) / 2)
        below = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)[:, :-1]
        drawn = as_discrete_generator(generator).random(len(labels))
        return (drawn[:, None] > below[labels]).sum(axis=1)


vault = LabelVault(labels=np.arange(1000) % 5, num_classes=5)
released = vault.release(NearRating(epsilon=2.0, num_classes=5)).values
print(f"mean of released ratings {released.mean():.2f}, epsilon {vault.epsilon(delta=0.0):g}")

"""What a run of PATE with two classes cost, exactly, and how much one label could change that.

With two classes and T teachers a query's votes are one number n, of 0..T, and one changed label
moves it by at most one. So the exact Renyi divergence of an answer, or of a check, is a table of
T + 1 entries; how far one vote moves it is the difference of neighbors; and the votes at distance d
that are worst for a query are the worst within d places of the table. That is all that smooth
sensitivity needs (Nissim, Raskhodnikova and Smith 2007), for both directions of a change, and no
condition on the parameters. With more classes the worst votes within a distance are not known, and
`secret_cost` goes by the bounds of PATE 2018.

>>> table = ExactTables(num_teachers=250, noise_std=40.0, order=8.0)
>>> table.answers.shape, bool(np.isclose(table.answers[10], table.answers[240]))
((251,), True)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.pate.answer_price import checked_order
from labeldp.mechanisms.pate.decision_bounds import decision_rdp_gnmax, decision_rdp_threshold
from labeldp.mechanisms.pate.exact_costs import exact_rdp_gnmax, exact_rdp_threshold
from labeldp.mechanisms.pate.local_sensitivity import threshold_changes
from labeldp.mechanisms.pate.renyi_bounds import Floats, checked_noise
from labeldp.mechanisms.pate.secret_cost import SecretCost


@dataclass(frozen=True, kw_only=True)
class ExactTables:
    """Exact prices at one order for every number of votes; all of it is public.

    Attributes:
        num_teachers: T.
        noise_std: Standard deviation of the noise on both counts of an answer.
        order: The Renyi order, above 1.
        threshold: What the noisy largest count must reach; None where nothing is checked.
        sigma1: Standard deviation of the noise on it.
    """

    num_teachers: int
    noise_std: float
    order: float
    threshold: float | None = None
    sigma1: float | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        _validate.whole(minimum=1, num_teachers=self.num_teachers)
        checked_noise(noise_std=self.noise_std)
        checked_order(self.order)

    @cached_property
    def answers(self) -> Floats:
        """Price of an answer where a class has 0..T votes [T + 1]."""
        return np.asarray(exact_rdp_gnmax(self._histograms, self.noise_std, [self.order])[:, 0])

    @cached_property
    def checks(self) -> Floats:
        """Price of a check likewise [T + 1]; 0 where nothing is checked."""
        if self.threshold is None or self.sigma1 is None:
            return np.zeros(self.num_teachers + 1)
        found = exact_rdp_threshold(self._histograms, self.threshold, self.sigma1, [self.order])
        return np.asarray(found[:, 0])

    def flat(self, *, checked: int, answered: int) -> float:
        """What so many checks and answers cost whatever the votes are."""
        answers = answered * float(decision_rdp_gnmax(self.noise_std, [self.order])[0])
        if self.sigma1 is None:
            return answers
        return answers + checked * float(decision_rdp_threshold(self.sigma1, [self.order])[0])

    def largest_change(self, *, checked: int, answered: int) -> float:
        """The most by which one label can move the cost of so many, whatever the votes are."""
        answers, checks = (float(threshold_changes(part).max()) for part in self._parts)
        return answered * answers + checked * checks

    def cost(self, votes: NDArray[np.integer[Any]], *, answered: NDArray[np.bool_]) -> SecretCost:
        """Return what a run cost, and its sensitivity: secret, both.

        Args:
            votes: Counts [N, 2] of every query that was checked.
            answered: Which queries were answered [N].
        """
        count = votes[:, 0].astype(np.intp)
        rdp, sensitivity = 0.0, np.zeros(self.num_teachers)
        for prices, asked in zip(self._parts, (count[answered], count), strict=True):
            numbers = np.bincount(asked, minlength=self.num_teachers + 1)
            rdp += float(numbers @ prices)
            sensitivity += _worst_within(threshold_changes(prices), self.num_teachers) @ numbers
        return SecretCost(
            rdp=rdp,
            sensitivity=sensitivity,
            rdp_flat=self.flat(checked=len(votes), answered=int(answered.sum())),
            largest_sensitivity=self.largest_change(checked=len(votes), answered=len(votes)),
        )

    @property
    def _histograms(self) -> NDArray[np.int64]:
        """Votes [T + 1, 2]."""
        first = np.arange(self.num_teachers + 1)
        return np.stack([first, self.num_teachers - first], axis=1)

    @property
    def _parts(self) -> tuple[Floats, Floats]:
        return self.answers, self.checks


def _worst_within(changes: Floats, distances: int) -> Floats:
    """The largest change within 0..D-1 places of every number of votes [D, T + 1]."""
    result = np.empty((distances, len(changes)))
    worst = changes.copy()
    for distance in range(distances):
        result[distance] = worst
        wider = worst.copy()
        np.maximum(wider[1:], worst[:-1], out=wider[1:])
        np.maximum(wider[:-1], worst[1:], out=wider[:-1])
        worst = wider
    return result

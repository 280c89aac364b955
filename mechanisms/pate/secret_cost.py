"""What a run of PATE cost, and how much one label could change that: secret, both.

The cost is the realised one: every check, and every answer that was given. Which queries were
answered is public; given that, costs depend on the votes through the prices of the queries alone,
and one changed label moves one vote of every query.

`labeldp.mechanisms.pate.smooth_sensitivity.release_epsilon` publishes a bound on it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.pate.answer_price import AnswerPrice
from labeldp.mechanisms.pate.local_sensitivity import (
    largest_counts,
    local_sensitivity_gnmax,
    local_sensitivity_threshold,
    threshold_changes,
    threshold_prices,
)
from labeldp.mechanisms.pate.probabilities import log_q_gaussian
from labeldp.mechanisms.pate.renyi_bounds import Floats

#: Sensitivities by distance that are held at once.
_CHUNK_ENTRIES = 2**22


@dataclass(frozen=True, kw_only=True, eq=False)
class SecretCost:
    """A Renyi cost at one order, its sensitivity, and what is public about both.

    Attributes:
        rdp: The data-dependent cost; secret.
        sensitivity: How much one label can change it, by distance [T], never falling; secret.
        rdp_flat: The cost whatever the votes are; public.
        largest_sensitivity: The sensitivity whatever the votes and whichever queries are answered;
            public.
    """

    rdp: float
    sensitivity: Floats
    rdp_flat: float
    largest_sensitivity: float

    def __add__(self, other: "SecretCost") -> "SecretCost":
        """Cost of both about the same labels."""
        return SecretCost(
            rdp=self.rdp + other.rdp,
            sensitivity=self.sensitivity + other.sensitivity,
            rdp_flat=self.rdp_flat + other.rdp_flat,
            largest_sensitivity=self.largest_sensitivity + other.largest_sensitivity,
        )


def cost_of_checks(
    counts: NDArray[Any], *, num_teachers: int, threshold: float, sigma1: float, order: float
) -> SecretCost:
    """Cost of comparing the largest count of every query with the threshold.

    Args:
        counts: Votes [N, K], or votes less a guess.
        num_teachers: T.
        threshold: What the noisy largest count must reach.
        sigma1: Standard deviation of the noise on it.
        order: The Renyi order.

    Raises:
        ValueError: A largest count outside 0..T (the row is named).
    """
    peaks, multiplicity = np.unique(
        largest_counts(counts, num_teachers=num_teachers), return_counts=True
    )
    prices = threshold_prices(
        num_teachers=num_teachers, threshold=threshold, sigma1=sigma1, order=order
    )
    sensitivity = np.zeros(num_teachers)
    height = max(1, _CHUNK_ENTRIES // num_teachers)
    for start in range(0, len(peaks), height):
        rows = slice(start, start + height)
        by_distance = local_sensitivity_threshold(
            peaks[rows, None] * [1.0, 0.0], num_teachers, threshold, sigma1, order
        )
        # When d labels changed, each query may be at any distance up to d from where it was.
        sensitivity += multiplicity[rows] @ np.maximum.accumulate(by_distance, axis=1)
    return SecretCost(
        rdp=float(multiplicity @ prices[peaks]),
        sensitivity=sensitivity,
        rdp_flat=len(counts) * order / (2 * sigma1**2),
        largest_sensitivity=len(counts) * float(threshold_changes(prices).max()),
    )


def cost_of_answers(
    votes: NDArray[np.integer[Any]], *, price: AnswerPrice, answered: NDArray[np.bool_]
) -> SecretCost:
    """Cost of the answers that were given.

    Args:
        votes: Counts [N, K].
        price: Of one answer.
        answered: Which queries were answered [N].

    Raises:
        ConditionsFailed: Local sensitivities are not proven for these public parameters.
    """
    num_teachers = int(votes[0].sum())
    sensitivity = np.zeros(num_teachers)
    rdp = rdp_flat = price.flat * int(answered.sum())
    if price.is_constant(num_teachers=num_teachers):
        return SecretCost(
            rdp=rdp, sensitivity=sensitivity, rdp_flat=rdp_flat, largest_sensitivity=0.0
        )
    price.require_conditions(num_teachers=num_teachers)
    if answered.any():
        descending = -np.sort(-votes[answered].astype(np.int64), axis=1)
        histograms, multiplicity = np.unique(descending, axis=0, return_counts=True)
        rdp = float(multiplicity @ price.price(log_q_gaussian(histograms, price.noise_std)))
        height = max(1, _CHUNK_ENTRIES // num_teachers)
        for start in range(0, len(histograms), height):
            rows = slice(start, start + height)
            sensitivity += multiplicity[rows] @ local_sensitivity_gnmax(
                histograms[rows], num_teachers, price.noise_std, price.order
            )
    return SecretCost(
        rdp=rdp,
        sensitivity=sensitivity,
        rdp_flat=rdp_flat,
        largest_sensitivity=len(votes) * price.largest_change,
    )

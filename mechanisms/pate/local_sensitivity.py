"""How far one vote can move a PATE price, at the votes themselves and at every distance from them.

PATE's data-dependent price is itself a function of the secret votes, so it may be published only
with noise, and the noise must cover how much the price could change: at distance d, the largest
change over all votes that differ from these in at most d teachers. This module computes it for
answers and for checks, after Papernot et al., "Scalable Private Learning with PATE", ICLR 2018
(arXiv:1802.08908), Appendix B, Algorithms 3 to 5.

K classes, T teachers, N queries; distances are 0..T-1, beyond which nothing new can be reached.

>>> sensitivity = local_sensitivity_gnmax([240, 10], 250, noise_std=40.0, order=12.5)
>>> sensitivity.shape, round(float(sensitivity[0]), 8), round(float(sensitivity[-1]), 8)
((250,), 2.33e-06, 0.00047055)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._arrays import as_numpy
from labeldp.mechanisms.pate.answer_price import AnswerPrice, checked_order
from labeldp.mechanisms.pate.probabilities import (
    log_probability_answered,
    log_q_gaussian,
    whole_maximum,
)
from labeldp.mechanisms.pate.renyi_bounds import Floats, rdp_threshold
from labeldp.mechanisms.pate.votes import checked_counts, checked_votes

#: Rows are taken in chunks of about this many entries, so that memory does not grow with N.
_CHUNK_ENTRIES = 2**20


def local_sensitivity_gnmax(
    votes: Any, num_teachers: int, noise_std: float, order: float
) -> Floats:
    """Local sensitivity of the price of GNMax answers, by distance (PATE 2018, Algorithms 3 to 5).

    Exact arithmetic of an upper bound: valid where `AnswerPrice.conditions` hold, which whoever
    publishes must have checked.

    Args:
        votes: Counts [K], or [N, K] for many queries at once; each row sums to `num_teachers`.
        num_teachers: T.
        noise_std: Standard deviation of the noise on every count.
        order: The Renyi order, fixed beforehand.

    Returns:
        The sensitivity at distances 0..T-1, never falling: [T], or [N, T].

    Raises:
        ValueError: Not vote counts (the row is named) or do not sum to T, noise or order out
            of range.
    """
    array = as_numpy(votes)
    counts = checked_votes(array[None] if array.ndim == 1 else array).astype(np.int64)
    _validate.whole(minimum=1, num_teachers=num_teachers)
    if counts[0].sum() != num_teachers:
        raise ValueError(
            f"votes sum to {counts[0].sum()}, but num_teachers is {num_teachers}; every teacher "
            "casts exactly one vote"
        )
    price = AnswerPrice(noise_std=noise_std, num_classes=counts.shape[1], order=order)
    counts = -np.sort(-counts, axis=1)
    result = np.empty((len(counts), num_teachers))
    height = max(1, _CHUNK_ENTRIES // (num_teachers + counts.shape[1]))
    for start in range(0, len(counts), height):
        rows = slice(start, start + height)
        path = _log_q_by_distance(counts[rows], num_teachers, price)
        known = ~np.isnan(path)
        part = result[rows]
        part.fill(price.largest_change)
        part[known] = price.change(path[known])
    return result[0] if array.ndim == 1 else result


def _log_q_by_distance(counts: NDArray[np.int64], distances: int, price: AnswerPrice) -> Floats:
    """Move votes, one a step, to where the price is most sensitive, all rows at once [N, T].

    Args:
        counts: Votes [N, K], every row descending; overwritten.
        distances: T.
        price: Of one answer.

    Returns:
        Log q at every distance, NaN from where on the largest change is charged.
    """
    result = np.full((len(counts), distances), np.nan)
    log_q = result[:, 0] = log_q_gaussian(counts, price.noise_std)
    rising = np.flatnonzero(log_q < price.log_q1)
    falling = np.flatnonzero(log_q > price.log_q0)
    for distance in range(1, distances):
        # Below q1, take from the leader and give to the second: the fastest way up. It ends before
        # they meet: a lead of one vote has q above exp(-(1 + 1/noise_std)^2), which q0 is not.
        counts[rising, 0] -= 1
        counts[rising, 1] += 1
        # Above q0, take from the largest follower and give to the leader: the fastest way down.
        falling = falling[counts[falling, 1] > 0]
        followers = counts[falling, 1:]
        last_of_largest = (followers == followers[:, :1]).sum(axis=1)  # the row stays descending
        counts[falling, last_of_largest] -= 1
        counts[falling, 0] += 1

        moved = np.concatenate([rising, falling])
        if not moved.size:
            break
        log_q = log_q_gaussian(counts[moved], price.noise_std)
        result[moved, distance] = log_q
        up, down = np.split(log_q, [rising.size])
        rising = rising[up < price.log_q1]
        falling = falling[down > price.log_q0]
    return result


def threshold_prices(*, num_teachers: int, threshold: float, sigma1: float, order: float) -> Floats:
    """Price of the check of the largest count, for every such count 0..T [T+1]."""
    whole = np.zeros((num_teachers + 1, 2))
    whole[:, 0] = np.arange(num_teachers + 1)
    log_p = log_probability_answered(whole, threshold, sigma1)
    return rdp_threshold(log_p, sigma1, [order])[:, 0]


def threshold_changes(prices: Floats) -> Floats:
    """The most that one vote can move the price at every largest count 0..T [T+1]."""
    steps = np.abs(np.diff(prices))
    result: Floats = np.maximum(np.append(steps, 0.0), np.append(0.0, steps))
    return result


def largest_counts(counts: NDArray[Any], *, num_teachers: int) -> NDArray[np.int64]:
    """Largest count of every row, rounded [N], or which row's lies outside 0..T."""
    peak = whole_maximum(counts).astype(np.int64)
    bad = np.flatnonzero((peak < 0) | (peak > num_teachers))
    if bad.size:
        raise ValueError(
            f"the largest count of votes row {bad[0]} is {counts[bad[0]].max():g}; with "
            f"{num_teachers} teachers it must lie in 0..{num_teachers}"
        )
    return peak


def local_sensitivity_threshold(
    votes: Any, num_teachers: int, threshold: float, sigma1: float, order: float
) -> Floats:
    """Local sensitivity of the price of Confident-GNMax's check, by distance.

    One vote moves the largest count by at most 1, so all prices and changes are looked up.

    Args:
        votes: Counts [K], or [N, K]; for Interactive-GNMax floats, less the student's guess.
        num_teachers: T.
        threshold: What the noisy largest count must reach.
        sigma1: Standard deviation of the noise on the largest count.
        order: The Renyi order, fixed beforehand.

    Returns:
        The largest change at a count exactly 0..T-1 votes away (as PATE 2018 has it; it can fall):
        [T], or [N, T]. Sums over queries need its running maximum.

    Raises:
        ValueError: Not vote counts (the row is named) or larger than T, noise, threshold or
            order out of range.
    """
    _validate.whole(minimum=1, num_teachers=num_teachers)
    checked_order(order)
    array = as_numpy(votes)
    counts = checked_counts(array[None] if array.ndim == 1 else array)
    prices = threshold_prices(
        num_teachers=num_teachers, threshold=threshold, sigma1=sigma1, order=order
    )
    changes = threshold_changes(prices)
    peak = largest_counts(counts, num_teachers=num_teachers)
    distances = np.arange(num_teachers)
    below, above = peak[:, None] - distances, peak[:, None] + distances
    down = np.where(below >= 0, changes[np.maximum(below, 0)], 0.0)
    up = np.where(above <= num_teachers, changes[np.minimum(above, num_teachers)], 0.0)
    # The change at the last count is that at the one before it, which was reached a vote earlier.
    new = distances < np.maximum(peak, num_teachers - peak)[:, None]
    result = np.where(new, np.maximum(down, up), 0.0)
    return result[0] if array.ndim == 1 else result

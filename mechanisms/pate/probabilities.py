"""From votes to probabilities: how likely a surprising answer is, and any answer at all.

Papernot et al., "Scalable Private Learning with PATE", ICLR 2018 (arXiv:1802.08908), Proposition 7
for Gaussian noise; ICLR 2017 (arXiv:1610.05755), Lemma 4 for Laplace noise. Everything is in logs:
with 5,000 unanimous teachers the probability of a surprise is too small for any float.

>>> votes = [[240, 10], [130, 120]]
>>> log_q_gaussian(votes, noise_std=40.0).round(3)
array([-10.64 ,  -0.844])
>>> log_probability_answered(votes, threshold=200, sigma1=150.0).round(3)
array([-0.502, -1.138])
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from labeldp.mechanisms import _validate
from labeldp.mechanisms.pate.renyi_bounds import Floats, checked_noise, log1mexp
from labeldp.mechanisms.pate.votes import checked_counts, checked_votes

#: Rows are taken in chunks of about this many counts, so that memory does not grow with N.
_CHUNK_ENTRIES = 2**21
#: Sums of probabilities below this are taken in logs.
_SMALL_SUM = 1e-280
#: With every rival this many standard deviations behind, the sum over classes is exact enough; and
#: a class twice as far behind adds nothing to rivals that are nearer.
_FAR = 40.0


def sorted_gaps(votes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Votes of every other class behind the leader's [N, K-1], the widest gap first.

    Sorting makes equal histograms equal to the last bit, so that they are later priced once.
    """
    ascending = np.sort(votes, axis=1).astype(np.int64)
    return ascending[:, -1:] - ascending[:, :-1]


def union_bound(gaps: NDArray[np.int64], log_tail: Callable[[Floats], Floats]) -> Floats:
    """Log of the sum over classes of exp(log_tail(gap)) [N], at most that of a uniform guess.

    Args:
        gaps: From `sorted_gaps` [N, K-1].
        log_tail: Log probability that a class overtakes a leader who is ahead by so many votes.
    """
    num_classes = gaps.shape[1] + 1
    widest = int(gaps.max())
    if widest < max(gaps.size, 4096):  # gaps are whole numbers: look their tails up
        table = log_tail(np.arange(widest + 1, dtype=np.float64))
        sums = np.exp(table)[gaps].sum(axis=1)
    else:
        table = None
        sums = np.exp(log_tail(gaps.astype(np.float64))).sum(axis=1)
    small = sums < _SMALL_SUM
    result = np.log(np.where(small, 1.0, sums))
    if small.any():
        far = gaps[small]
        logs = log_tail(far.astype(np.float64)) if table is None else table[far]
        with np.errstate(divide="ignore", invalid="ignore"):
            result[small] = logsumexp(logs, axis=1)
    # A leader is at least as likely as any other class: no answer but it has above 1 - 1/K.
    return np.minimum(result, math.log1p(-1 / num_classes))


def gaussian_tail(noise_std: float) -> Callable[[Floats], Floats]:
    """Log probability that two Gaussian noises of `noise_std` make up for a gap."""
    factor = -1 / (math.sqrt(2) * noise_std)
    return lambda gap: np.asarray(log_ndtr(factor * gap), dtype=np.float64)


def laplace_tail(scale: float) -> Callable[[Floats], Floats]:
    """Log probability that two Laplace noises of `scale` make up for a gap."""
    return lambda gap: np.log((2 + gap / scale) / 4) - gap / scale


def _chunks(array: NDArray[Any], width: int) -> Iterator[slice]:
    height = max(1, _CHUNK_ENTRIES // max(1, width))
    for start in range(0, len(array), height):
        yield slice(start, min(start + height, len(array)))


def _log_q(votes: Any, log_tail: Callable[[Floats], Floats]) -> Floats:
    checked = checked_votes(votes)
    result = np.empty(len(checked))
    for rows in _chunks(checked, checked.shape[1]):
        result[rows] = union_bound(sorted_gaps(checked[rows]), log_tail)
    return result


def log_q_gaussian(votes: Any, noise_std: float) -> Floats:
    """Log of a bound on the probability that GNMax does not answer with the plurality [N].

    PATE 2018, Proposition 7: the sum over the other classes of the probability that each overtakes
    the leader, at most 1 - 1/K.

    Args:
        votes: Counts [N, K], one vote per teacher.
        noise_std: Standard deviation of the noise on every count.

    Raises:
        ValueError: Not vote counts (the row is named), noise out of range.
    """
    checked_noise(noise_std=noise_std)
    return _log_q(votes, gaussian_tail(noise_std))


def log_q_laplace(votes: Any, scale: float) -> Floats:
    """Log of a bound on the probability that LNMax does not answer with the plurality [N].

    PATE 2017, Lemma 4: the sum of (2 + g) / (4 exp(g)), g a class's gap in units of `scale`.

    Args:
        votes: Counts [N, K], one vote per teacher.
        scale: The Laplace distribution's scale.

    Raises:
        ValueError: Not vote counts (the row is named), scale out of range.
    """
    checked_noise(scale=scale)
    return _log_q(votes, laplace_tail(scale))


def log_q_gaussian_exact(votes: Any, noise_std: float) -> Floats:
    """Log probability itself that GNMax does not answer with the plurality [N], by quadrature.

    Never above `log_q_gaussian`, well below it where several classes compete, and a tighter price
    all the same. Smooth sensitivity is proven for the sum over classes only, so a sanitized epsilon
    must use `log_q_gaussian`.

    The probability of class k is the integral over a of phi(a - u_k) times the product over the
    other classes j of Phi(a - u_j), u the votes over `noise_std`. The trapezoid rule converges
    faster than any power for such integrands: a step of 0.2 leaves an error of about 1e-13.

    Args:
        votes: Counts [N, K], one vote per teacher.
        noise_std: Standard deviation of the noise on every count.

    Raises:
        ValueError: Not vote counts (the row is named), noise out of range.
    """
    checked_noise(noise_std=noise_std)
    checked = checked_votes(votes)
    bound = _log_q(checked, gaussian_tail(noise_std))
    ascending = np.sort(checked, axis=1)
    close = (ascending[:, -1] - ascending[:, -2]) / noise_std < _FAR
    if not close.any():
        return bound
    histograms, index = np.unique(ascending[close], axis=0, return_inverse=True)
    spread = min((histograms[:, -1] - histograms[:, 0]).max() / noise_std, 2 * _FAR)
    step = 0.2
    # A small class and a leader meet half-way between them; beyond 9 standard deviations either
    # side the integrand is below what a double resolves.
    grid = np.arange(-spread / 2 - 9, 9 + step, step)
    exact = np.empty(len(histograms))
    for rows in _chunks(histograms, histograms.shape[1] * len(grid)):
        behind = (histograms[rows] - histograms[rows, -1:]) / noise_std
        z = grid - behind[:, :, None]  # [rows, K, grid]
        log_cdf = log_ndtr(z)
        log_density = -0.5 * (z**2 + math.log(2 * math.pi))
        joint = log_cdf.sum(axis=1, keepdims=True) + (log_density - log_cdf)[:, :-1]
        exact[rows] = logsumexp(joint, axis=(1, 2)) + math.log(step)
    result = bound.copy()
    result[close] = np.minimum(exact[index.reshape(-1)], bound[close])
    return result


def whole_maximum(counts: NDArray[Any]) -> Floats:
    """Largest count of every row, to the nearest whole number, halves up [N].

    One vote moves a rounded maximum by at most 1. Rounding halves to even would not do: 0.5 and 1.5
    would go to 0 and 2.
    """
    peak: Floats = counts.max(axis=1).astype(np.float64)
    if np.issubdtype(counts.dtype, np.integer):
        return peak
    rounded: Floats = np.floor(peak + 0.5)
    return rounded


def log_probability_answered(votes: Any, threshold: float, sigma1: float) -> Floats:
    """Log probability that the largest count plus Gaussian noise reaches the threshold [N].

    Args:
        votes: Counts [N, K]; for Interactive-GNMax floats, the student's guess subtracted. The
            largest count is rounded to a whole number, as in the mechanism.
        threshold: What the noisy count must reach, 0 or above; it may exceed the teachers.
        sigma1: Standard deviation of that one noise.

    Raises:
        ValueError: Not vote counts (the row is named), noise or threshold out of range.
    """
    checked_noise(sigma1=sigma1)
    _validate.non_negative(threshold=threshold)
    peak = whole_maximum(checked_counts(votes))
    return np.asarray(log_ndtr((peak - threshold) / sigma1), dtype=np.float64)


def log_probability_answered_per_class(votes: Any, threshold: float, sigma1: float) -> Floats:
    """Log probability that any count plus its own Gaussian noise reaches the threshold [N].

    Args:
        votes: Counts [N, K].
        threshold: What some noisy count must reach, 0 or above.
        sigma1: Standard deviation of the noise on every count.

    Raises:
        ValueError: Not vote counts (the row is named), noise or threshold out of range.
    """
    checked_noise(sigma1=sigma1)
    _validate.non_negative(threshold=threshold)
    counts = checked_counts(votes)
    result = np.empty(len(counts))
    for rows in _chunks(counts, counts.shape[1]):
        below = log_ndtr((threshold - counts[rows]) / sigma1).sum(axis=1)
        result[rows] = log1mexp(np.minimum(below, 0.0))
    return result

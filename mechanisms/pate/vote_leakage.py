"""Repeated PATE answers give away the histogram of the teachers' votes: the attack.

Wang et al., "In Differential Privacy, There is Truth: On Vote Leakage in Ensemble Private Learning"
(NeurIPS 2022, arXiv:2209.10732). GNMax answers one input again and again with fresh noise. How
often each class is the answer estimates its probability; the probabilities determine the votes up
to a shift, and the number of teachers fixes the shift. None of this breaks differential privacy,
which protects the training labels and not the input.

Answer probabilities are log-concave in the votes (Prekopa), so the likelihood of the answers has
one maximum over {votes >= 0, sum = T}, which Newton steps with a log barrier find in milliseconds.

The attack lives on fresh noise. A service that recognizes an input, and repeats its first answer or
keys the noise by the input, leaves the attacker one answer. It must recognize inputs that were
changed a little without changing the votes, too. Every fresh draw is charged to the privacy budget.

>>> log_q = answer_log_probabilities([100, 20, 5], noise_std=40.0)
>>> counts = np.random.default_rng(0).multinomial(10_000, np.exp(log_q))
>>> reconstruct(counts[None], noise_std=40.0, num_teachers=125).round(0)
array([[99., 20.,  5.]])
"""

import math
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import chdtrc, log_ndtr, logsumexp

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Floats, as_numpy, checked_votes
from labeldp.mechanisms.accounting import ORDERS, Conversion, conversion_offsets
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.decisions import Accounting

# The trapezoid rule converges geometrically for such smooth integrands: at a step of 0.2 standard
# deviations and 9 of margin, log Q is off by less than 1e-13 (checked against 25-digit quadrature).
_STEP = 0.2
_MARGIN = 9.0
_MOST_GRID_ENTRIES = 2 * 10**7
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
#: Weights of the barrier that keeps votes above 0. They fall: the best votes may lie at 0, where
#: the logarithm has no end.
_BARRIERS = (1.0, 0.1, 0.01, 0.001)


def answer_log_probabilities(votes: ArrayLike, noise_std: float) -> Floats:
    """Log probability of each class to be GNMax's answer to votes [K]; fractions are fine."""
    array = as_numpy(votes).astype(np.float64)
    if array.ndim != 1 or array.size < 2 or not np.isfinite(array).all():
        raise ValueError(
            f"votes has shape {array.shape}; it must hold K finite counts, one for each of at "
            "least 2 classes"
        )
    _check_noise(noise_std, float(np.ptp(array)), array.size)
    return _answers(array, noise_std)[0]


def reconstruct(counts: ArrayLike, noise_std: float, num_teachers: int) -> Floats:
    """Estimate vote histograms [N, K] from answers counted by class [N, K].

    The votes of maximum likelihood, not rounded or negative; rows sum to `num_teachers`.
    """
    answers = _check_counts(counts)
    _validate.whole(minimum=1, num_teachers=num_teachers)
    _check_noise(noise_std, num_teachers, answers.shape[1])
    found = np.empty(answers.shape)
    for row, row_counts in enumerate(answers):
        found[row] = _fit(row_counts, noise_std, num_teachers)
        _check_fit(row, row_counts, found[row], noise_std, num_teachers)
    return found


def error_rate(reconstructed: ArrayLike, votes: ArrayLike) -> Floats:
    """Share of the votes that a reconstruction puts in the wrong class, in [0, 1]; [N]."""
    truth = np.asarray(votes, dtype=np.float64)
    moved = np.abs(np.asarray(reconstructed, dtype=np.float64) - truth).sum(axis=-1)
    wrong: NDArray[np.float64] = moved / (2 * truth.sum(axis=-1))
    return wrong


def queries_within_budget(
    votes: ArrayLike,
    aggregator: ConfidentGNMax,
    *,
    epsilon: float,
    delta: float,
    conversion: Conversion = Conversion.IMPROVED,
    orders: ArrayLike = ORDERS,
) -> int:
    """Number of queries to Confident-GNMax about one input, votes [K], within a budget.

    Costs are data-dependent and expected, as in the paper.
    """
    _validate.positive(epsilon=epsilon)
    order = np.asarray(orders, dtype=np.float64)
    each = aggregator.costs(np.asarray(votes)[None], Accounting.COUNTS).rdp(order)
    # n * each + offset <= epsilon at any one order is enough
    left = epsilon - conversion_offsets(order, delta, conversion)
    return max(0, int(np.floor((left / each).max())))


def _answers(votes: Floats, noise_std: float) -> tuple[Floats, Floats]:
    """Log Q [K] and its derivative [K, K], by the trapezoid rule over the winning noisy count."""
    position = votes / noise_std
    peak = position.max()
    # Where a class that trails by d wins, the winning count sits near the middle of the two.
    start = (position.min() + peak) / 2 - _MARGIN
    grid = np.arange(start, peak + _MARGIN, _STEP)
    z = grid - position[:, None]  # [K, grid]
    log_cdf = log_ndtr(z)
    log_ratio = -0.5 * z * z - _HALF_LOG_TWO_PI - log_cdf
    joint = log_cdf.sum(axis=0) + log_ratio
    log_sum = logsumexp(joint, axis=1)
    weights = np.exp(joint - log_sum[:, None])
    jacobian = -(weights @ np.exp(log_ratio).T) / noise_std
    np.fill_diagonal(jacobian, 0.0)
    np.fill_diagonal(jacobian, -jacobian.sum(axis=1))  # a shift of all votes changes nothing
    return log_sum - logsumexp(log_sum), jacobian


def _fit(counts: Floats, noise_std: float, num_teachers: int) -> Floats:
    """Newton's method with Fisher's information and a log barrier, along sum = T [K]."""
    votes = num_teachers * (counts + 1) / (counts + 1).sum()
    log_q, jacobian = _answers(votes, noise_std)
    for barrier in _BARRIERS:
        tolerance = 1e-8 if barrier == _BARRIERS[-1] else 1e-2
        value = counts @ log_q + barrier * np.log(votes).sum()
        for _ in range(100):
            gradient = votes * (jacobian.T @ counts) + barrier  # of log votes: well scaled
            scaled = jacobian * votes
            information = counts.sum() * (scaled.T * np.exp(log_q)) @ scaled
            information[np.diag_indices_from(information)] += barrier
            factor = cho_factor(information, check_finite=False)
            # The step along the plane where all votes add up to T, by one factorization for both
            # right sides.
            free, along = cho_solve(factor, np.stack([gradient, votes], axis=1)).T
            direction = free - along * (votes @ free) / (votes @ along)
            gain = float(gradient @ direction)
            if gain < tolerance:
                break
            # Short enough that no vote becomes negative.
            step = min(1.0, 0.95 / max(1e-300, float(-direction.min())))
            for _ in range(40):
                moved = votes * (1 + step * direction)
                moved_log_q, moved_jacobian = _answers(moved, noise_std)
                moved_value = counts @ moved_log_q + barrier * np.log(moved).sum()
                if moved_value >= value + 0.25 * step * gain:
                    break
                step /= 2
            else:
                break  # as good as floating point can tell
            votes = moved
            value = moved_value
            log_q = moved_log_q
            jacobian = moved_jacobian
    whole: NDArray[np.float64] = votes * (num_teachers / votes.sum())
    return whole


def _check_counts(counts: ArrayLike) -> Floats:
    values = _validate.counts_matrix(counts, "counts").astype(np.float64)
    bad = ((values < 0) | (values != np.floor(values))).any(axis=1)
    rule = "its entries must be whole numbers of answers, 0 or above"
    _validate.refuse_entries(bad, values, "counts", rule)
    empty = values.sum(axis=1) == 0
    _validate.refuse_entries(empty, values, "counts", "leave out inputs that were never answered")
    return values


def _check_noise(noise_std: float, spread: float, classes: int) -> None:
    _validate.positive(noise_std=noise_std)
    if (spread / noise_std / 2 + 2 * _MARGIN) / _STEP * classes > _MOST_GRID_ENTRIES:
        raise ValueError(
            f"noise_std is {noise_std}, too small beside {spread:g} votes: the answer never "
            "changes, so repeating the query reveals nothing more"
        )


def _check_fit(
    row: int, counts: Floats, votes: Floats, noise_std: float, num_teachers: int
) -> None:
    """Refuse answers that even the best histogram of T votes cannot explain (a G test)."""
    seen = counts > 0
    log_q = _answers(votes, noise_std)[0][seen]
    frequency = counts[seen] / counts.sum()
    deviance = 2 * float(counts[seen] @ (np.log(frequency) - log_q))
    if chdtrc(counts.size - 1, deviance) < 1e-12:
        raise ValueError(
            f"counts row {row} cannot come from {num_teachers} teachers at noise_std {noise_std}: "
            f"its most frequent answer has a share of {frequency.max():.4f}, but the best "
            f"histogram of that many votes gives it {math.exp(log_q[frequency.argmax()]):.4f}; "
            "check num_teachers and noise_std"
        )


def counted_answers(
    votes: NDArray[Any],
    *,
    noise_std: float,
    answers: ArrayLike,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw GNMax's answers to votes [N, K], so many to each row, counted by class [N, K]."""
    chances = [np.exp(answer_log_probabilities(row, noise_std)) for row in votes]
    numbers = np.broadcast_to(answers, len(votes))
    drawn = zip(numbers, chances, strict=True)
    return np.stack([generator.multinomial(number, each / each.sum()) for number, each in drawn])


def measure_reconstruction(
    votes: NDArray[np.integer[Any]],
    *,
    noise_std: float,
    generator: np.random.Generator,
    answers: ArrayLike,
    repeats: int = 5,
) -> dict[str, float]:
    """Attack histograms [N, K], by a number of answers about each; by one at least.

    Each input is attacked `repeats` times. Returns means: the number of answers, the error, and the
    milliseconds for one input.
    """
    teachers = int(checked_votes(votes)[0].sum())
    numbers = np.asarray(answers)
    errors = []
    seconds = 0.0
    for _ in range(repeats):
        counts = counted_answers(
            votes, noise_std=noise_std, answers=np.maximum(numbers, 1), generator=generator
        )
        started = time.perf_counter()
        found = reconstruct(counts, noise_std, teachers)
        seconds += time.perf_counter() - started
        errors.append(error_rate(found, votes).mean())
    return {
        "noise_std": noise_std,
        "answers": float(numbers.mean()),
        "error": float(np.mean(errors)),
        "milliseconds": 1000 * seconds / (repeats * len(votes)),
    }

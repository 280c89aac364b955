"""What repeated PATE answers give away: the histogram of the teachers' votes.

Wang et al., "In Differential Privacy, There is Truth: On Vote Leakage in Ensemble Private Learning"
(NeurIPS 2022, arXiv:2209.10732). GNMax answers one input again and again with fresh noise. How
often each class is the answer estimates its probability; the probabilities determine the votes up
to a shift, and the number of teachers fixes the shift. None of this breaks differential privacy,
which protects the training labels and not the input.

All answer probabilities come from one shared grid of noise levels, since their integrands differ in
one factor. And they are log-concave in the votes (Prekopa), so the likelihood of the answers has
one maximum over {votes >= 0, sum = T}, which Newton steps with a log barrier find in milliseconds.

>>> log_q = answer_log_probabilities([100, 20, 5], noise_std=40.0)
>>> counts = np.random.default_rng(0).multinomial(10_000, np.exp(log_q))
>>> reconstruct(counts[None], noise_std=40.0, num_teachers=125).round(0)
array([[99., 20.,  5.]])
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.special import chdtrc, gammaln, log_ndtr, logsumexp

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import as_numpy
from labeldp.mechanisms.accounting import ORDERS, Conversion, conversion_offsets
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.votes import Floats

__all__ = [
    "CONCENTRATIONS",
    "answer_jacobian",
    "answer_log_probabilities",
    "error_rate",
    "fit_concentration",
    "queries_within_budget",
    "reconstruct",
]

# The trapezoid rule converges geometrically for such smooth integrands: at a step of 0.2 standard
# deviations and 9 of margin, log Q is off by less than 1e-13 (checked against 25-digit quadrature).
_STEP, _MARGIN = 0.2, 9.0
_MOST_GRID_ENTRIES = 2 * 10**7
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
#: Concentrations that `fit_concentration` tries.
CONCENTRATIONS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


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


def answer_jacobian(votes: ArrayLike, noise_std: float) -> Floats:
    """Derivative of log Q_k with respect to the votes for j, [K, K]."""
    array = as_numpy(votes).astype(np.float64)
    answer_log_probabilities(array, noise_std)  # checks both
    return _answers(array, noise_std)[1]


def reconstruct(
    counts: Any, noise_std: float, num_teachers: int, *, concentration: float = 0.0
) -> Floats:
    """Estimate vote histograms [N, K] from answers counted by class [N, K].

    Votes are not rounded or negative, and rows sum to `num_teachers`. A `concentration` of 0 is
    maximum likelihood; above 0, the mode under a Dirichlet prior in log-ratio coordinates, which
    `fit_concentration` learns from all inputs.

    Raises:
        ValueError: Not counts (the row is named), a row without answers, arguments out of range, or
            answers more decided than T votes with this noise can be.
    """
    answers = _check_counts(counts)
    _check_teachers(num_teachers)
    _validate.non_negative(concentration=concentration)
    _check_noise(noise_std, num_teachers, answers.shape[1])
    found = np.empty(answers.shape)
    for row, row_counts in enumerate(answers):
        found[row] = _fit(row_counts, noise_std, num_teachers, concentration)
        if concentration == 0:
            _check_fit(row, row_counts, found[row], noise_std, num_teachers)
    return found


def fit_concentration(counts: Any, noise_std: float, num_teachers: int) -> float:
    """Concentration of a Dirichlet prior under which all the answers together are likeliest.

    Empirical Bayes: the probability of each row's answers is integrated over votes by Laplace's
    method. It helps most where each input was asked few times.
    """
    answers = _check_counts(counts)
    _check_teachers(num_teachers)
    _check_noise(noise_std, num_teachers, answers.shape[1])
    evidence = [
        math.fsum(_log_evidence(row, noise_std, num_teachers, tried) for row in answers)
        for tried in CONCENTRATIONS
    ]
    return CONCENTRATIONS[int(np.argmax(evidence))]


def error_rate(reconstructed: ArrayLike, votes: ArrayLike) -> Floats:
    """Share of the votes that a reconstruction puts in the wrong class, in [0, 1]; [N]."""
    truth = np.asarray(votes, dtype=np.float64)
    moved = np.abs(np.asarray(reconstructed, dtype=np.float64) - truth).sum(axis=-1)
    share: Floats = moved / (2 * truth.sum(axis=-1))
    return share


def queries_within_budget(
    votes: ArrayLike,
    aggregator: ConfidentGNMax,
    *,
    epsilon: float,
    delta: float,
    conversion: Conversion = Conversion.IMPROVED,
    orders: ArrayLike = ORDERS,
) -> int:
    """How often Confident-GNMax can be asked about one input, votes [K], within a budget.

    Costs are data-dependent and expected, as in the paper.
    """
    _validate.positive(epsilon=epsilon)
    order = np.asarray(orders, dtype=np.float64)
    costs = aggregator.costs(np.asarray(votes)[None], Accounting.COUNTS)
    each = costs.expected_rdp(order)
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


def _fit(counts: Floats, noise_std: float, num_teachers: int, concentration: float) -> Floats:
    """Newton's method with Fisher's information and a log barrier, along sum = T [K]."""
    votes = num_teachers * (counts + 1) / (counts + 1).sum()
    barriers = [concentration] if concentration > 0 else [1.0, 0.1, 0.01, 0.001]
    log_q, jacobian = _answers(votes, noise_std)
    for barrier in barriers:
        tolerance = 1e-8 if barrier == barriers[-1] else 1e-2
        value = counts @ log_q + barrier * np.log(votes).sum()
        for _ in range(100):
            gradient = votes * (jacobian.T @ counts) + barrier  # of log votes: well scaled
            scaled = jacobian * votes
            information = counts.sum() * (scaled.T * np.exp(log_q)) @ scaled
            information[np.diag_indices_from(information)] += barrier
            factor = cho_factor(information, check_finite=False)
            free, along = cho_solve(factor, np.stack([gradient, votes], axis=1)).T
            direction = free - along * (votes @ free) / (votes @ along)
            gain = float(gradient @ direction)
            if gain < tolerance:
                break
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
            votes, value, log_q, jacobian = moved, moved_value, moved_log_q, moved_jacobian
    exact_sum: Floats = votes * (num_teachers / votes.sum())
    return exact_sum


def _log_evidence(
    counts: Floats, noise_std: float, num_teachers: int, concentration: float
) -> float:
    """Laplace's approximation, in log-ratio coordinates, where Dirichlet densities are smooth."""
    votes = _fit(counts, noise_std, num_teachers, concentration)
    log_q, jacobian = _answers(votes, noise_std)
    shares = votes / num_teachers
    classes = votes.size
    centered = np.eye(classes) - shares  # row i: derivative of log share i by the coordinates
    scaled = (jacobian * votes) @ centered
    precision = counts.sum() * (scaled.T * np.exp(log_q)) @ scaled
    precision += concentration * centered.T @ centered
    log_determinant = np.linalg.slogdet(precision[1:, 1:])[1]
    log_prior = (
        gammaln(classes * concentration)
        - classes * gammaln(concentration)
        + concentration * np.log(shares).sum()
    )
    return float(counts @ log_q + log_prior - 0.5 * log_determinant) + (
        (classes - 1) * _HALF_LOG_TWO_PI
    )


def _check_counts(counts: Any) -> Floats:
    array = as_numpy(counts)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2:
        raise ValueError(
            f"counts has shape {array.shape}; it must be [N, K], answers by class, a row for each "
            "input and at least 2 classes (a single input is counts[None, :])"
        )
    values = array.astype(np.float64)
    whole = np.isfinite(values) & (values >= 0) & (values == np.floor(values))
    if not whole.all():
        row, column = (int(index) for index in np.argwhere(~whole)[0])
        raise ValueError(
            f"counts[{row}, {column}] is {array[row, column]}; it must be a whole number of "
            "answers, 0 or above"
        )
    empty = np.flatnonzero(values.sum(axis=1) == 0)
    if empty.size:
        raise ValueError(f"counts row {empty[0]} holds no answer; leave out inputs never answered")
    return values


def _check_teachers(num_teachers: int) -> None:
    try:
        _validate.whole(minimum=1, num_teachers=num_teachers)
    except ValueError as error:
        raise ValueError(
            f"{error}. Answers show only how votes differ; the number of teachers gives their sum"
        ) from None


def _check_noise(noise_std: float, spread: float, classes: int) -> None:
    _validate.positive(noise_std=noise_std)
    if (spread / noise_std / 2 + 2 * _MARGIN) / _STEP * classes > _MOST_GRID_ENTRIES:
        raise ValueError(
            f"noise_std is {noise_std}, next to nothing beside {spread:g} votes: the answer never "
            "changes, so repeating the question reveals nothing more"
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
            f"its most frequent answer has a share of {frequency.max():.4f}, and the best "
            f"histogram of so many votes gives it {math.exp(log_q[frequency.argmax()]):.4f}; check "
            "num_teachers and noise_std"
        )

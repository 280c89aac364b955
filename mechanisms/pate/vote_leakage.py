"""Repeated PATE answers give away the histogram of the teachers' votes: the attack, and defenses.

Wang et al., "In Differential Privacy, There is Truth: On Vote Leakage in Ensemble Private Learning"
(NeurIPS 2022, arXiv:2209.10732). GNMax answers one input again and again with fresh noise. How
often each class is the answer estimates its probability; the probabilities determine the votes up
to a shift, and the number of teachers fixes the shift. None of this breaks differential privacy,
which protects the training labels and not the input.

Answer probabilities are log-concave in the votes (Prekopa), so the likelihood of the answers has
one maximum over {votes >= 0, sum = T}, which Newton steps with a log barrier find in milliseconds.

The attack lives on fresh noise, which each `Defense` takes away. All of them recognize an input by
a fingerprint. An attacker that changes an input a little without changing the votes sends a "new"
question each time, so `fingerprint` should send inputs that mean the same to the same bytes. Every
fresh draw must be charged to the privacy budget.

>>> log_q = answer_log_probabilities([100, 20, 5], noise_std=40.0)
>>> counts = np.random.default_rng(0).multinomial(10_000, np.exp(log_q))
>>> reconstruct(counts[None], noise_std=40.0, num_teachers=125).round(0)
array([[99., 20.,  5.]])
"""

import hmac
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import chdtrc, log_ndtr, logsumexp

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Array, as_numpy, checked_votes
from labeldp.mechanisms.accounting import ORDERS, Conversion, conversion_offsets
from labeldp.mechanisms.pate.accounting import Floats
from labeldp.mechanisms.pate.aggregators import NO_ANSWER, Aggregator, ConfidentGNMax, GNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.randomness import KEY_BYTES, cryptographic_generator
from labeldp.mechanisms.release_store import array_digest

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


@dataclass(frozen=True, kw_only=True)
class Defense:
    """Treatment of an input that comes again; by default it gets new noise.

    Attributes:
        cached: Repeat the first answer, "no answer" included; this needs memory for each input.
        limit: Give at most this many answers about one input.
        key: Secret, at least 16 bytes: the noise is a keyed hash of the input, the same in every
            replica. With the key the noise can be subtracted: guard it like the labels, and replace
            it when votes change.
    """

    cached: bool = False
    limit: int | None = None
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.limit is not None:
            _validate.whole(minimum=1, limit=self.limit)
        if self.key is not None and (not isinstance(self.key, bytes) or len(self.key) < 16):
            raise ValueError(
                "key must be at least 16 secret bytes, such as secrets.token_bytes(32): noise from "
                "a key that can be guessed can be subtracted"
            )


def exact_fingerprint(features: NDArray[Any]) -> bytes:
    """Digest of an input's type, shape and bytes."""
    return bytes.fromhex(array_digest(features))


@dataclass(kw_only=True, eq=False)
class AnsweringService:
    """Answers questions about inputs from an ensemble's votes, behind one defense."""

    vote: Callable[[NDArray[Any]], NDArray[Any]]  # features [N, ...] to votes [N, K]
    aggregator: Aggregator
    defense: Defense
    generator: np.random.Generator
    fingerprint: Callable[[NDArray[Any]], bytes] = exact_fingerprint  # recognizes an input
    drawn: int = field(default=0, init=False)  # different noise draws, which a budget must pay for
    _earlier: dict[bytes, list[int]] = field(default_factory=dict, init=False, repr=False)

    def answer(self, features: Array) -> NDArray[np.int64]:
        """Answer questions [N, ...] in order; labels [N], -1 without an answer."""
        inputs = as_numpy(features)
        answers = zip(map(self.fingerprint, inputs), self.vote(inputs), strict=True)
        return np.array([self._answer_one(*each) for each in answers], dtype=np.int64)

    def _answer_one(self, fingerprint: bytes, votes: NDArray[Any]) -> int:
        earlier = self._earlier.setdefault(fingerprint, [])
        defense = self.defense
        noise = self.generator
        if defense.limit is not None and len(earlier) >= defense.limit:
            label = NO_ANSWER
        elif defense.cached and earlier:
            label = earlier[0]
        else:
            if defense.key is not None:
                # A hash that anybody can compute would let them subtract the noise.
                digest = hmac.digest(defense.key, fingerprint, "sha256")
                noise = cryptographic_generator(digest[:KEY_BYTES])
            if defense.key is None or not earlier:  # keyed noise is drawn once
                self.drawn += 1
            label = int(self.aggregator.answer(votes[None], generator=noise)[0])
        earlier.append(label)
        return label


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


def measure_defenses(
    votes: NDArray[np.integer[Any]],
    *,
    noise_std: float,
    questions: int,
    generator: np.random.Generator,
) -> list[dict[str, Any]]:
    """Attack GNMax behind each defense.

    The attacker sends `questions` queries to each of the histograms [N, K], the inputs.

    Returns:
        For each defense the mean `error` of the attack that repeats one question, `error_evaded`
        where it changes the input a little each time, and the `draws` of noise for each input,
        which the privacy budget pays for.
    """
    defenses = {
        "none": Defense(),
        "cached answers": Defense(cached=True),
        "noise keyed by input": Defense(key=generator.bytes(32)),
        "at most 20 answers": Defense(limit=20),
    }
    rows = []
    for name, defense in defenses.items():
        attacked, evaded = (
            AnsweringService(
                vote=lambda features: votes[features[:, 0].astype(int)],
                aggregator=GNMax(noise_std=noise_std),
                defense=defense,
                generator=generator,
            )
            for _ in range(2)
        )
        rows.append(
            {
                "defense": name,
                "error": _attack(attacked, votes, noise_std, questions),
                "error_evaded": _attack(evaded, votes, noise_std, questions, drift=1e-6),
                "draws": attacked.drawn / len(votes),
            }
        )
    return rows


def _attack(
    service: AnsweringService,
    votes: NDArray[Any],
    noise_std: float,
    questions: int,
    *,
    drift: float = 0.0,
) -> float:
    """Mean error of the votes [N, K] that repeated answers reveal.

    `drift` changes an input from one question to the next, which no teacher notices.
    """
    errors = []
    changes = drift * np.arange(questions)
    for index, row in enumerate(votes):
        labels = service.answer(np.column_stack([np.full(questions, float(index)), changes]))
        counts = np.bincount(labels[labels != NO_ANSWER], minlength=len(row))[None]
        try:
            found = reconstruct(counts, noise_std, int(row.sum()))
        except ValueError:  # so many equal answers can't be fresh ones: they are worth one
            found = reconstruct(np.minimum(counts, 1), noise_std, int(row.sum()))
        errors.append(error_rate(found, row[None])[0])
    return float(np.mean(errors))

"""How much epsilon does one training run prove? The audit of Steinke, Nasr and Jagielski 2023.

Label version: each of M canaries gets two candidate labels and a fair coin decides which one is
trained on (`canaries.CoinCanaries`). An attacker who sees the result guesses coins, or abstains.
If the whole run is (epsilon, delta)-label-DP, then whatever the attacker does, the number of right
guesses among R is hardly larger than a binomial with success e^epsilon / (1 + e^epsilon) (Thm 5.2,
arXiv:2305.08846). Nothing is assumed about the model, nor that canaries act independently. Too many
right guesses prove, with the stated confidence, that epsilon is larger.

It proves "epsilon is at least this" and never "epsilon is at most this". M canaries prove at most
`one_run_ceiling` even against a run that hides nothing, so show the two together.

>>> round(one_run_lower_bound(canaries=1000, guesses=400, correct=300), 2)
0.9
>>> round(one_run_ceiling(canaries=1000), 2)
5.81
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv, expit

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Array, as_numpy

#: Fractions of the canaries that are guessed unless others are given; the best bound is kept.
FRACTIONS = (1.0, 0.5, 0.25, 0.1)


def one_run_lower_bound(
    *, canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Largest epsilon that the guesses refute, at `delta`; 0 where they refute none.

    Of M `canaries` the attacker guessed R coins, `correct` of them rightly. R must not follow from
    the coins; at delta 0 it may follow from the outputs. The bound exceeds the true epsilon with
    probability at most 1 - confidence.
    """
    check_counts(canaries, guesses, correct, confidence)
    _validate.delta(delta)
    return _lower_bound(canaries, guesses, correct, delta, 1 - confidence)


def one_run_ceiling(*, canaries: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """The most that `canaries` can prove: the bound if all are guessed and all are right."""
    return one_run_lower_bound(
        canaries=canaries, guesses=canaries, correct=canaries, delta=delta, confidence=confidence
    )


def canaries_needed(*, epsilon: float, confidence: float = 0.95) -> int:
    """Fewest canaries whose ceiling reaches `epsilon` (at delta 0): q^M <= 1 - confidence."""
    _validate.non_negative(epsilon=epsilon)
    _validate.between(0, 1, confidence=confidence)
    # log q = -log(1 + e^-epsilon); the tolerance keeps a quotient that is whole from rounding up
    return math.ceil(math.log(1 - confidence) / -math.log1p(math.exp(-epsilon)) - 1e-9)


def check_counts(canaries: int, guesses: int, correct: int, confidence: float) -> None:
    """Refuse counts that contradict each other, and audits that can prove nothing."""
    _validate.whole(minimum=1, canaries=canaries)
    _validate.whole(guesses=guesses, correct=correct)
    if not correct <= guesses <= canaries:
        raise ValueError(
            f"correct is {correct}, guesses {guesses} and canaries {canaries}; they must satisfy "
            "correct <= guesses <= canaries"
        )
    check_enough_canaries(canaries, confidence)


def check_enough_canaries(canaries: int, confidence: float) -> None:
    """Refuse an audit that can prove nothing, and state how many canaries it takes."""
    needed = canaries_needed(epsilon=0.0, confidence=confidence)
    if canaries < needed:
        raise ValueError(
            f"canaries is {canaries}; at confidence {confidence} even a perfect attack on so few "
            f"proves nothing: it takes {needed} to prove that epsilon is above 0, and "
            f"{canaries_needed(epsilon=3.0, confidence=confidence)} to prove 3"
        )


def guess_counts(canaries: int, fractions: Sequence[float] = FRACTIONS) -> tuple[int, ...]:
    """Return how many canaries to guess, for each fraction of them."""
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise ValueError(f"fractions is {fractions}; each must be above 0, at most 1")
    return tuple(math.ceil(fraction * canaries) for fraction in fractions)


@dataclass(frozen=True, kw_only=True)
class OneRunAudit:
    """Lower bounds on the epsilon of one run."""

    epsilon_low: float  # epsilon is at least this, with the stated confidence
    ceiling: float  # what as many canaries could have proven at most
    guesses: int  # how many coins were guessed, in the best try
    correct: int  # how many of them rightly
    canaries: int  # M


def right_guesses(scores: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which guesses of coins are right, the surest first [M].

    A score below 0 guesses 1, the further from 0 the surer; `truth` are the coins. Ties in sureness
    keep their order of drawing, which knows nothing of the coins.
    """
    right: NDArray[np.bool_] = (scores < 0) == (truth == 1)
    return right[np.argsort(-np.abs(scores), kind="stable")]


def one_run_audit(
    scores: Array,
    truth: Array,
    *,
    fractions: Sequence[float] = FRACTIONS,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> OneRunAudit:
    """Audit from an attacker's scores [M] and the coins [M], 0 or 1.

    A score above 0 means coin 0, the first candidate; the larger the surer, 0 for no idea
    (`candidate_scores`). The canaries with the largest |score| are guessed, a fraction of those
    with a score other than 0. That number follows the outputs, which the theorem allows at delta 0;
    at a larger delta it is a fraction of all canaries. Of several fractions the best bound is kept,
    and the stated error is divided among them (Bonferroni).
    """
    score = as_numpy(scores).astype(np.float64)
    coins = as_numpy(truth)
    if score.ndim != 1 or score.size == 0 or coins.shape != score.shape:
        raise ValueError(
            f"scores has shape {score.shape} and truth {coins.shape}; both must be [M], M at least "
            "1, a score and a coin for each canary"
        )
    if not np.isfinite(score).all():
        bad = int(np.flatnonzero(~np.isfinite(score))[0])
        raise ValueError(f"scores[{bad}] is {score[bad]}; it must be finite (0 means no idea)")
    if not np.isin(coins, (0, 1)).all():
        bad = int(np.flatnonzero(~np.isin(coins, (0, 1)))[0])
        raise ValueError(f"truth[{bad}] is {coins[bad]}; coins are 0 or 1")
    _validate.delta(delta)
    check_enough_canaries(score.size, confidence)
    right_among_first = np.concatenate([[0], np.cumsum(right_guesses(score, coins))])
    counts = guess_counts(score.size if delta else int(np.count_nonzero(score)), fractions)
    error = (1 - confidence) / len(counts)
    tries = [
        (_lower_bound(score.size, r, int(right_among_first[r]), delta, error), r) for r in counts
    ]
    epsilon_low, guesses = max(tries)
    return OneRunAudit(
        epsilon_low=epsilon_low,
        ceiling=one_run_ceiling(canaries=score.size, delta=delta, confidence=confidence),
        guesses=guesses,
        correct=int(right_among_first[guesses]),
        canaries=score.size,
    )


def candidate_scores(confidences: Array, candidates: Array) -> NDArray[np.float64]:
    """Scores of the coins: log-probability of the first candidate minus that of the second [M].

    From a model's probabilities on the canaries [M, K] and the two labels of each [M, 2].
    """
    rows = _validate.probabilities(confidences, name="confidences")
    pairs = as_numpy(candidates)
    if pairs.shape != (len(rows), 2):
        raise ValueError(
            f"candidates has shape {pairs.shape}; {len(rows)} canaries need [{len(rows)}, 2]"
        )
    for side in (0, 1):
        _validate.labels(pairs[:, side], num_classes=rows.shape[1], name=f"candidates[:, {side}]")
    tiny = np.finfo(np.float64).tiny  # a probability that underflowed is small, not impossible
    chosen = np.log(np.maximum(np.take_along_axis(rows, pairs, axis=1), tiny))
    return chosen[:, 0] - chosen[:, 1]


def _lower_bound(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    if correct == 0:
        return 0.0
    # delta = 0: Pr[Bin(R, q) >= correct] = error solved for q (Clopper and Pearson's lower end)
    success = float(betaincinv(correct, guesses - correct + 1, error))
    high = max(0.0, math.log(success / (1 - success)))
    if delta == 0 or high == 0:
        return high
    low = 0.0
    if _p_value(low, canaries, guesses, correct, delta) > error:
        return 0.0

    def refuted(epsilon: float) -> bool:
        return _p_value(epsilon, canaries, guesses, correct, delta) <= error

    # Delta only ever weakens the bound, so the answer lies in [0, high].
    return largest_refuted(refuted, low, high, steps=50)


def largest_refuted(
    refuted: Callable[[float], bool], low: float, high: float, *, steps: int
) -> float:
    """Return the largest epsilon from `low`, which is refuted, up to `high`, by bisection."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _p_value(epsilon: float, canaries: int, guesses: int, correct: int, delta: float) -> float:
    """Thm 5.2: beta + 2 M delta alpha, alpha the steepest chord of the binomial's upper tail."""
    fewer = np.arange(1, correct + 1)
    at_least = correct - np.arange(correct + 1)
    tail = bdtrc(at_least - 1.0, guesses, expit(epsilon))  # Pr[Bin(R, q) >= at_least]
    alpha = max(0.0, float(((tail[1:] - tail[0]) / fewer).max()))
    return min(1.0, float(tail[0]) + 2 * canaries * delta * alpha)

"""Audit what a mechanism released of each label, by its likelihood ratio, and no model.

A mechanism that treats labels one by one is audited best where it speaks: in its release. The best
attacker there is known, the likelihood ratio of the two labels that a coin chose between, and one
run of it proves nearly all there is to prove (Keinan et al. 2025, corollary 5.4). A model is made
of the release, and shows no more; audit both, for what the model hides is no guarantee.

>>> generator = np.random.default_rng(0)
>>> labels = generator.integers(10, size=4000)
>>> coins = CoinCanaries.draw(labels, num_classes=10, num_canaries=2000, generator=generator)
>>> mechanism = LaplaceNoise(epsilon=2.0, num_classes=10)
>>> values = mechanism.release(coins.plant(labels), generator=generator)
>>> audit = audit_release(values[coins.positions], mechanism=mechanism, coins=coins)
>>> audit.guesses, 1.5 < audit.epsilon_tight < 2.0
(1000, True)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing.canaries import CoinCanaries
from labeldp.mechanisms.auditing.label_channels import (
    BitFlipFamily,
    Family,
    GaussianFamily,
    LaplaceFamily,
    RandomizedResponseFamily,
)
from labeldp.mechanisms.auditing.one_run import one_run_lower_bound, right_guesses
from labeldp.mechanisms.auditing.tight_one_run import tight_lower_bound
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.randomized_response import RandomizedResponse

#: Mechanisms that act on each label by itself, and whose release is audited directly.
LocalMechanism = LaplaceNoise | GaussianNoise | RandomizedResponse | BitFlip
#: Share of the coins that are guessed, fixed beforehand.
GUESSED = 0.5


@dataclass(frozen=True, kw_only=True)
class ReleaseAudit:
    """What a release proves about its epsilon.

    Attributes:
        epsilon_low: Epsilon is at least this, whatever the mechanism (`one_run`).
        epsilon_tight: ... if it is of the family that it claims (`tight_one_run`).
        ceiling: What `epsilon_tight` would be had all guesses been right.
        guesses: How many coins were guessed.
        correct: How many of them rightly.
        canaries: M.
    """

    epsilon_low: float
    epsilon_tight: float
    ceiling: float
    guesses: int
    correct: int
    canaries: int


def family_of(mechanism: LocalMechanism) -> Family:
    """Return what a mechanism is but for its strength."""
    match mechanism:
        case LaplaceNoise():
            return LaplaceFamily()
        case GaussianNoise():
            return GaussianFamily()
        case RandomizedResponse():
            return RandomizedResponseFamily(num_classes=mechanism.num_classes)
        case BitFlip():
            return BitFlipFamily()


def ratio_scores(
    values: NDArray[Any], *, mechanism: LocalMechanism, candidates: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log-likelihood of the first candidate minus that of the second [M], as the mechanism has it.

    Args:
        values: What was released of the canaries, [M] or [M, K].
        mechanism: What released it.
        candidates: The two labels of each [M, 2].
    """
    if isinstance(mechanism, RandomizedResponse):
        first, second = (values == candidates[:, side] for side in (0, 1))
        speaks: NDArray[np.float64] = first.astype(np.float64) - second.astype(np.float64)
        return mechanism.epsilon * speaks
    likelihoods = mechanism.log_likelihood(np.asarray(values, dtype=np.float64))
    chosen = np.take_along_axis(likelihoods, candidates, axis=1)
    scores: NDArray[np.float64] = chosen[:, 0] - chosen[:, 1]
    return scores


def audit_release(
    values: NDArray[Any],
    *,
    mechanism: LocalMechanism,
    coins: CoinCanaries,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> ReleaseAudit:
    """Audit a release by its own likelihood ratio, on canaries that were in it.

    Args:
        values: What was released of the canaries, in their order, [M] or [M, K].
        mechanism: What released it.
        coins: The canaries.
        delta: At which epsilon is stated, in [0, 1); above 0 for Gaussian noise.
        confidence: Each bound exceeds the true epsilon with probability at most 1 - confidence.

    Raises:
        ValueError: Not one row of values for each canary, or an argument out of range.
    """
    if len(values) != coins.coins.size:
        raise ValueError(
            f"values has {len(values)} rows for {coins.coins.size} canaries; pass what was "
            "released of the canaries, one row each"
        )
    scores = ratio_scores(values, mechanism=mechanism, candidates=coins.candidates)
    size = scores.size
    guesses = math.ceil(GUESSED * size)
    correct = int(right_guesses(scores, coins.coins)[:guesses].sum())
    settings: dict[str, Any] = {
        "canaries": size,
        "guesses": guesses,
        "delta": delta,
        "confidence": confidence,
    }
    tight, ceiling = (
        tight_lower_bound(
            correct=right, family=family_of(mechanism), guesses_fixed=True, **settings
        )
        for right in (correct, guesses)
    )
    return ReleaseAudit(
        epsilon_low=one_run_lower_bound(correct=correct, **settings),
        epsilon_tight=tight,
        ceiling=ceiling,
        guesses=guesses,
        correct=correct,
        canaries=size,
    )

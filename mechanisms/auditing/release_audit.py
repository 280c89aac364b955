"""Audit a mechanism's release of each label, by its likelihood ratio, without any model.

A mechanism that treats labels one by one is audited best in its release. The best attacker there is
known, the likelihood ratio of the two labels that a coin chose between, and one run of it proves
nearly all there is to prove (Keinan et al. 2025, corollary 5.4). A model is made of the release,
and reveals no more; audit both, since a secret that the model happens to hide is not guaranteed.

>>> generator = np.random.default_rng(0)
>>> labels = generator.integers(10, size=4000)
>>> coins = CoinCanaries.draw(labels, num_classes=10, num_canaries=2000, generator=generator)
>>> mechanism = GaussianNoise(noise_std=2.0, num_classes=10)
>>> values = mechanism.release(coins.plant(labels), generator=generator)
>>> audit = audit_release(values[coins.positions], mechanism=mechanism, coins=coins, delta=1e-5)
>>> audit.guesses, 2.0 < audit.epsilon_tight < 2.96
(1000, True)

`audit_moments` audits sums over many labels, which hide every canary behind all the others: any
leak, one run of coins in an ordinary release proves next to nothing. There each canary's row of the
weights is a unit vector that no other example has (a Dirac canary), so that its label stands alone
in one sum, under the same noise, at the same price.

>>> audit = audit_moments(LabelMoments(noise_std=1.0, num_classes=10), canaries=1000, delta=1e-5,
...                       generator=np.random.default_rng(0))
>>> 4.5 < audit.epsilon_tight < 6.57  # what this noise costs
True
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.auditing.canaries import CoinCanaries
from labeldp.mechanisms.auditing.one_run import (
    OneRunAudit,
    one_run_lower_bound,
    right_guesses,
    tight_lower_bound,
)
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.label_moments import LabelMoments

#: Share of the coins that are guessed, fixed beforehand.
GUESSED = 0.5


@dataclass(frozen=True, kw_only=True)
class ReleaseAudit(OneRunAudit):
    """A release's proof about its epsilon; `ceiling` is `epsilon_tight` if all were right."""

    epsilon_tight: float  # bound if it is of the family that it claims (`tight_lower_bound`)


def ratio_scores(
    values: NDArray[Any], *, mechanism: PerLabel, candidates: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log-likelihood of the first candidate minus that of the second [M], by the mechanism.

    From its release of the canaries, [M] or [M, K], and the two labels of each [M, 2].
    """
    exact = values if np.issubdtype(values.dtype, np.integer) else values.astype(np.float64)
    likelihoods = mechanism.log_likelihood(exact)
    chosen = np.take_along_axis(likelihoods, candidates, axis=1)
    scores: NDArray[np.float64] = chosen[:, 0] - chosen[:, 1]
    return scores


def audit_release(
    values: NDArray[Any],
    *,
    mechanism: PerLabel,
    coins: CoinCanaries,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> ReleaseAudit:
    """Audit a release by its own likelihood ratio, on canaries that were in it.

    `values` are the release of the canaries, in their order, [M] or [M, K]. Epsilon is stated at
    `delta`, which is above 0 for Gaussian noise; each bound exceeds the true epsilon with
    probability at most 1 - confidence.
    """
    _validate.same_length(values=len(values), canaries=coins.coins.size)
    family = mechanism.family
    if family is None:
        raise ValueError(f"{type(mechanism).__name__} has no family of noise to audit it in")
    scores = ratio_scores(values, mechanism=mechanism, candidates=coins.candidates)
    size = scores.size
    guesses = math.ceil(GUESSED * size)
    correct = int(right_guesses(scores, coins.coins)[:guesses].sum())
    stated: dict[str, Any] = dict(
        canaries=size, guesses=guesses, delta=delta, confidence=confidence
    )
    tight, ceiling = (
        tight_lower_bound(correct=right, family=family, guesses_fixed=True, **stated)
        for right in (correct, guesses)
    )
    return ReleaseAudit(
        epsilon_low=one_run_lower_bound(correct=correct, **stated),
        epsilon_tight=tight,
        ceiling=ceiling,
        guesses=guesses,
        correct=correct,
        canaries=size,
    )


def audit_moments(
    mechanism: LabelMoments,
    *,
    canaries: int,
    delta: float,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> ReleaseAudit:
    """Release moments of made-up labels, each in a direction of its own, and audit the release.

    The weights are an M x M matrix, M canaries. **It audits the mechanism as it is written, not a
    model and not a data set**: that the noise that is drawn is the noise that is charged, as far as
    the canaries can show.
    """
    _validate.whole(minimum=2, canaries=canaries)
    _validate.between(0, 1, delta=delta)
    labels = generator.integers(mechanism.num_classes, size=canaries)
    coins = CoinCanaries.draw(
        labels, num_classes=mechanism.num_classes, num_canaries=canaries, generator=generator
    )
    sums = mechanism.release(
        coins.plant(labels), np.eye(canaries, dtype=np.float32), generator=generator
    )
    alone = GaussianNoise(noise_std=mechanism.noise_std, num_classes=mechanism.num_classes)
    return audit_release(
        sums[coins.positions], mechanism=alone, coins=coins, delta=delta, confidence=confidence
    )

"""Audit the noise of moment labels by canaries with a direction of their own each.

Sums over many labels hide every canary behind all the others: whatever leaks, one run of coins in
an ordinary release proves next to nothing (Keinan et al. 2025). Here each canary's row of the
weights is a unit vector that no other example has (a Dirac canary), so that its label stands alone
in one sum, under the same noise, at the same price. The coins are then guessed by their likelihood
ratio, and the bound is the Gaussian family's.

**It audits the mechanism as it is written, not a model and not a data set**: that the noise that is
drawn is the noise that is charged, to within what the canaries can tell.

>>> audit = audit_moments(LabelMoments(noise_std=1.0, num_classes=10), canaries=1000, delta=1e-5,
...                       generator=np.random.default_rng(0))
>>> round(audit.epsilon, 2), 4.5 < audit.found.epsilon_tight < audit.epsilon
(6.57, True)
"""

from dataclasses import dataclass

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.auditing.canaries import CoinCanaries
from labeldp.mechanisms.auditing.label_channels import GaussianFamily
from labeldp.mechanisms.auditing.release_audit import ReleaseAudit, audit_release
from labeldp.mechanisms.label_moments import LabelMoments


@dataclass(frozen=True, kw_only=True)
class MomentsAudit:
    """What the mechanism is charged, and what its noise proves.

    Attributes:
        epsilon: Provable, at the delta of the audit.
        found: What Dirac canaries prove.
    """

    epsilon: float
    found: ReleaseAudit


def audit_moments(
    mechanism: LabelMoments,
    *,
    canaries: int,
    delta: float,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> MomentsAudit:
    """Release moments of made-up labels, each in a direction of its own, and audit the release.

    Args:
        mechanism: With the noise to audit.
        canaries: M; the weights are an M x M matrix.
        delta: At which epsilons are stated, in (0, 1).
        generator: Of labels, coins and the noise itself.
        confidence: Of each bound by itself.

    Raises:
        ValueError: An argument out of range, or too few canaries to prove anything.
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
    found = audit_release(
        sums[coins.positions], mechanism=alone, coins=coins, delta=delta, confidence=confidence
    )
    separation = 1 / mechanism.event.noise_multiplier
    epsilon = GaussianFamily().channel(separation).epsilon(delta=delta)
    return MomentsAudit(epsilon=epsilon, found=found)

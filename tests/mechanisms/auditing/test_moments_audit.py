"""Dirac canaries: moment labels' noise proves nearly what is charged, and less noise is caught."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from labeldp.mechanisms.accounting import GaussianEvent
from labeldp.mechanisms.auditing.release_audit import MomentsAudit, audit_moments
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.label_moments import LabelMoments

DELTA = 1e-5


def audited(mechanism: LabelMoments, *, seed: int, canaries: int = 2_000) -> MomentsAudit:
    generator = np.random.default_rng(seed)
    return audit_moments(mechanism, canaries=canaries, delta=DELTA, generator=generator)


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_most_of_what_is_charged_is_proven(epsilon: float) -> None:
    std = calibrate_gaussian(epsilon=epsilon, delta=DELTA).noise_std
    audits = [audited(LabelMoments(noise_std=std, num_classes=10), seed=seed) for seed in range(3)]
    assert all(audit.epsilon == pytest.approx(epsilon, abs=1e-6) for audit in audits)
    assert 0.75 * epsilon < np.mean([audit.found.epsilon_tight for audit in audits]) < epsilon


@dataclass(frozen=True, kw_only=True)
class LessNoise(LabelMoments):
    """Charges for more noise than it draws."""

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(noise_multiplier=2 * self.noise_std / math.sqrt(2))


def test_half_the_noise_is_caught() -> None:
    audit = audited(LessNoise(noise_std=1.0, num_classes=5), seed=0)
    assert audit.found.epsilon_tight > audit.epsilon


def test_numbers_out_of_range_are_refused() -> None:
    mechanism = LabelMoments(noise_std=1.0, num_classes=3)
    with pytest.raises(ValueError, match="canaries"):
        audited(mechanism, seed=0, canaries=1)
    with pytest.raises(ValueError, match="delta"):
        audit_moments(mechanism, canaries=50, delta=0.0, generator=np.random.default_rng(0))

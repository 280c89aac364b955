"""Audits of releases: nearly all of epsilon is proven, and less noise than claimed is caught."""

from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing import CoinCanaries
from labeldp.mechanisms.auditing.one_run import one_run_lower_bound, tight_lower_bound
from labeldp.mechanisms.auditing.release_audit import (
    ReleaseAudit,
    audit_moments,
    audit_release,
    ratio_scores,
)
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.channels import SubsetSelection
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.randomized_response import BitFlip, RandomizedResponse

DELTA, CLASSES = 1e-5, 10


def mechanisms(epsilon: float) -> dict[str, PerLabel]:
    std = calibrate_gaussian(epsilon=epsilon, delta=DELTA)
    return {
        "laplace": LaplaceNoise(epsilon=epsilon, num_classes=CLASSES),
        "gaussian": GaussianNoise(noise_std=std, num_classes=CLASSES),
        "rr": RandomizedResponse(epsilon=epsilon, num_classes=CLASSES),
        "subset": SubsetSelection(epsilon=epsilon, num_classes=CLASSES),
        "bit_flip": BitFlip(epsilon=epsilon, num_classes=CLASSES),
    }


def proven(mechanism: PerLabel, *, claimed: PerLabel, seed: int) -> float:
    generator = np.random.default_rng(seed)
    labels = generator.integers(CLASSES, size=10_000)
    coins = CoinCanaries.draw(labels, num_classes=CLASSES, num_canaries=10_000, generator=generator)
    values = mechanism.release(coins.plant(labels), generator=generator)[coins.positions]
    return audit_release(values, mechanism=claimed, coins=coins, delta=DELTA).epsilon_tight


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "rr", "bit_flip"])
def test_a_release_proves_most_of_its_epsilon_and_half_its_noise_is_caught(kind: str) -> None:
    mechanism = mechanisms(2.0)[kind]
    found = [proven(mechanism, claimed=mechanism, seed=seed) for seed in range(3)]
    assert 1.7 < np.mean(found) < 2.0
    assert proven(mechanisms(4.0)[kind], claimed=mechanism, seed=0) > 2.0


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "rr", "bit_flip"])
def test_an_audit_states_its_counts_and_the_bounds_that_they_prove(kind: str) -> None:
    generator = np.random.default_rng(4)
    labels = generator.integers(CLASSES, size=300)
    coins = CoinCanaries.draw(labels, num_classes=CLASSES, num_canaries=150, generator=generator)
    mechanism = mechanisms(3.0)[kind]
    values = mechanism.release(coins.plant(labels), generator=generator)[coins.positions]
    found = audit_release(values, mechanism=mechanism, coins=coins, delta=DELTA, confidence=0.8)
    scores = ratio_scores(values, mechanism=mechanism, candidates=coins.candidates)
    surest = np.argsort(-np.abs(scores), kind="stable")[:75]
    right = int(((scores < 0) == (coins.coins == 1))[surest].sum())
    assert (found.canaries, found.guesses, found.correct) == (150, 75, right)
    stated: dict[str, Any] = {"canaries": 150, "guesses": 75, "delta": DELTA, "confidence": 0.8}
    assert found.epsilon_low == one_run_lower_bound(correct=right, **stated)
    given: Any = {"mechanism": mechanism, "coins": coins}
    assert kind == "gaussian" or audit_release(values, **given) == audit_release(
        values, **given, delta=0.0
    )
    family = mechanism.family
    assert family is not None
    assert (found.epsilon_tight, found.ceiling) == tuple(
        tight_lower_bound(correct=correct, family=family, guesses_fixed=True, **stated)
        for correct in (right, 75)
    )


# Moments, by Dirac canaries


def audited(mechanism: LabelMoments, *, seed: int, canaries: int = 2_000) -> ReleaseAudit:
    generator = np.random.default_rng(seed)
    return audit_moments(mechanism, canaries=canaries, delta=DELTA, generator=generator)


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_most_of_what_is_charged_is_proven(epsilon: float) -> None:
    std = calibrate_gaussian(epsilon=epsilon, delta=DELTA)
    audits = [audited(LabelMoments(noise_std=std, num_classes=10), seed=seed) for seed in range(3)]
    assert 0.75 * epsilon < np.mean([audit.epsilon_tight for audit in audits]) < epsilon

"""Information of noise about a coin: closed forms against draws, symmetry, exact epsilons."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing.canaries import ratio_scores
from labeldp.mechanisms.channels import SubsetSelection
from labeldp.mechanisms.label_channels import (
    BitFlipFamily,
    Family,
    GaussianFamily,
    LaplaceFamily,
    PerLabel,
    SubsetFamily,
    mean_error,
)
from labeldp.mechanisms.randomized_response import BitFlip, RandomizedResponse

DRAWS = 200_000
PAIR = SubsetFamily(num_classes=2, subset_size=1)
TEN = [SubsetFamily(num_classes=10, subset_size=size) for size in range(1, 4)]
CASES: list[tuple[PerLabel, Family, float]] = [
    (LaplaceNoise(epsilon=0.7, num_classes=3), LaplaceFamily(), 0.7),
    (LaplaceNoise(epsilon=3.0, num_classes=10), LaplaceFamily(), 3.0),
    (GaussianNoise(noise_std=1.5, num_classes=4), GaussianFamily(), math.sqrt(2) / 1.5),
    (RandomizedResponse(epsilon=1.0, num_classes=2), PAIR, 1.0),
    (RandomizedResponse(epsilon=2, num_classes=10), TEN[0], 2.0),
    (SubsetSelection(epsilon=1.0, num_classes=10, subset_size=2), TEN[1], 1.0),
    (SubsetSelection(epsilon=1.0, num_classes=10), TEN[2], 1.0),
    (BitFlip(epsilon=2.0, num_classes=5), BitFlipFamily(), 2.0),
]


def ratios(mechanism: PerLabel, seed: int = 0) -> NDArray[np.float64]:
    """Signed ratios of label 0 against label 1, where 0 is what was there."""
    labels = np.zeros(DRAWS, dtype=np.int64)
    values = mechanism.release(labels, generator=np.random.default_rng(seed))
    candidates = np.tile(np.arange(2), (DRAWS, 1))
    return np.round(ratio_scores(values, mechanism=mechanism, candidates=candidates), 9)


@pytest.mark.parametrize(("mechanism", "family", "strength"), CASES)
def test_tails_are_those_of_the_mechanisms_own_draws(
    mechanism: PerLabel, family: Family, strength: float
) -> None:
    drawn = ratios(mechanism)
    top = min(family.largest(strength), 3 * strength)
    for threshold in np.linspace(1e-6, top - 1e-6, 7):
        at = np.array([threshold])
        for chance, seen in (
            (family.right_beyond(strength, at)[0], (drawn >= threshold).mean()),
            (family.wrong_beyond(strength, at)[0], (drawn <= -threshold).mean()),
        ):
            error = math.sqrt(max(chance * (1 - chance), 1e-6) / DRAWS)
            assert abs(seen - chance) < 5 * error


def test_a_mechanism_is_audited_in_the_family_of_its_noise() -> None:
    for mechanism, family, _ in CASES:
        assert mechanism.family == family


@pytest.mark.parametrize(("mechanism", "family", "strength"), CASES)
def test_mean_errors_are_those_of_the_surest_draws(
    mechanism: PerLabel, family: Family, strength: float
) -> None:
    drawn = ratios(mechanism, seed=1)
    order = np.argsort(-np.abs(drawn), kind="stable")
    wrong = np.where(drawn < 0, 1.0, np.where(drawn == 0, 0.5, 0.0))[order]
    shares = np.array([0.02, 0.1, 0.4, 0.8, 1.0])
    for share, error in zip(shares, mean_error(family, strength, shares), strict=True):
        count = int(share * DRAWS)
        assert abs(wrong[:count].mean() - error) < 5 * math.sqrt(error / count)


@pytest.mark.parametrize("strength", [0.05, 0.7, 1.0, 3.0, 30.0])
@pytest.mark.parametrize(
    "family",
    [
        *(LaplaceFamily(), BitFlipFamily(), GaussianFamily()),
        *(SubsetFamily(num_classes=5, subset_size=2), SubsetFamily(num_classes=10, subset_size=1)),
    ],
)
def test_epsilon_is_where_the_privacy_profile_falls_to_delta(
    family: Family, strength: float
) -> None:
    for delta in (1e-9, 1e-3, 0.3):
        found = family.epsilon(strength, delta=delta)
        at = np.array([max(found, 1e-12)])
        right, wrong = family.right_beyond(strength, at), family.wrong_beyond(strength, at)
        profile = right[0] - math.exp(at[0]) * wrong[0]
        if found == 0:
            assert profile <= delta
        else:
            assert profile == pytest.approx(delta, rel=1e-6)
    zero, most = np.zeros(1), np.array([strength])
    both = family.right_beyond(strength, zero) + family.wrong_beyond(strength, zero)
    assert both == pytest.approx(1)
    if not isinstance(family, GaussianFamily):
        assert family.epsilon(strength, delta=0.0) == family.largest(strength) == strength
        mirrored = math.exp(-strength) * family.right_beyond(strength, most)
        assert family.wrong_beyond(strength, most) == pytest.approx(mirrored) and mirrored > 0

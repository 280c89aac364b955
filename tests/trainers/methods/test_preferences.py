"""What a release may know of a pair's choice, and what is read from it."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.trainers.methods.preferences import (
    RewardFunctions,
    fitted,
    planned_choices,
    planned_counts,
    planned_sums,
)

EPSILON = 1.0
DELTA = 1e-6
DIFFERENCES = np.random.default_rng(0).normal(size=(6, 3))
PERSONS = np.array([0, 0, 0, 1, 1, 2])
EVERY = np.array(list(itertools.product([0, 1], repeat=6)))


def _sums(weights: Any, choices: Any) -> Any:
    return (choices - 0.5) @ weights


@pytest.mark.parametrize("persons", [None, PERSONS])
def test_sums_move_by_no_more_than_the_noise_is_made_for(persons: Any) -> None:
    """All choices of six pairs, and all changes of a pair or of an annotator's pairs."""
    plan = planned_sums(DIFFERENCES, epsilon=EPSILON, delta=DELTA, persons=persons)
    (weights,) = plan.public
    evidence: Any = plan.evidence
    groups = np.arange(6) if persons is None else persons
    sums = _sums(weights, EVERY)
    apart = np.linalg.norm(sums[:, None] - sums, axis=2)
    changed = EVERY[:, None] != EVERY
    moved = np.zeros(len(groups))
    for one in range(groups.max() + 1):
        moved[one] = apart[~changed[..., groups != one].any(2)].max()
    # Gaussian noise of the event's multiplier costs epsilon for a move of 1.
    noise_std = calibrate_gaussian(epsilon=EPSILON, delta=DELTA) / math.sqrt(2)
    assert plan.mechanism.event.noise_multiplier == pytest.approx(noise_std)
    assert evidence.noise_variance == pytest.approx(noise_std**2)
    assert moved.max() <= 1 + 1e-6 and moved[0] > (0.99 if persons is None else 0.7)


def test_counts_and_single_choices_are_pure_for_a_pair() -> None:
    counts = planned_counts(DIFFERENCES, epsilon=EPSILON)
    more, groups = counts.public
    one_hot = np.eye(groups.max() + 1)[groups]
    known = (more == EVERY) @ one_hot
    apart = np.abs(known[:, None] - known).sum(2)
    # A count moves by 1, and its noise has a log-likelihood of slope epsilon.
    assert apart[(EVERY[:, None] != EVERY).sum(2) == 1].max() == 1
    assert counts.mechanism.scale == 1 / EPSILON
    evidence: Any = counts.read(known[5])
    assert np.allclose(evidence.sums, _sums(evidence.weights, EVERY[5]))
    single = planned_choices(epsilon=EPSILON).mechanism
    likelihood = single.log_likelihood(EVERY.ravel())
    assert np.abs(likelihood[:, 0] - likelihood[:, 1]).max() == pytest.approx(EPSILON)


def test_without_noise_all_releases_show_one_reward() -> None:
    generator = np.random.default_rng(1)
    differences, slopes = generator.normal(size=(20_000, 3)), np.array([1.0, -0.5, 0.2])
    choices = (generator.logistic(size=20_000) < differences @ slopes).astype(int)
    sums = planned_sums(differences, epsilon=100, delta=DELTA, persons=None)
    exact = _sums(sums.public[0], choices)
    counts = planned_counts(differences, epsilon=100)
    more, groups = counts.public
    single = planned_choices(epsilon=100)
    for evidence in (
        sums.read(np.stack([-exact, exact], axis=1)),
        counts.read(np.bincount(groups, more == choices)),
        single.read(choices),
    ):
        assert fitted(differences, evidence) == pytest.approx(slopes, abs=0.08)


def test_choices_without_noise_of_their_own_do_not_run_away() -> None:
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(2, 3000, 3))
    functions = RewardFunctions.learned(np.vstack([a, b]), epsilon=4.0)
    differences = functions(a) - functions(b)
    choices = (a > b)[:, 0].astype(np.int64)
    plan = planned_choices(epsilon=4.0)
    for seed in range(12):
        noisy = plan.mechanism.release(choices, generator=np.random.default_rng(seed))
        slopes = fitted(differences, plan.read(noisy))
        assert np.mean((differences @ slopes > 0) == choices) > 0.97

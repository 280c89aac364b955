"""canaries: the published draw bit for bit, blocks that share nothing, fair coins, refusals."""

from typing import Any

import numpy as np
import pytest
import torch

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing.canaries import (
    PUBLISHED_SEED,
    Canaries,
    CoinCanaries,
    audit_moments,
    audit_release,
    ratio_scores,
)
from labeldp.mechanisms.auditing.one_run import one_run_lower_bound, tight_lower_bound
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.randomized_response import BitFlip, RandomizedResponse
from tests.shared_material import shared_path

CLASSES = {"cifar10": 10, "cifar100": 100}


@pytest.mark.parametrize("dataset", CLASSES)
@pytest.mark.parametrize("kind", ["confs", "confs_10x100"])
def test_published_canaries_bit_for_bit(dataset: str, kind: str) -> None:
    with np.load(shared_path("oracle", "antipodes", "canaries.npz")) as arrays:
        keys = ("pos", "label", "true")
        positions, labels, true = (arrays[f"{kind}__{dataset}__{key}"] for key in keys)
    training = np.zeros(50_000, dtype=np.int64)  # only the canaries' own labels enter the draw
    training[positions] = true
    blocks = 1 if kind == "confs" else 10
    drawn = [
        Canaries.draw(
            training, num_classes=CLASSES[dataset], num_canaries=1000 // blocks, block=block
        )
        for block in range(blocks)
    ]
    np.testing.assert_array_equal(np.concatenate([c.positions for c in drawn]), positions)
    np.testing.assert_array_equal(np.concatenate([c.labels for c in drawn]), labels)
    np.testing.assert_array_equal(np.concatenate([c.true_labels for c in drawn]), true)
    assert np.unique(positions).size == 1000


@pytest.mark.parametrize("seed", [PUBLISHED_SEED, 2**32 - 1])
def test_blocks_share_nothing_where_no_seed_finds_them(seed: int) -> None:
    labels = np.zeros(42, dtype=np.int64)
    draw: dict[str, Any] = {"num_classes": 3, "num_canaries": 14, "seed": seed}
    blocks = [Canaries.draw(labels, block=block, **draw).positions for block in range(3)]
    assert np.unique(np.concatenate(blocks)).size == 42


def test_planting_changes_the_canaries_and_nothing_else() -> None:
    labels = np.random.default_rng(0).integers(4, size=50)
    canaries = Canaries.draw(labels, num_classes=4, num_canaries=50, seed=1)
    planted = canaries.plant(labels)
    assert (planted != labels).all()
    few = Canaries.draw(labels, num_classes=4, num_canaries=5, seed=1)
    changed = np.flatnonzero(few.plant(labels) != labels)
    np.testing.assert_array_equal(changed, np.sort(few.positions))
    tensor = few.plant(torch.from_numpy(labels))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), few.plant(labels))


def test_coins_are_fair_and_candidates_uniform_among_wrong_labels() -> None:
    labels = np.random.default_rng(0).integers(5, size=20_000)
    generator = np.random.default_rng(1)
    coin = CoinCanaries.draw(labels, num_classes=5, num_canaries=20_000, generator=generator)
    true = labels[coin.positions]
    assert (coin.candidates != true[:, None]).all()
    assert abs(coin.coins.mean() - 0.5) < 4 * 0.5 / np.sqrt(20_000)
    offset = (coin.candidates - true[:, None]) % 5  # 1..4, an ordered pair of two: 12 kinds
    kinds, counts = np.unique(offset @ [10, 1], return_counts=True)
    assert kinds.size == 12
    assert np.abs(counts - 20_000 / 12).max() < 5 * np.sqrt(20_000 / 12)
    expected = np.where(coin.coins == 1, coin.candidates[:, 1], coin.candidates[:, 0])
    np.testing.assert_array_equal(coin.labels, expected)
    np.testing.assert_array_equal(coin.plant(labels)[coin.positions], expected)


def test_two_classes_are_their_own_candidates_and_three_have_two_wrong_ones() -> None:
    labels = np.arange(60) % 2
    draw: dict[str, Any] = {"num_canaries": 60, "generator": np.random.default_rng(0)}
    two = CoinCanaries.draw(labels, num_classes=2, **draw)
    assert (two.candidates == [0, 1]).all()
    three = CoinCanaries.draw(labels, num_classes=3, **draw)
    assert (three.candidates.sum(axis=1) == 3 - labels[three.positions]).all()
    assert np.unique(three.candidates[:, 0]).tolist() == [0, 1, 2]
    for canaries in (two, three):
        assert len(np.unique(canaries.positions)) == 60 and np.unique(canaries.coins).size == 2
    default = Canaries.draw(labels, num_classes=2, num_canaries=60)
    last = Canaries.draw(labels, num_classes=2, num_canaries=60, seed=2**32 - 1)
    assert (default.positions != last.positions).any()


def test_canaries_cannot_be_changed() -> None:
    one = np.array([1])
    made = Canaries(positions=one.copy(), labels=one.copy(), true_labels=2 * one)
    coin = CoinCanaries(positions=one.copy(), candidates=np.array([[4, 5]]), coins=one.copy())
    for array in (*vars(made).values(), *vars(coin).values()):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


# Audits of releases: nearly all of epsilon is proven, and less noise than claimed is caught

DELTA = 1e-5
TEN = 10


def mechanisms(epsilon: float) -> dict[str, PerLabel]:
    std = calibrate_gaussian(epsilon=epsilon, delta=DELTA)
    return {
        "laplace": LaplaceNoise(epsilon=epsilon, num_classes=TEN),
        "gaussian": GaussianNoise(noise_std=std, num_classes=TEN),
        "rr": RandomizedResponse(epsilon=epsilon, num_classes=TEN),
        "bit_flip": BitFlip(epsilon=epsilon, num_classes=TEN),
    }


def proven(mechanism: PerLabel, *, claimed: PerLabel, seed: int) -> float:
    generator = np.random.default_rng(seed)
    labels = generator.integers(TEN, size=10_000)
    coins = CoinCanaries.draw(labels, num_classes=TEN, num_canaries=10_000, generator=generator)
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
    labels = generator.integers(TEN, size=300)
    coins = CoinCanaries.draw(labels, num_classes=TEN, num_canaries=150, generator=generator)
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


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_most_of_what_is_charged_is_proven(epsilon: float) -> None:
    std = calibrate_gaussian(epsilon=epsilon, delta=DELTA)
    mechanism = LabelMoments(noise_std=std, num_classes=10)
    generator = np.random.default_rng(0)
    given: Any = {"canaries": 2_000, "delta": DELTA, "generator": generator}
    found = [audit_moments(mechanism, **given).epsilon_tight for _ in range(3)]
    assert 0.75 * epsilon < np.mean(found) < epsilon

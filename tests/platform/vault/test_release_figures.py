"""release_figures: which releases are audited by themselves, and what the audits say."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing import CoinCanaries, LocalMechanism
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.release_store import MemoryStore
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault.label_home import HomePlaces, LabelHome, SecretLabels
from labeldp.platform.vault.release_figures import ReleasedByItself

CLASSES = 4
LABELS = np.random.default_rng(0).integers(CLASSES, size=600)
LOCAL: list[LocalMechanism] = [
    LaplaceNoise(epsilon=2.0, num_classes=CLASSES),
    GaussianNoise(noise_std=2.0, num_classes=CLASSES),
    RandomizedResponse(epsilon=2.0, num_classes=CLASSES),
    BitFlip(epsilon=2.0, num_classes=CLASSES),
]


def vault_of(store: MemoryStore) -> LabelVault:
    return LabelVault(labels=LABELS, num_classes=CLASSES, store=store)


def found(store: MemoryStore, training: int = len(LABELS)) -> ReleasedByItself | None:
    return ReleasedByItself.find(store.charges(), store=store, training=training)


@pytest.mark.parametrize("mechanism", LOCAL, ids=lambda mechanism: type(mechanism).__name__)
def test_one_release_of_all_labels_is_found(mechanism: LocalMechanism) -> None:
    store = MemoryStore()
    release = vault_of(store).release(mechanism, noise=SeededNoise(seed=1))
    released = found(store)
    assert released is not None and released.mechanism == mechanism
    assert (released.values == release.values).all()


def test_held_out_labels_do_not_hide_it() -> None:
    store = MemoryStore()
    vault, rows = vault_of(store), np.arange(len(LABELS))
    vault.release(RandomizedResponse(epsilon=1.0, num_classes=CLASSES), indices=rows[500:])
    assert found(store, 500) is None  # nothing was asked of the labels to train on
    vault.release(LOCAL[0], indices=rows[:500])
    released = found(store, 500)
    assert released is not None and len(released.values) == 500


def test_two_releases_some_labels_and_other_mechanisms_are_not_audited_so() -> None:
    twice, some, counting = MemoryStore(), MemoryStore(), MemoryStore()
    for noise in (1, 2):
        vault_of(twice).release(LOCAL[0], noise=SeededNoise(seed=noise))
    vault_of(some).release(LOCAL[0], indices=np.arange(300))
    weights = np.random.default_rng(1).normal(size=(len(LABELS), 3))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    vault_of(counting).release(LabelMoments(noise_std=1.0, num_classes=CLASSES), weights)
    assert found(twice) is None and found(some) is None and found(counting) is None
    assert ReleasedByItself.find([], store=MemoryStore(), training=5) is None


@pytest.mark.parametrize(
    "change",
    [
        {"patient": 4711.0},
        {"num_classes": "4"},
        {"epsilon": 1.0},  # of a class by our name and fields, at another price than ours
    ],
)
def test_what_only_bears_our_name_is_not_audited_as_ours(change: dict[str, Any]) -> None:
    store = MemoryStore()
    vault_of(store).release(LOCAL[0])
    (line,) = store.charges()
    strange = replace(line, mechanism={**line.mechanism, **change})
    assert ReleasedByItself.find([strange], store=store, training=len(LABELS)) is None


def test_figures_of_a_model_that_is_the_release_itself() -> None:
    generator = np.random.default_rng(2)
    labels = generator.integers(CLASSES, size=3_000)
    coins = CoinCanaries.draw(labels, num_classes=CLASSES, num_canaries=3_000, generator=generator)
    mechanism = LaplaceNoise(epsilon=2.0, num_classes=CLASSES)
    values = mechanism.release(coins.plant(labels), generator=generator)
    rows: NDArray[Any] = np.take_along_axis(values[coins.positions], coins.candidates, axis=1)
    scores = rows[:, 0] - rows[:, 1]
    figures = ReleasedByItself(mechanism=mechanism, values=values).figures(
        scores, coins, delta=0.0, confidence=0.95
    )
    assert figures["private/release_guesses"] == 1_500
    assert 1.5 < figures["private/epsilon_release"] < 2.0
    # The model's attacker pays for trying four numbers of guesses.
    assert 1.5 < figures["private/epsilon_tight"] < 2.0
    assert figures["private/epsilon_release_one_run"] < figures["private/epsilon_release"]
    assert all(math.isfinite(value) for value in figures.values())


def test_the_home_keeps_them_for_the_driver(tmp_path: Path) -> None:
    token = b"the driver"
    home = LabelHome(
        SecretLabels(training=LABELS, num_classes=CLASSES),
        audit=AuditSettings(canaries=50, coin_canaries=200),
        coin_seed=11,
        places=HomePlaces(store=tmp_path / "vault.db", votes=tmp_path / "votes"),
        fingerprint="",
        budget=None,
        authority=token,
    )
    release = home.release(LOCAL[0], (), None, SeededNoise(seed=3))
    home.begin(token, "abc")
    rows = np.full((250, CLASSES), 1 / CLASSES)
    home.audit("abc", rows, 0.95, [release.key], 0.0)
    figures = home.figures(token, "abc", [release.key])
    assert figures["private/epsilon_tight"] == 0.0  # this model knows nothing
    assert 0.3 < figures["private/epsilon_release"] < figures["epsilon_release_ceiling"]

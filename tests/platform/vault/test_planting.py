"""planting: the same store or the same seed has the same canaries, in a sweep and in a fit."""

from pathlib import Path

import numpy as np

from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.release_store import MemoryStore
from labeldp.platform.sweep.audit_settings import AuditSettings
from labeldp.platform.vault.audits import PlantedCanaries
from labeldp.platform.vault.near_labels import NearLabels, NearSecrets
from labeldp.platform.vault.planting import canaries_of
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault
from labeldp.platform.vault.vault_home import HomePlaces, SecretLabels, VaultHome

CLASSES = 3
LABELS = (np.arange(600) // 7 % CLASSES).astype(np.int64)
AUDIT = AuditSettings(canaries=20, coin_canaries=100)


def planted(store: MemoryStore, coin_seed: int | None) -> list[int]:
    found = canaries_of(
        store, LABELS, num_classes=CLASSES, settings=AUDIT, coin_seed=coin_seed
    ).plant(LABELS)
    return [int(label) for label in found]


def test_coins_are_a_secret_of_the_store_unless_a_seed_is_given() -> None:
    one, other = MemoryStore(), MemoryStore()
    assert planted(one, None) == planted(one, None) != planted(other, None)
    assert planted(one, 7) == planted(other, 7) != planted(one, 8)


def test_a_seed_means_the_coins_that_it_always_meant() -> None:
    """A vault is bound to its labels, canaries included: other coins would shut stored ones."""
    drawn = PlantedCanaries.draw(LABELS, num_classes=CLASSES, settings=AUDIT, secret=b"coin seed 7")
    assert planted(MemoryStore(), 7) == drawn.plant(LABELS).tolist()


def test_a_sweep_and_a_fit_plant_the_same(tmp_path: Path) -> None:
    home = VaultHome(
        SecretLabels(training=LABELS, num_classes=CLASSES),
        audit=AUDIT,
        coin_seed=7,
        places=HomePlaces(store=None, votes=tmp_path),
        fingerprint="",
        budget=None,
    )
    fit = NearLabels(
        NearSecrets(labels=LABELS, num_classes=CLASSES, audit=AUDIT),
        side=PublicSide(rows="r", classes="c", num_labels=len(LABELS)),
        shared=SharedVault(),
        noise=SeededNoise(seed=7),
    )
    assert home.canary_positions().tolist() == fit.canary_positions().tolist()
    assert fit._labels.tolist() == planted(MemoryStore(), 7)

"""label_home: what a home locks away and hands out; in this process, as an actor holds it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.correct_count import CorrectCount
from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.release_store import MemoryStore
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault.audits import PlantedCanaries
from labeldp.platform.vault.home_proxy import HomeActor
from labeldp.platform.vault.label_home import HomePlaces, LabelHome, SecretLabels
from labeldp.platform.vault.vote_store import VoteStore

TRAINING = np.random.default_rng(1).integers(10, size=300)
HELD_OUT = np.random.default_rng(2).integers(10, size=40)
SECRETS = SecretLabels(training=TRAINING, held_out=HELD_OUT, num_classes=10)
LAPLACE = LaplaceNoise(epsilon=1.0, num_classes=10)


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "audit": AuditSettings(canaries=30, coin_canaries=20),
        "coin_seed": None,
        "places": HomePlaces(store=folder / "vault.db", votes=folder / "votes"),
        "fingerprint": "",
        "budget": None,
        **changes,
    }


@pytest.fixture
def home(tmp_path: Path) -> LabelHome:
    return LabelHome(SECRETS, **settings(tmp_path))


def test_secrets_travel_small_and_show_no_label() -> None:
    small = SECRETS.small()
    assert small.training.dtype == np.uint8 and small.held_out is not None
    assert (small.training == TRAINING).all() and (small.held_out == HELD_OUT).all()
    assert repr(SECRETS) == "SecretLabels(num_classes=10)"


@pytest.mark.parametrize("bad", [-1, 256])
def test_labels_that_one_byte_would_make_others_of_stay_for_the_vault_to_refuse(
    bad: int, tmp_path: Path
) -> None:
    wrong = replace(SECRETS, training=np.append(TRAINING, bad)).small()
    assert wrong.training[-1] == bad
    with pytest.raises(ValueError, match=r"labels\[300\]"):
        LabelHome(wrong, **settings(tmp_path))


def test_canaries_are_planted_among_the_labels_to_train_on_alone(home: LabelHome) -> None:
    positions = home.canary_positions()
    assert home.num_labels() == 300 and positions.max() < 300
    assert len(set(positions.tolist())) == 50
    given = home.release(NoNoise(num_classes=10), (), None, OsEntropy()).values
    changed = np.flatnonzero(given != TRAINING)
    # Every wrong label is another one; a coin may fall on the label that was there.
    assert set(changed) <= set(positions) and set(positions[:30]) <= set(changed)
    held_out = home.release_held_out(NoNoise(num_classes=10), (), OsEntropy()).values
    assert (held_out == HELD_OUT).all()


def test_held_out_labels_pay_apart_from_those_to_train_on(home: LabelHome) -> None:
    first = home.release(LAPLACE, (), None, OsEntropy()).key
    second = home.release_held_out(CorrectCount(epsilon=0.25), (HELD_OUT,), OsEntropy()).key
    lines = {line.key: line.indices for line in home.ledger()}
    for key, rows in ((first, np.arange(300)), (second, np.arange(300, 340))):
        indices = lines[key]
        assert indices is not None and np.array_equal(indices, rows)
    assert home.epsilon([first, second], 1e-5) == (1.0, 0.0), "no label has paid for both"
    assert home.epsilon([second], 1e-5) == (0.25, 0.0)
    (line,) = home.charges([second, "of nothing"])
    assert line.key == second


def test_training_cannot_reach_held_out_labels(home: LabelHome) -> None:
    with pytest.raises(ValueError, match="index 300 is outside"):
        home.release(NoNoise(num_classes=10), (), np.array([300]), OsEntropy())
    some = home.release(NoNoise(num_classes=10), (), np.array([7, 2]), OsEntropy())
    assert some.indices is not None and some.indices.tolist() == [7, 2]
    assert home.release_held_out(NoNoise(num_classes=10), (), OsEntropy()).indices is None


def test_coins_are_a_secret_of_the_store_unless_a_seed_is_given() -> None:
    audit = AuditSettings(canaries=0, coin_canaries=200)

    def planted(store: MemoryStore, seed: int | None) -> list[int]:
        places = HomePlaces(store=store, votes=None)
        home = LabelHome(SECRETS, **settings(Path(), audit=audit, coin_seed=seed, places=places))
        return [int(label) for label in home._planted]

    one, other = MemoryStore(), MemoryStore()
    assert planted(one, None) == planted(one, None) != planted(other, None)
    assert planted(MemoryStore(), 7) == planted(MemoryStore(), 7) != planted(MemoryStore(), 8)
    # A vault is bound to its labels, coins included: other coins would shut stored ones.
    drawn = PlantedCanaries.draw(TRAINING, num_classes=10, settings=audit, secret=b"coin seed 7")
    assert planted(MemoryStore(), 7) == drawn.plant(TRAINING).tolist()


def test_nothing_is_released_of_labels_that_are_not_held_out(tmp_path: Path) -> None:
    home = LabelHome(replace(SECRETS, held_out=None), **settings(tmp_path))
    with pytest.raises(ValueError, match=r"no labels are held out.*evaluation\.held_out_share"):
        home.release_held_out(CorrectCount(epsilon=0.25), (HELD_OUT,), OsEntropy())
    assert not home.ledger()


def test_sweeps_that_share_votes_share_their_coins(tmp_path: Path) -> None:
    def salt(name: str, *, shared: bool) -> bytes:
        store = tmp_path / name / "vault.db"
        store.parent.mkdir(mode=0o700, exist_ok=True)
        places = HomePlaces(store=store, votes=tmp_path / "votes", shared_coins=shared)
        return places.open_store().salt()

    assert salt("a", shared=True) == salt("b", shared=True) == VoteStore(tmp_path / "votes").salt
    assert salt("c", shared=False) != salt("d", shared=False)


def test_an_actor_that_was_refused_says_so_when_it_is_asked(tmp_path: Path) -> None:
    refused = HomeActor(replace(SECRETS, num_classes=5), **settings(tmp_path))
    with pytest.raises(ValueError, match="classes"):
        refused.num_labels()
    (tmp_path / "made").mkdir()
    made = HomeActor(SECRETS, **settings(tmp_path / "made"))
    assert made.num_labels() == 300
    with pytest.raises(AttributeError, match="HomeActor has no 'labels'"):
        _ = made.labels

"""The real client of a real vault, in one process: what it reads is what its trial pays for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.correct_count import CorrectCount
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.platform.records.sweep_identity import SweepIdentity
from labeldp.platform.report.sweep_totals import sweep_totals
from labeldp.platform.sweep.audit_settings import AuditSettings
from labeldp.platform.vault import home_handle
from labeldp.platform.vault.home_handle import HomeHandle
from labeldp.platform.vault.vault_client import VaultClient
from labeldp.platform.vault.vault_home import HomePlaces, SecretLabels, VaultHome
from labeldp.platform.vault.vault_owner import VaultOwner

LABELS = np.arange(400) % 10


@dataclass(frozen=True)
class Method:
    """An actor's method, without the actor."""

    call: Callable[..., Any]

    def remote(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class NearHome:
    """A home as Ray's handle shows it."""

    def __init__(self, home: VaultHome) -> None:
        self._home = home

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self._home, name))


def a_home(folder: Path, *, held_out: int = 0, budget: Budget | None = None) -> HomeHandle:
    size = len(LABELS) - held_out
    home = VaultHome(
        SecretLabels(
            training=LABELS[:size], held_out=LABELS[size:] if held_out else None, num_classes=10
        ),
        audit=AuditSettings(canaries=20, coin_canaries=20),
        coin_seed=None,
        places=HomePlaces(store=folder / "vault.db", votes=folder / "votes"),
        fingerprint="",
        budget=budget,
    )
    return HomeHandle(NearHome(home))


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_handle, "ask", lambda answer: answer)


@pytest.fixture
def client(tmp_path: Path) -> VaultClient:
    return VaultClient(home=a_home(tmp_path), noise=OsEntropy())


def rr(epsilon: float) -> RandomizedResponse:
    return RandomizedResponse(epsilon=epsilon, num_classes=10)


def test_a_trial_pays_for_every_release_that_it_read(client: VaultClient) -> None:
    assert client.epsilon(delta=1e-5) == (0.0, 0.0)
    first = client.release(rr(1.0))
    assert client.epsilon(delta=1e-5) == (1.0, 0.0)
    second = client.release(rr(0.5))
    assert client.keys == [first.key, second.key]
    assert client.epsilon(delta=1e-5) == (1.5, 0.0)


def test_what_is_read_again_is_paid_once(client: VaultClient) -> None:
    first, again = client.release(rr(1.0)), client.release(rr(1.0))
    assert first.key == again.key and client.keys == [first.key]
    assert client.epsilon(delta=1e-5) == (1.0, 0.0)


def test_another_trial_pays_for_what_it_reads_and_no_more(client: VaultClient) -> None:
    client.release(rr(1.0))
    other = VaultClient(home=client.home, noise=OsEntropy())
    other.release(rr(0.25), indices=np.arange(10))
    assert other.epsilon(delta=1e-5) == (0.25, 0.0)
    assert [line.event for line in client.home.ledger()] == [
        rr(1.0).event,
        rr(0.25).event,
    ]


def test_another_trials_noise_is_another_release(tmp_path: Path) -> None:
    home = a_home(tmp_path, held_out=50)
    count = CorrectCount(epsilon=0.5)
    for draw in range(3):
        other = VaultClient(home=home, noise=OsEntropy(draw=draw))
        other.release(rr(1.0))
        other.release_held_out(count, np.zeros(50, dtype=np.int64))
        assert other.epsilon(delta=1e-5) == (1.0, 0.0)
    totals = sweep_totals(home.ledger(), SweepIdentity(), delta=1e-5)
    assert (totals["releases"], totals["epsilon_total"], totals["delta"]) == (6, 3.0, 0.0)


def test_what_may_fail_is_part_of_every_delta(
    client: VaultClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RandomizedResponse, "failure_probability", 4e-6)
    client.release(rr(1.0))
    assert client.epsilon(delta=1e-5) == (1.0, 8e-6)
    other = VaultClient(home=client.home, noise=OsEntropy(draw=1))
    other.release(rr(1.0), indices=np.arange(9))
    totals = sweep_totals(client.home.ledger(), SweepIdentity(), delta=1e-5)
    assert (totals["epsilon_total"], totals["delta"]) == (2.0, 1.6e-5)


def test_the_home_keeps_the_budget(tmp_path: Path) -> None:
    poor = VaultClient(home=a_home(tmp_path, budget=Budget(epsilon=1.5)), noise=OsEntropy())
    poor.release(rr(1.0))
    with pytest.raises(BudgetExceeded, match="1 is spent and this would make it 2"):
        poor.release(rr(1.0), indices=np.arange(9))


def test_labels_on_their_way_home_are_not_shown() -> None:
    shown = repr(SecretLabels(training=LABELS, held_out=LABELS + 0, num_classes=10))
    assert shown == "SecretLabels(num_classes=10)"


def test_labels_that_take_more_bytes_are_left_for_the_vault_to_refuse() -> None:
    wrong = np.array([1, 259, 3])  # 259 is 3 in a byte
    small = SecretLabels(training=wrong, held_out=LABELS, num_classes=10).small()
    assert small.training.tolist() == [1, 259, 3]
    assert small.held_out is not None and small.held_out.dtype == np.uint8


def test_a_key_that_the_vault_does_not_know_is_refused(client: VaultClient) -> None:
    client.keys.append("f" * 32)
    with pytest.raises(ValueError, match="no release has the key"):
        client.epsilon(delta=1e-5)


def test_the_driver_gets_the_lines_that_it_asks_for(client: VaultClient) -> None:
    first = client.release(rr(1.0))
    second = client.release(rr(0.25), indices=np.arange(10))
    owner = VaultOwner(home=client.home, authority=b"")
    assert list(owner.charges([second.key])) == [second.key]
    assert owner.charges([first.key])[first.key].event == rr(1.0).event
    assert owner.charges([]) == {}

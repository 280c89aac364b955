"""The real client of a real vault, in one process: what it reads is what its trial pays for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.platform import home_handle
from labeldp.platform.audit_settings import AuditSettings
from labeldp.platform.home_handle import HomeHandle
from labeldp.platform.trusted.vault_home import HomePlaces, SecretLabels, VaultHome
from labeldp.platform.vault_client import VaultClient
from labeldp.platform.vault_owner import VaultOwner

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


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VaultClient:
    monkeypatch.setattr(home_handle, "ask", lambda answer: answer)
    home = VaultHome(
        SecretLabels(training=LABELS, num_classes=10),
        audit=AuditSettings(canaries=20, coin_canaries=20),
        coin_seed=None,
        places=HomePlaces(store=tmp_path / "vault.db", votes=tmp_path / "votes"),
        fingerprint="",
        budget=None,
    )
    return VaultClient(home=HomeHandle(NearHome(home)), noise=OsEntropy())


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

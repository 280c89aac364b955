"""Coins have a stream of their own; and what is planted where one kind, or both, are off."""

import hmac
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault.audits import PlantedCanaries

LABELS = np.random.default_rng(1).integers(10, size=4000)
SECRET = b"a secret"


def stream(name: bytes) -> np.random.Generator:
    digest = hmac.digest(SECRET, b"coin canaries: " + name, "sha256")
    return np.random.default_rng(int.from_bytes(digest, "big"))


def drawn(labels: NDArray[np.int64], *, num_classes: int = 10, **settings: int) -> PlantedCanaries:
    audit = AuditSettings(**settings)
    return PlantedCanaries.draw(labels, num_classes=num_classes, settings=audit, secret=SECRET)


def coins_of(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    planted = drawn(labels, canaries=100, coin_canaries=300)
    assert planted.coins is not None
    return planted.coins.coins


def test_coins_are_tossed_in_a_stream_of_their_own() -> None:
    coins = coins_of(LABELS)
    np.testing.assert_array_equal(coins, stream(b"coins").integers(2, size=300))
    # Places and candidates are public, and with them the state that their stream had.
    assert (coins != stream(b"places").integers(2, size=300)).any()


def test_coins_do_not_depend_on_what_else_was_drawn() -> None:
    """Another set of labels has other candidates, and takes as much of their stream as it likes."""
    other = np.random.default_rng(2).integers(10, size=6000)
    np.testing.assert_array_equal(coins_of(LABELS), coins_of(other))


@pytest.mark.parametrize("num_classes", [2, 10])
def test_coins_alone_audit_a_run(num_classes: int) -> None:
    labels = LABELS % num_classes
    canaries = drawn(labels, num_classes=num_classes, canaries=0, coin_canaries=100)
    assert canaries.mislabeled is None and len(canaries.positions) == 100
    remembered = np.full((100, num_classes), 0.1 / (num_classes - 1))
    remembered[np.arange(100), canaries.plant(labels)[canaries.positions]] = 0.9
    audit = canaries.audit(remembered, confidence=0.95, epsilon=math.inf, delta=0.0, curve=None)
    found = audit[0]
    assert found["epsilon_m_ceiling"] == 0.0 and found["private/epsilon_one_run"] > 3
    assert found["private/label_inference_accuracy"] == 1.0
    assert found["private/label_inference_advantage"] == 0.5, "one of two by a coin"

"""Coins come from a stream of their own, which places and candidates tell nothing about."""

import hmac

import numpy as np
from numpy.typing import NDArray

from labeldp.platform.audit_settings import AuditSettings
from labeldp.platform.trusted.audits import PlantedCanaries

LABELS = np.random.default_rng(1).integers(10, size=4000)
SECRET = b"a secret"


def stream(name: bytes) -> np.random.Generator:
    digest = hmac.digest(SECRET, b"coin canaries: " + name, "sha256")
    return np.random.default_rng(int.from_bytes(digest, "big"))


def coins_of(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    planted = PlantedCanaries.draw(
        labels,
        num_classes=10,
        settings=AuditSettings(canaries=100, coin_canaries=300),
        secret=SECRET,
    )
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

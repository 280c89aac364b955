"""Secret noise is AES's keystream under fresh keys; without the package there is none at all."""

import math
import secrets
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import (
    KEY_BYTES,
    NoiseKind,
    NoiseSource,
    OsEntropy,
    SecureEntropy,
    SeededNoise,
    as_numpy_generator,
    cryptographic_generator,
    is_private,
)
from labeldp.mechanisms.release_store import describe
from tests.mechanisms.test_ledger import PURE, line


def aes_in_counter_mode(key: bytes, blocks: int) -> bytes:
    """The keystream by another library; the counter is the block's number, low byte first."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return b"".join(encryptor.update(i.to_bytes(16, "little")) for i in range(blocks))


def test_the_stream_is_that_of_aes_in_counter_mode() -> None:
    for key in (bytes(16), bytes(range(16)), secrets.token_bytes(16)):
        drawn = cryptographic_generator(key).bit_generator.random_raw(2000)
        assert drawn.astype("<u8").tobytes() == aes_in_counter_mode(key, 1000)


def test_os_entropy_takes_a_fresh_key_of_the_operating_system_for_every_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [bytes([1]) * KEY_BYTES, bytes([2]) * KEY_BYTES]
    given = iter(keys)
    monkeypatch.setattr(secrets, "token_bytes", lambda size: next(given))
    for key in keys:  # the very same release twice
        drawn = OsEntropy().generator("ab" * 16).bit_generator.random_raw(100)
        assert drawn.astype("<u8").tobytes() == aes_in_counter_mode(key, 50)


def test_seeded_noise_is_what_it_always_was() -> None:
    words = (
        SeededNoise(seed=7, draw=2).generator("0123456789abcdef" * 2).bit_generator.random_raw(3)
    )
    expected = np.random.PCG64(
        np.random.SeedSequence([7, 2, 0x01234567, 0x89ABCDEF, 0x01234567, 0x89ABCDEF])
    )
    np.testing.assert_array_equal(words, expected.random_raw(3))
    seeds = torch.randint(2**62, (2,), generator=torch.Generator().manual_seed(5)).tolist()
    made = as_numpy_generator(torch.Generator().manual_seed(5))
    assert made.random() == np.random.default_rng(seeds).random()


def test_a_missing_package_is_named_and_nothing_weaker_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "randomgen", None)
    with pytest.raises(ImportError, match="pip install 'randomgen"):
        OsEntropy().generator("")
    assert SeededNoise(seed=1).generator("0" * 32).random() < 1


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (OsEntropy(draw=1), NoiseKind.PLAIN),
        (SecureEntropy(), NoiseKind.SECURE),
        (SeededNoise(seed=3), NoiseKind.SEEDED),
    ],
)
def test_a_source_says_its_kind_and_so_does_what_the_ledger_keeps_of_it(
    source: NoiseSource, kind: NoiseKind
) -> None:
    described = describe(RandomizedResponse(epsilon=1.0, num_classes=2), source)["noise"]
    kept = replace(line(PURE), mechanism={"noise": described})
    assert source.kind is kind and kept.noise is kind
    assert "kind" not in described, "it would make another release of every stored one"


@pytest.mark.parametrize(
    "noise",
    [
        None,
        "OsEntropy",
        {},
        {"name": "OsEntropy"},
        {"name": "OsEntropy", "draw": 0, "seed": 3},
        {"name": "RadioNoise", "draw": 0},
        {"name": ["OsEntropy"], "draw": 0},
    ],
)
def test_noise_that_is_not_known_counts_as_seeded(noise: object) -> None:
    assert replace(line(PURE), mechanism={"noise": noise}).noise is NoiseKind.SEEDED
    assert line(PURE).noise is NoiseKind.SEEDED


def test_private_means_a_bound_and_noise_that_cannot_be_repeated() -> None:
    assert is_private(2.0, NoiseKind.PLAIN) and is_private(0.0, NoiseKind.SECURE)
    assert not is_private(2.0, NoiseKind.SEEDED)
    for kind in NoiseKind:
        assert not is_private(math.inf, kind) and not is_private(math.nan, kind)
    assert NoiseKind.read("secure") is NoiseKind.SECURE
    assert NoiseKind.read("of a new kind") is NoiseKind.read(None) is NoiseKind.SEEDED

"""Where noise comes from: the operating system's entropy, unless an experiment is seeded.

A privacy guarantee assumes that nobody can predict the noise. A published seed voids it, so seeds
for noise and seeds for training are different arguments, and the card of a seeded run states it.

Nor may the rest of the noise reveal it: the adversary of differential privacy knows all labels but
one, and so all noise but one label's. The state of PCG64, NumPy's default, can be
recovered from its output (Bouillaguet, Martinez and Sauvage, "Practical seed-recovery for the PCG
pseudo-random number generator", 2020). Secret noise is therefore the keystream of AES-128 in
counter mode, under a fresh key of the operating system's for every release.

>>> int(cryptographic_generator(bytes(16)).bit_generator.random_raw())  # FIPS 197: AES of zeros
4263935709876578662
"""

import math
import secrets
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Union

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate

if TYPE_CHECKING:
    import torch

#: Bytes of a key of AES-128.
KEY_BYTES = 16


class NoiseKind(StrEnum):
    """PLAIN floating-point noise; SECURE against attacks on its bits; SEEDED, no secret at all."""

    PLAIN = "plain"
    SECURE = "secure"
    SEEDED = "seeded"

    @classmethod
    def read(cls, text: object) -> "NoiseKind":
        """Return the kind that was written down; any other text counts as SEEDED."""
        return next((kind for kind in cls if kind.value == text), cls.SEEDED)


def is_private(epsilon: float, kind: NoiseKind) -> bool:
    """Whether releases under such noise, of `epsilon` together, are private at all.

    An epsilon is a promise only where nobody can draw its noise again.

    >>> is_private(2.0, NoiseKind.PLAIN), is_private(2.0, NoiseKind.SEEDED)
    (True, False)
    """
    return math.isfinite(epsilon) and kind in (NoiseKind.PLAIN, NoiseKind.SECURE)


def cryptographic_generator(key: bytes) -> np.random.Generator:
    """Return the generator whose bits are AES-128's keystream in counter mode under `key`.

    The key is the operating system's, or a keyed hash of a secret. Without randomgen there is an
    ImportError: nothing weaker takes its place.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"key has {len(key)} bytes; AES-128 takes {KEY_BYTES}")
    try:
        # Here and not above: seeded noise, prices and audits do without it.
        from randomgen import AESCounter
    except ImportError as error:
        raise ImportError(
            "secret noise is drawn by randomgen's AES, which is not installed: pip install "
            "'randomgen>=2.5' (a seed, SeededNoise, does without, but is for experiments only)"
        ) from error
    return np.random.Generator(AESCounter(key=int.from_bytes(key, "little")))


@dataclass(frozen=True, kw_only=True, eq=False)
class SecureGenerator:
    """Where noise comes from whose every bit is accounted for, as `secure_noise` makes it.

    It is not a NumPy generator, on purpose: a mechanism that knows only how to draw floating-point
    noise refuses it, instead of releasing numbers that pass for secure ones.
    """

    bits: np.random.Generator  # the generator of uniform bits
    word_bits: int = 64  # how many digits of a real number are drawn at a time, 1 to 64

    def __post_init__(self) -> None:
        _validate.whole(word_bits=self.word_bits, minimum=1)
        if self.word_bits > 64:
            raise ValueError(f"word_bits is {self.word_bits}; a word holds 64 bits at most")

    def words(self, size: int) -> NDArray[np.uint64]:
        """Draw uniform whole numbers below 2^word_bits [N]."""
        return self.bits.integers(0, 2**self.word_bits, size=size, dtype=np.uint64)

    def coins(self, size: int) -> NDArray[np.bool_]:
        """Toss fair coins [N]."""
        return self.bits.integers(0, 2, size=size, dtype=np.bool_)


AnyGenerator = Union[np.random.Generator, "torch.Generator", SecureGenerator]
NoiseGenerator = np.random.Generator | SecureGenerator


@dataclass(frozen=True, kw_only=True)
class OsEntropy:
    """Noise that nobody can repeat.

    The same draw of the same labels by the same mechanism is made once, and read again later.
    """

    kind: ClassVar[NoiseKind] = NoiseKind.PLAIN
    draw: int = 0  # which of several independent draws this is

    def __post_init__(self) -> None:
        _validate.whole(draw=self.draw)

    def generator(self, key: str) -> np.random.Generator:
        """Return a fresh cryptographic generator; `key` is not used: noise is never made twice."""
        del key
        return cryptographic_generator(secrets.token_bytes(KEY_BYTES))


@dataclass(frozen=True, kw_only=True)
class SecureEntropy:
    """As `OsEntropy`, for noise that an attack on floating-point numbers can't read either.

    Mechanisms draw real numbers, exactly, and release decisions on their digits, at the cost that
    their formulas give; see `secure_noise`.
    """

    kind: ClassVar[NoiseKind] = NoiseKind.SECURE
    draw: int = 0  # which of several independent draws this is

    def __post_init__(self) -> None:
        _validate.whole(draw=self.draw)

    def generator(self, key: str) -> SecureGenerator:
        """Return a fresh source of bits; `key` is not used: noise is never made twice."""
        return SecureGenerator(bits=OsEntropy().generator(key))


@dataclass(frozen=True, kw_only=True)
class SeededNoise:
    """Noise that anyone with the seed can repeat: for experiments, never for a real release."""

    kind: ClassVar[NoiseKind] = NoiseKind.SEEDED
    seed: int  # the seed, whole and not negative
    draw: int = 0  # which of several independent draws this is

    def __post_init__(self) -> None:
        _validate.whole(seed=self.seed, draw=self.draw)

    def generator(self, key: str) -> np.random.Generator:
        """Return the generator of the release named `key`: other releases get other streams."""
        words = [int(key[i : i + 8], 16) for i in range(0, 32, 8)]
        return np.random.default_rng(np.random.SeedSequence([self.seed, self.draw, *words]))


NoiseSource = OsEntropy | SecureEntropy | SeededNoise


class DrawnExactly:
    """Base class of mechanisms whose few numbers a vault draws exactly in any case.

    Secret noise alone is: with `secure_noise`, which costs time for each number. Seeded noise stays
    as it is, so that experiments repeat.
    """


def generator_for(mechanism: object, noise: NoiseSource, stream: str) -> AnyGenerator:
    """Return what a release is drawn with: exactly, where the mechanism requires it."""
    exact = isinstance(noise, OsEntropy) and isinstance(mechanism, DrawnExactly)
    source = SecureEntropy(draw=noise.draw) if exact else noise
    return source.generator(stream)


def as_numpy_generator(generator: AnyGenerator) -> np.random.Generator:
    """Return a NumPy generator; a torch generator is advanced by one draw of 128 bits to seed it.

    Anything else, an int or None for instance, is refused: noise needs an explicit one. So is a
    `SecureGenerator`, of which no floating-point noise is drawn.
    """
    if isinstance(generator, SecureGenerator):
        raise ValueError(
            "secure noise (SecureEntropy, noise.secure=true) is set for a mechanism that draws "
            "floating-point noise only; give it a way to draw on digits, as docs/"
            "adding_a_mechanism.md shows, or set noise.secure=false"
        )
    if isinstance(generator, np.random.Generator):
        return generator
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(generator, torch.Generator):
        high = 2**62
        words = torch.randint(high, (2,), generator=generator, device=generator.device)
        return np.random.default_rng([int(word) for word in words])
    raise TypeError(
        f"generator is {generator!r}; pass numpy.random.default_rng() (OS entropy) or a "
        "torch.Generator, since noise is never drawn from a hidden global state"
    )


def as_noise_generator(generator: AnyGenerator) -> NoiseGenerator:
    """As `as_numpy_generator`, for mechanisms that draw secure noise too: the type decides."""
    return generator if isinstance(generator, SecureGenerator) else as_numpy_generator(generator)


def as_discrete_generator(generator: AnyGenerator) -> np.random.Generator:
    """As `as_numpy_generator`, for mechanisms that are secure as they are.

    They release whole numbers that were chosen with probabilities that hold in floating point too.
    """
    return (
        generator.bits if isinstance(generator, SecureGenerator) else as_numpy_generator(generator)
    )

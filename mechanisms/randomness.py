"""Sources of noise, and draws of it that survive an attack on floating-point numbers.

A privacy guarantee assumes that nobody can predict the noise. A published seed voids it, so seeds
for noise and seeds for training are different arguments, and the card of a seeded run states it.

Nor may the rest of the noise reveal it: the adversary of differential privacy knows all labels but
one, and so all noise but one label's. The state of PCG64, NumPy's default, can be
recovered from its output (Bouillaguet, Martinez and Sauvage, "Practical seed-recovery for the PCG
pseudo-random number generator", 2020). Secret noise is therefore the keystream of AES-128 in
counter mode, under a fresh key of the operating system's for every release.

>>> int(cryptographic_generator(bytes(16)).bit_generator.random_raw())  # FIPS 197: AES of zeros
4263935709876578662

Noise made of floating-point numbers leaves gaps: some outputs are possible under one label and
impossible under another (Mironov, "On significance of the least significant bits for differential
privacy", CCS 2012). Secure noise is a real number of the very distribution that prices are proven
for. The release is decided on its digits: the nearest point of a lattice on which the values
lie, the largest of noisy counts, whether a threshold is reached. Each of these is a function of the
ideal release, and costs what that costs.

The first digits in which two uniform numbers differ show which is the smaller, so that coins with
probabilities such as e^-x can be tossed exactly (von Neumann, "Various techniques used in
connection with random digits", 1951). Karney, "Sampling exactly from the normal distribution", ACM
TOMS 42, 2016, makes the normal law of them by rejection: half a microsecond per value. Nothing here
resists an observer with a stopwatch.

>>> noise = on_lattice(normal, SecureEntropy().generator(""), scale=2.0, shape=(3, 4))
>>> noise.shape, bool((noise * LATTICE == np.round(noise * LATTICE)).all())
((3, 4), True)
"""

import math
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Union

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Floats

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
    """Where noise comes from whose every bit is accounted for, as `on_lattice` makes it.

    It is not a NumPy generator, on purpose: a mechanism that knows only how to draw floating-point
    noise refuses it, instead of releasing numbers that pass for secure ones.
    """

    bits: np.random.Generator  # the generator of uniform bits
    word_bits: int = 64  # how many digits of a real number are drawn at a time, 1 to 64

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
        return cryptographic_generator(secrets.token_bytes(KEY_BYTES))


@dataclass(frozen=True, kw_only=True)
class SecureEntropy:
    """As `OsEntropy`, for noise that an attack on floating-point numbers can't read either.

    Mechanisms draw real numbers, exactly, and release decisions on their digits, at the cost that
    their formulas give (`on_lattice`, `largest`, `reaches`).
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
        # All 128 bits of the address: two releases of one stream would differ by their labels
        # alone.
        words = [int(key[i : i + 8], 16) for i in range(0, 32, 8)]
        return np.random.default_rng(np.random.SeedSequence([self.seed, self.draw, *words]))


NoiseSource = OsEntropy | SecureEntropy | SeededNoise


class DrawnExactly:
    """Base class of mechanisms whose few numbers a vault draws exactly in any case.

    Secret noise alone is: with exact draws, which cost time for each number. Seeded noise stays
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
        # Torch draws signed numbers, so that one word can't hold 64 random bits.
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


#: Noise on real values lies on multiples of 1 / LATTICE.
LATTICE = 2**20

Labels = NDArray[np.int64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Digits:
    """Independent uniform real numbers in [0, 1), N of them, drawn word by word.

    A word holds `SecureGenerator.word_bits` binary digits of each number. Words once drawn stay.
    """

    def __init__(self, size: int, *, generator: SecureGenerator) -> None:
        self.size = size
        self._generator = generator
        self._words: list[NDArray[np.uint64]] = []

    def word(self, place: int) -> NDArray[np.uint64]:
        """Return the digits at `place` of every number, the most significant at 0 [N]."""
        while len(self._words) <= place:
            self._words.append(self._generator.words(self.size))
        return self._words[place]

    @property
    def resolution(self) -> float:
        """The digits after the first word."""
        return float(2.0**-self._generator.word_bits)

    def first(self) -> NDArray[np.float64]:
        """Return the first word as a float in [0, 1], within 2^-word_bits + 2^-53 [N]."""
        return self.word(0).astype(np.float64) * self.resolution

    def interval(self, index: int, places: int) -> tuple[Fraction, Fraction]:
        """Return where a number lies after `places` words: from the first, below the second."""
        bits = self._generator.word_bits
        known = 0
        for place in range(places):
            known = (known << bits) | int(self.word(place)[index])
        whole = 1 << (bits * places)
        return Fraction(known, whole), Fraction(known + 1, whole)

    @classmethod
    def joined(
        cls, parts: Sequence[tuple["Digits", Indices]], *, generator: SecureGenerator
    ) -> "Digits":
        """Return chosen numbers of several, in order; what they were chosen from is used up."""
        together = cls(sum(len(chosen) for _, chosen in parts), generator=generator)
        for place in range(max((len(digits._words) for digits, _ in parts), default=0)):
            words = [digits.word(place)[chosen] for digits, chosen in parts]
            together._words.append(np.concatenate(words))
        return together


def below(left: Digits, left_index: Indices, right: Digits, right_index: Indices) -> Mask:
    """Whether each of these numbers on the left is below its partner on the right [M]."""
    result = np.zeros(len(left_index), dtype=np.bool_)
    open_ = np.arange(len(left_index))
    place = 0
    # Equal words decide nothing. The pairs that are open draw further words, which a word of 64
    # bits almost never needs.
    while open_.size:
        ours = left.word(place)[left_index[open_]]
        theirs = right.word(place)[right_index[open_]]
        result[open_] = ours < theirs
        open_ = open_[ours == theirs]
        place += 1
    return result


def exponential_coins(
    size: int,
    *,
    generator: SecureGenerator,
    start: tuple[Digits, Indices] | None = None,
    thinned: Callable[[Indices], Mask] | None = None,
) -> Mask:
    """Toss coins that come up with probability e^(-p x) [M], exactly.

    Uniform numbers are drawn as long as each is below the one before, x being the first (`start`; 1
    if not given), and a coin of probability p comes up beside it (`thinned` tosses those of the
    numbers at some indices; always up if not given). n of them do with probability p^n x^n / n!, so
    that the number of those is even with probability 1 - p x + (p x)^2 / 2! - ... = e^(-p x).
    """
    even = np.ones(size, dtype=np.bool_)
    active: Indices = np.arange(size)
    above = start
    while active.size:
        drawn = Digits(active.size, generator=generator)
        goes_on = np.ones(active.size, dtype=np.bool_)
        if above is not None:
            goes_on = below(drawn, np.arange(active.size), *above)
        if thinned is not None:
            goes_on &= thinned(active)
        # A coin goes on as long as its numbers fall; the parity of its length is the result.
        active = active[goes_on]
        even[active] ^= True
        above = (drawn, np.flatnonzero(goes_on))
    return even


@dataclass(frozen=True, kw_only=True, eq=False)
class RealNoise:
    """N real numbers, as far as their digits are known: a sign, a whole part and a fraction."""

    negative: Mask  # [N]
    whole: Labels  # [N]
    fraction: Digits  # [N]

    def nearly(self) -> tuple[Floats, Floats]:
        """Return the numbers in double precision, and how far off they may be [N] each.

        Three operations round, by 2^-53 of 1 + whole at most; a short word leaves more open.
        """
        size = self.whole + self.fraction.first()
        error: Floats = (self.whole + 1).astype(np.float64) * 2.0**-50 + self.fraction.resolution
        value: Floats = np.where(self.negative, -size, size)
        return value, error

    def interval(self, index: int, places: int) -> tuple[Fraction, Fraction]:
        """Return between which two numbers one lies, after `places` words of its digits."""
        low, high = (
            int(self.whole[index]) + part for part in self.fraction.interval(index, places)
        )
        return (-high, -low) if self.negative[index] else (low, high)


def normal(size: int, *, generator: SecureGenerator) -> RealNoise:
    """Draw standard normal numbers [N] (Karney 2016, Algorithm N).

    The density at k + x is e^(-k^2/2) e^(-k x) e^(-x^2/2): k is drawn from the first factor, x is
    uniform, and both are kept with the probability that the other two make.
    """
    wholes = list[Labels]()
    fractions = list[tuple[Digits, Indices]]()
    missing = size
    while missing:
        # About half of the proposals are kept; a few more make a second round rare.
        proposed = _half_normal_wholes(2 * missing + 16, generator=generator)
        x = Digits(len(proposed), generator=generator)
        kept: Indices = np.arange(len(proposed))
        for times in range(int(proposed.max(initial=0))):  # e^(-x), k times
            due = proposed[kept] > times
            passed = ~due
            passed[due] = exponential_coins(
                int(due.sum()), generator=generator, start=(x, kept[due])
            )
            kept = kept[passed]

        # The fresh number is below x with probability x, and the coin halves it: e^(-x^2/2) in all.
        def half_of_x(active: Indices, x: Digits = x, kept: Indices = kept) -> Mask:
            fresh = Digits(len(active), generator=generator)
            return below(fresh, np.arange(len(active)), x, kept[active]) & generator.coins(
                len(active)
            )

        kept = kept[
            exponential_coins(len(kept), generator=generator, start=(x, kept), thinned=half_of_x)
        ][:missing]
        wholes.append(proposed[kept])
        fractions.append((x, kept))
        missing -= len(kept)
    return RealNoise(
        negative=generator.coins(size),
        whole=np.concatenate([np.zeros(0, dtype=np.int64), *wholes]),
        fraction=Digits.joined(fractions, generator=generator),
    )


def exponential(size: int, *, generator: SecureGenerator) -> RealNoise:
    """Draw exponential numbers of mean 1 [N]: whole part and fraction are independent."""
    whole = _geometric(size, lambda count: exponential_coins(count, generator=generator))
    fractions = list[tuple[Digits, Indices]]()
    missing = size
    while missing:
        x = Digits(2 * missing + 16, generator=generator)
        every = np.arange(x.size)
        kept = np.flatnonzero(exponential_coins(x.size, generator=generator, start=(x, every)))
        fractions.append((x, kept[:missing]))
        missing -= len(kept[:missing])
    return RealNoise(
        negative=np.zeros(size, dtype=np.bool_),
        whole=whole,
        fraction=Digits.joined(fractions, generator=generator),
    )


def laplace(size: int, *, generator: SecureGenerator) -> RealNoise:
    """Draw Laplace numbers of scale 1 [N]: exponential ones, of either sign."""
    size_of = exponential(size, generator=generator)
    return RealNoise(negative=generator.coins(size), whole=size_of.whole, fraction=size_of.fraction)


def floors(noise: RealNoise, *, scale: float, offset: Fraction = Fraction(0)) -> Labels:
    """Return the largest whole numbers up to offset + scale * noise [N], exactly."""
    # Floating point decides all but a few numbers; those within its error are decided exactly.
    value, error = noise.nearly()
    nearly = float(offset) + scale * value
    error = scale * error + (np.abs(nearly) + abs(float(offset))) * 2.0**-50
    result = np.floor(nearly)
    unsure = (nearly - result <= error) | (result + 1 - nearly <= error)
    exact = result.astype(np.int64)
    for index in np.flatnonzero(unsure):
        exact[index] = _floor(noise, int(index), Fraction(scale), offset)
    return exact


def largest(counts: NDArray[np.integer[Any]], noise: RealNoise, *, scale: float) -> Labels:
    """Return the class of the largest of counts [N, K] + scale * noise [N], exactly."""
    value, error = (part.reshape(counts.shape) for part in noise.nearly())
    nearly = counts + scale * value
    error = scale * error + np.abs(nearly) * 2.0**-50
    # The surest winner: a class whose lower end is above all upper ends is the largest.
    best = (nearly - error).argmax(axis=1)
    rows = np.arange(len(counts))
    rivals = nearly + error
    rivals[rows, best] = -np.inf
    unsure = rivals.max(axis=1) >= (nearly - error)[rows, best]
    labels: Labels = best.astype(np.int64)
    width = counts.shape[1]
    for row in np.flatnonzero(unsure):
        labels[row] = _largest(counts[row], noise, int(row) * width, Fraction(scale))
    return labels


def reaches(counts: Floats, noise: RealNoise, *, scale: float, threshold: float) -> Mask:
    """Whether counts + scale * noise are at least `threshold` [N], exactly; counts are whole."""
    value, error = noise.nearly()
    beyond = counts - threshold + scale * value
    error = scale * error + (np.abs(counts) + abs(threshold) + np.abs(beyond)) * 2.0**-50
    result: Mask = beyond > 0
    for index in np.flatnonzero(np.abs(beyond) <= error):
        missing = Fraction(threshold) - Fraction(float(counts[index]))
        result[index] = _floor(noise, int(index), Fraction(scale), -missing) >= 0
    return result


def rounded_sum(value: float, noise_std: float, *, generator: SecureGenerator) -> float:
    """Return value + noise of `noise_std`, rounded to a multiple of noise_std / LATTICE, exactly.

    The lattice is as public as `noise_std`, and the value need not lie on it.
    """
    step = Fraction(noise_std) / LATTICE
    noise = normal(1, generator=generator)
    steps = _floor(noise, 0, Fraction(LATTICE), Fraction(value) / step + Fraction(1, 2))
    return float(steps * step)


def on_lattice(
    law: Callable[..., RealNoise],
    generator: SecureGenerator,
    *,
    scale: float,
    shape: tuple[int, ...],
) -> Floats:
    """Draw noise of a law times `scale`, rounded to the nearest multiples of 1 / LATTICE."""
    _validate.drawable(scale=scale)
    # Division left the scale within half a unit in its last place: never less noise than is due.
    wide = math.nextafter(scale, math.inf)
    noise = law(math.prod(shape), generator=generator)
    steps = floors(noise, scale=wide * LATTICE, offset=Fraction(1, 2))
    return steps.reshape(shape) / LATTICE


def discrete_laplace(generator: AnyGenerator, *, scale: float, shape: tuple[int, ...]) -> Labels:
    """Draw whole numbers z with probability in proportion to e^(-|z| / scale).

    Two geometric numbers, subtracted. Exactly, these are the whole parts of exponential numbers of
    mean `scale`.
    """
    _validate.drawable(scale=scale, most=_validate.LARGEST_WHOLE_SCALE)
    generator = as_noise_generator(generator)
    if not isinstance(generator, SecureGenerator):
        up, down = generator.geometric(-math.expm1(-1 / scale), size=(2, *shape))
        return np.asarray(up - down, dtype=np.int64)
    size = math.prod(shape)
    # As in `on_lattice`: rounding must not make the noise smaller.
    wide = math.nextafter(scale, math.inf)
    first, second = (floors(exponential(size, generator=generator), scale=wide) for _ in range(2))
    return (first - second).reshape(shape)


def _half_normal_wholes(size: int, *, generator: SecureGenerator) -> Labels:
    """Whole numbers k with probability in proportion to e^(-k^2/2), up to `size` of them.

    k passes with e^(-k/2) as a geometric number, and with e^(-k (k-1)/2) in as many coins.
    """

    def coins(count: int) -> Mask:  # of probability e^(-1/2)
        return exponential_coins(
            count, generator=generator, thinned=lambda active: generator.coins(len(active))
        )

    wholes = _geometric(size, coins)
    alive = np.ones(size, dtype=np.bool_)
    due = wholes * (wholes - 1)
    times = 0
    while (open_ := np.flatnonzero(alive & (due > times))).size:
        alive[open_] = coins(len(open_))
        times += 1
    return wholes[alive]


def _geometric(size: int, coins: Callable[[int], Mask]) -> Labels:
    """How many coins come up before the first that does not [N]."""
    result = np.zeros(size, dtype=np.int64)
    active = np.arange(size)
    while active.size:
        active = active[coins(len(active))]
        result[active] += 1
    return result


def _floor(noise: RealNoise, index: int, scale: Fraction, offset: Fraction) -> int:
    places = 1
    while True:
        low, high = (offset + scale * end for end in noise.interval(index, places))
        # The ends themselves have probability 0.
        if math.floor(low) + 1 >= high:
            return math.floor(low)
        places += 1


def _largest(
    counts: NDArray[np.integer[Any]], noise: RealNoise, first: int, scale: Fraction
) -> int:
    places = 1
    while True:
        ends = [
            [int(count) + scale * end for end in noise.interval(first + k, places)]
            for k, count in enumerate(counts)
        ]
        best = max(range(len(ends)), key=lambda k: ends[k][0])
        if all(high <= ends[best][0] for k, (_, high) in enumerate(ends) if k != best):
            return best
        places += 1

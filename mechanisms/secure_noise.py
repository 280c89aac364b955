"""Noise that survives an attack on floating-point numbers, by OpenDP (extra `labeldp[secure]`).

Noise made of floating-point numbers leaves gaps: some outputs are possible under one label and
impossible under another (Mironov, "On significance of the least significant bits for differential
privacy", CCS 2012). Here the noise is an integer, drawn exactly by OpenDP's samplers (Canonne,
Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", 2020) and divided by 2^20.
One-hot labels lie on the same lattice, so that the sum is exact and has no gaps to tell by.

The noise comes from the operating system and cannot be seeded. It takes about 10 microseconds per
value, a hundred times as long as NumPy's. Nothing here resists an observer with a stopwatch.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._arrays import AnyArray, like
from labeldp.mechanisms.accounting import ORDERS, RenyiEvent, gaussian_rdp
from labeldp.mechanisms.additive_noise import L2_SENSITIVITY, GaussianNoise, LaplaceNoise
from labeldp.mechanisms.randomness import AnyGenerator

#: Noise lies on multiples of 1 / LATTICE.
LATTICE = 2**20
#: Up to here noise beyond 2^53 / LATTICE, where sums stop being exact, is out of the question.
LARGEST_SCALE = 2.0**20
_CHUNK = 1 << 20


def secure_laplace(*, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw discrete Laplace noise on the lattice, of OpenDP's making.

    Args:
        scale: Of the Laplace distribution, above 0 and at most `LARGEST_SCALE`.
        shape: Of the result.

    Raises:
        ValueError: A scale out of range.
        ImportError: OpenDP is not installed.
    """
    _check_scale("scale", scale)
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return _draw(dp.m.make_laplace(*space, scale=scale * LATTICE), shape)


def secure_gaussian(*, noise_std: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw discrete Gaussian noise on the lattice, of OpenDP's making.

    Args:
        noise_std: Standard deviation, above 0 and at most `LARGEST_SCALE`.
        shape: Of the result.

    Raises:
        ValueError: A standard deviation out of range.
        ImportError: OpenDP is not installed.
    """
    _check_scale("noise_std", noise_std)
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return _draw(dp.m.make_gaussian(*space, scale=noise_std * LATTICE), shape)


@dataclass(frozen=True, kw_only=True)
class SecureLaplaceNoise(LaplaceNoise):
    """`LaplaceNoise` with noise from `secure_laplace`: pure epsilon-DP on real machines.

    On the lattice the sensitivity is 2 * LATTICE and the scale (2 / epsilon) * LATTICE: the same
    epsilon, exactly.
    """

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy one-hot vectors [N, K], once.

        Args:
            labels: True labels [N], whole numbers 0..K-1.
            generator: Made of the operating system's entropy, which OpenDP asks itself.

        Raises:
            ValueError: Labels out of range, or a seeded generator, which could not be obeyed.
            ImportError: OpenDP is not installed.
        """
        _refuse_seeded(generator)
        exact = _validate.labels(labels, num_classes=self.num_classes)
        noisy = secure_laplace(scale=self.scale, shape=(len(exact), self.num_classes))
        noisy[np.arange(len(exact)), exact] += 1.0
        result: AnyArray = like(noisy, labels)
        return result


@dataclass(frozen=True, kw_only=True)
class SecureGaussianNoise:
    """`GaussianNoise` with noise from `secure_gaussian`.

    Attributes:
        noise_std: Standard deviation per coordinate, finite and above 0.
        num_classes: K, at least 2.
    """

    noise_std: float
    num_classes: int

    def __post_init__(self) -> None:
        """Check the parameters."""
        _check_scale("noise_std", self.noise_std)
        _validate.whole(num_classes=self.num_classes, minimum=2)

    @property
    def event(self) -> RenyiEvent:
        """What one release of a label costs: the Renyi curve of Gaussian noise.

        The discrete Gaussian obeys it (Canonne, Kamath and Steinke 2020, Theorem 14), while the
        exact formula for continuous noise is not proven for it: this charges a little more.
        """
        curve = gaussian_rdp(self.noise_std / L2_SENSITIVITY, ORDERS)
        return RenyiEvent(orders=tuple(ORDERS), rdp=tuple(curve))

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy one-hot vectors [N, K], once; as `SecureLaplaceNoise.release`."""
        _refuse_seeded(generator)
        exact = _validate.labels(labels, num_classes=self.num_classes)
        noisy = secure_gaussian(noise_std=self.noise_std, shape=(len(exact), self.num_classes))
        noisy[np.arange(len(exact)), exact] += 1.0
        result: AnyArray = like(noisy, labels)
        return result

    def log_likelihood(self, noisy: AnyArray) -> AnyArray:
        """Log-likelihood of every class [N, K], up to a term that all classes share."""
        continuous = GaussianNoise(noise_std=self.noise_std, num_classes=self.num_classes)
        return continuous.log_likelihood(noisy)


def _check_scale(name: str, value: float) -> None:
    _validate.positive(infinity=False, **{name: value})
    if value > LARGEST_SCALE:
        raise ValueError(
            f"{name} is {value}; secure noise is exact up to {LARGEST_SCALE:.0f} only, and labels "
            "are lost in less"
        )


def _opendp() -> Any:
    try:
        from opendp import prelude
    except ImportError as error:
        raise ImportError(
            "secure noise is drawn by OpenDP, which is not installed: pip install 'labeldp[secure]'"
        ) from error
    prelude.enable_features("contrib")
    return prelude


def _draw(measurement: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Noise added to zeros, in chunks since OpenDP speaks in Python lists."""
    size = math.prod(shape)
    noise = np.empty(size)
    for start in range(0, size, _CHUNK):
        count = min(_CHUNK, size - start)
        noise[start : start + count] = measurement([0] * count)
    return noise.reshape(shape) / LATTICE


def _refuse_seeded(generator: AnyGenerator) -> None:
    """Refuse a generator that promises to repeat itself: OpenDP's noise never does.

    NumPy takes 128 bits from the operating system where it is given no seed; anything else, a
    sequence of words or a number that a person would type, is a seed.
    """
    bits = getattr(generator, "bit_generator", None)
    entropy = getattr(getattr(bits, "seed_seq", None), "entropy", None)
    if not isinstance(entropy, int) or entropy.bit_length() <= 64:
        raise ValueError(
            f"generator is {generator!r} with a seed; secure noise cannot be repeated. Use "
            "OsEntropy() or numpy.random.default_rng() without a seed, or noise that is not secure"
        )

"""Noise added to one-hot labels: Laplace (ALIBI) and Gaussian (AGIBI).

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 4.
The noise is drawn once per label; training on it, for however long, is post-processing.

>>> import numpy as np
>>> mechanism = LaplaceNoise(epsilon=2.0, num_classes=3)
>>> noisy = mechanism.release(np.array([2, 0]), generator=np.random.default_rng(7))
>>> noisy.shape, mechanism.scale
((2, 3), 1.0)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, like
from labeldp.mechanisms.accounting import GaussianMechanism
from labeldp.mechanisms.label_channels import (
    Agreement,
    GaussianFamily,
    LaplaceFamily,
    PerLabel,
    PurePerLabel,
)
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    RealNoise,
    SecureGenerator,
    as_noise_generator,
    laplace,
    normal,
    on_lattice,
)

#: Substituting one label changes two coordinates of its one-hot vector by 1 each.
L1_SENSITIVITY = 2.0
#: Numbers at a time: an exact one takes 170 bytes while it is drawn.
_DRAWN_AT_ONCE = 1_000_000


def _noisy(
    labels: AnyArray,
    num_classes: int,
    generator: AnyGenerator,
    exact: Callable[..., RealNoise],
    plain: Callable[..., Any],
    *,
    scale: float,
) -> AnyArray:
    """Return one-hot vectors [N, K] of labels plus noise of one law, in either way to draw it."""
    checked = _validate.labels(labels, num_classes=num_classes, secret=True)
    noisy = np.zeros((len(checked), num_classes))
    noisy[np.arange(len(checked)), checked] = 1.0
    rng = as_noise_generator(generator)
    for part in _validate.blocks(len(noisy), num_classes, entries=_DRAWN_AT_ONCE):
        shape = noisy[part].shape
        if isinstance(rng, SecureGenerator):
            noisy[part] += on_lattice(exact, rng, scale=scale, shape=shape)
        else:
            noisy[part] += plain(rng, scale=scale, size=shape)
    return like(noisy, labels)


@dataclass(frozen=True, kw_only=True)
class LaplaceNoise(PurePerLabel):
    """One-hot labels plus Laplace noise of scale 2 / epsilon in every coordinate: pure DP."""

    failure_probability: ClassVar[float] = 0.0
    family: ClassVar[LaplaceFamily] = LaplaceFamily()

    @property
    def scale(self) -> float:
        """The Laplace distribution's scale b."""
        return L1_SENSITIVITY / self.epsilon

    @property
    def noise_std(self) -> float:
        """Standard deviation per coordinate, sqrt(2) b: the sigma of the paper's code."""
        return math.sqrt(2.0) * self.scale

    @property
    def agreement(self) -> Agreement:
        """The entry of the predicted class, with its noise."""
        return Agreement(noise_std=self.noise_std)

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy one-hot vectors of labels [N], once: float64 [N, K]."""
        plain = np.random.Generator.laplace
        return _noisy(labels, self.num_classes, generator, laplace, plain, scale=self.scale)

    def log_likelihood(self, noisy: AnyArray) -> AnyArray:
        """Log-likelihood of every class, up to a term that all classes share [N, K].

        From the paper's Eq. (3): -sum_k |o_k - [k = c]| / b = const + (|o_c| - |o_c - 1|) / b,
        which takes O(N K) instead of O(N K^2).
        """
        return (abs(noisy) - abs(noisy - 1)) / self.scale


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(GaussianMechanism, PerLabel):
    """One-hot labels plus Gaussian noise in every coordinate: (epsilon, delta)-DP."""

    failure_probability: ClassVar[float] = 0.0
    family: ClassVar[GaussianFamily] = GaussianFamily()

    @property
    def agreement(self) -> Agreement:
        """The entry of the predicted class, with its noise."""
        return Agreement(noise_std=self.noise_std)

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy one-hot vectors of labels [N], once: float64 [N, K]."""
        plain = np.random.Generator.normal
        return _noisy(labels, self.num_classes, generator, normal, plain, scale=self.noise_std)

    def log_likelihood(self, noisy: AnyArray) -> AnyArray:
        """Log-likelihood of every class, up to a term that all classes share [N, K].

        -|o - e_c|^2 / (2 s^2) = const + (o_c - 1/2) / s^2, the paper's Eq. (5). Its published code
        divides by s instead of s^2, which is Bayes' rule only at s = 1.
        """
        return (noisy - 0.5) / self.noise_std**2

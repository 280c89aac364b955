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
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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
    SecureGenerator,
    as_noise_generator,
    laplace,
    normal,
    on_lattice,
)

#: Substituting one label changes two coordinates of its one-hot vector by 1 each.
L1_SENSITIVITY = 2.0


def _one_hot(labels: Any, num_classes: int) -> NDArray[np.float64]:
    checked = _validate.labels(labels, num_classes=num_classes, secret=True)
    encoded = np.zeros((len(checked), num_classes))
    encoded[np.arange(len(checked)), checked] = 1.0
    return encoded


@dataclass(frozen=True, kw_only=True)
class LaplaceNoise(PurePerLabel):
    """One-hot labels plus Laplace noise of scale 2 / epsilon in every coordinate: pure DP."""

    failure_probability: ClassVar[float] = 0.0

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

    @property
    def family(self) -> LaplaceFamily:
        """Laplace noise of any scale."""
        return LaplaceFamily()

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy one-hot vectors of labels [N], once: float64 [N, K]."""
        exact = _one_hot(labels, self.num_classes)
        rng = as_noise_generator(generator)
        if isinstance(rng, SecureGenerator):
            noise = on_lattice(laplace, rng, scale=self.scale, shape=exact.shape)
        else:
            noise = rng.laplace(scale=self.scale, size=exact.shape)
        noisy: AnyArray = like(exact + noise, labels)
        return noisy

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

    @property
    def agreement(self) -> Agreement:
        """The entry of the predicted class, with its noise."""
        return Agreement(noise_std=self.noise_std)

    @property
    def family(self) -> GaussianFamily:
        """Gaussian noise of any standard deviation."""
        return GaussianFamily()

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy one-hot vectors of labels [N], once: float64 [N, K]."""
        exact = _one_hot(labels, self.num_classes)
        rng = as_noise_generator(generator)
        if isinstance(rng, SecureGenerator):
            noise = on_lattice(normal, rng, scale=self.noise_std, shape=exact.shape)
        else:
            noise = rng.normal(scale=self.noise_std, size=exact.shape)
        noisy: AnyArray = like(exact + noise, labels)
        return noisy

    def log_likelihood(self, noisy: AnyArray) -> AnyArray:
        """Log-likelihood of every class, up to a term that all classes share [N, K].

        -|o - e_c|^2 / (2 s^2) = const + (o_c - 1/2) / s^2, the paper's Eq. (5). Its published code
        divides by s instead of s^2, which is Bayes' rule only at s = 1.
        """
        return (noisy - 0.5) / self.noise_std**2

"""Bayes' rule on noisy one-hot vectors, against the sum over coordinates for every class."""

from pathlib import Path

import numpy as np

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.posterior import posterior
from tests.benchmarks.benchmark import Work, benchmark

_EXAMPLES, _CLASSES, _QUADRATIC = 10_000, 100, 1000


@benchmark(
    "posterior",
    "posterior of 10,000 noisy vectors over 100 classes",
    "the quadratic form, all coordinates for each class",
    mark=6.5,
)
def _posterior(scratch: Path) -> Work:
    mechanism = LaplaceNoise(epsilon=2.0, num_classes=_CLASSES)
    generator = np.random.default_rng(0)
    labels = generator.integers(0, _CLASSES, size=_EXAMPLES)
    noisy = mechanism.release(labels, generator=generator)
    log_prior = np.log(generator.dirichlet(np.full(_CLASSES, 0.5), size=_EXAMPLES) + 1e-9)

    def plain(rows: int) -> np.ndarray:
        """-|o - e_c| / b summed over all K coordinates for each of the K classes."""
        scores = np.empty((rows, _CLASSES))
        for label, one_hot in enumerate(np.eye(_CLASSES)):
            scores[:, label] = -np.abs(noisy[:rows] - one_hot).sum(1) / mechanism.scale
        scores += log_prior[:rows]
        weights = np.exp(scores - scores.max(1, keepdims=True))
        normalized: np.ndarray = weights / weights.sum(1, keepdims=True)
        return normalized

    def ours() -> np.ndarray:
        found: np.ndarray = posterior(mechanism.log_likelihood(noisy), log_prior)
        return found

    return Work(
        ours=ours,
        reference=lambda: plain(_QUADRATIC),
        part=_QUADRATIC / _EXAMPLES,
        check=lambda: np.testing.assert_allclose(
            ours()[:_QUADRATIC], plain(_QUADRATIC), rtol=1e-9, atol=1e-300
        ),
    )

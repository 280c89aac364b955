"""Noise of a hundred thousand labels, with AES beside PCG64; priors of RRWithPrior.

PCG64 could be worked out from its noise: what is timed is the cost of secrecy, a ratio of 1 where
AES takes no longer beside the rest of a release.
"""

from pathlib import Path
from typing import Any

import numpy as np

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from tests.benchmarks.benchmark import Work, benchmark

_LABELS, _CLASSES = 100_000, 10
_PRIORS, _ROW_BY_ROW = 50_000, 1000


@benchmark(
    "noise-laplace",
    "LaplaceNoise, a million draws, AES",
    "the same with PCG64, which is not secret",
    mark=0.5,
)
def _noise(scratch: Path) -> Work:
    secret, plain = OsEntropy().generator(""), np.random.default_rng()
    labels = np.arange(_LABELS) % _CLASSES
    mechanism = LaplaceNoise(epsilon=1.0, num_classes=_CLASSES)

    def made(generator: Any) -> np.ndarray:
        return np.asarray(mechanism.release(labels, generator=generator))

    def check() -> None:
        """Draws differ: they have the same mean and spread."""
        ours, theirs = made(secret), made(plain)
        assert abs(ours.mean() - theirs.mean()) < 0.02 * theirs.std()
        assert abs(ours.std() / theirs.std() - 1) < 0.02

    return Work(ours=lambda: made(secret), reference=lambda: made(plain), check=check)


@benchmark(
    "rr-with-prior",
    "RRWithPrior, release of 50,000 labels of 100 classes",
    "row by row",
    mark=5,
    most_seconds=0.5,
)
def _priors(scratch: Path) -> Work:
    generator = np.random.default_rng(1)
    prior = generator.dirichlet(np.full(100, 0.3), size=_PRIORS)
    labels = generator.integers(0, 100, size=_PRIORS)
    mechanism = RRWithPrior(epsilon=2.0)

    def row_by_row() -> list[int]:
        """The paper's Algorithm 2: the k with the largest (sum of k largest) / (1 + ...)."""
        released, kept = [], []
        for row, label in zip(prior[:_ROW_BY_ROW], labels, strict=False):
            order = np.argsort(-row)
            sums = np.cumsum(row[order])
            k = int(np.argmax(sums / (1 + np.arange(100) * np.exp(-2.0)))) + 1
            outputs = order[:k].tolist()
            weights = np.full(k, np.exp(-2.0) if label in outputs else 1.0)
            if label in outputs:
                weights[outputs.index(label)] = 1.0
            released.append(generator.choice(outputs, p=weights / weights.sum()))
            kept.append(k)
        return kept

    return Work(
        ours=lambda: mechanism.release(labels, prior, generator=generator),
        reference=row_by_row,
        part=_ROW_BY_ROW / _PRIORS,
        check=lambda: np.testing.assert_array_equal(
            mechanism.top_k(prior[:_ROW_BY_ROW]), row_by_row()
        ),
    )

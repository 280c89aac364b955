"""Releases of a hundred thousand to a million labels, with AES beside PCG64; priors of RRWithPrior.

PCG64 could be worked out from its noise: what is timed is what secrecy costs, a ratio of 1 where
AES takes no longer beside the rest of a release.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from tests.benchmarks.benchmark import Work, benchmark

DRAWS, CLASSES = 1_000_000, 10
LABELS = np.arange(DRAWS // CLASSES) % CLASSES
MANY_LABELS = np.arange(DRAWS) % CLASSES
RELEASES: dict[str, Callable[[Any], Any]] = {
    "LaplaceNoise": lambda rng: LaplaceNoise(epsilon=1.0, num_classes=CLASSES).release(
        LABELS, generator=rng
    ),
    "RandomizedResponse": lambda rng: RandomizedResponse(epsilon=1.0, num_classes=CLASSES).release(
        MANY_LABELS, generator=rng
    ),
}
_PRIORS, _ROW_BY_ROW = 50_000, 1000


def _noise(make: Callable[[Any], Any], scratch: Path) -> Work:
    secret, plain = OsEntropy().generator(""), np.random.default_rng()

    def check() -> None:
        """Draws differ: they have the same mean and spread."""
        ours, theirs = (np.asarray(make(rng), dtype=np.float64) for rng in (secret, plain))
        assert abs(ours.mean() - theirs.mean()) < 0.02 * theirs.std()
        assert abs(ours.std() / theirs.std() - 1) < 0.02

    return Work(ours=lambda: make(secret), reference=lambda: make(plain), check=check)


for _short, (_name, _make) in zip(("laplace", "response"), RELEASES.items(), strict=True):
    benchmark(
        f"noise-{_short}",
        f"{_name}, a million draws, AES",
        "the same with PCG64, which is not secret",
        mark=0.5,
    )(partial(_noise, _make))


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

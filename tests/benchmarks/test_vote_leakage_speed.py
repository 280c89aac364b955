"""Speed of the vote-leakage attack on 100 classes; `hot_paths/votes.py` has 10 of them."""

import time

import numpy as np
import pytest

from labeldp.mechanisms.pate.vote_leakage import answer_log_probabilities, reconstruct


@pytest.mark.benchmark
@pytest.mark.parametrize(("classes", "teachers", "limit"), [(100, 5000, 5.0)])
def test_seconds_for_each_histogram(classes: int, teachers: int, limit: float) -> None:
    generator = np.random.default_rng(0)
    noise_std = 0.16 * teachers
    counts = np.empty((20, classes))
    for row in range(20):
        votes = generator.multinomial(teachers, generator.dirichlet(np.full(classes, 0.2)))
        probabilities = np.exp(answer_log_probabilities(votes, noise_std))
        counts[row] = generator.multinomial(10_000, probabilities / probabilities.sum())
    started = time.perf_counter()
    reconstruct(counts, noise_std, teachers)
    seconds = (time.perf_counter() - started) / len(counts)
    print(f"\n{classes} classes: {1e3 * seconds:.1f} ms for each histogram")
    assert seconds < limit

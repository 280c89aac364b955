"""Counting votes, and getting them back from answers."""

from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from labeldp.mechanisms.pate.aggregators import count_votes
from labeldp.mechanisms.pate.vote_leakage import _answers, answer_log_probabilities, reconstruct
from tests.benchmarks.benchmark import Work, benchmark

_TEACHERS, _QUERIES, _CLASSES, _BY_QUERY = 800, 50_000, 100, 2000


@benchmark(
    "votes",
    "votes of 800 teachers, 50,000 queries, 100 classes",
    "a bincount for each query",
    mark=0.57,
    most_seconds=1.0,
    most_megabytes=60,
)
def _counting(scratch: Path) -> Work:
    draws = np.random.default_rng(0)
    votes = draws.integers(0, _CLASSES, (_TEACHERS, _QUERIES), dtype=np.uint8)

    def plain() -> np.ndarray:
        return np.stack(
            [np.bincount(votes[:, query], minlength=_CLASSES) for query in range(_BY_QUERY)]
        )

    return Work(
        ours=lambda: count_votes(votes, num_classes=_CLASSES),
        reference=plain,
        part=_BY_QUERY / _QUERIES,
        check=lambda: np.testing.assert_array_equal(
            count_votes(votes, num_classes=_CLASSES)[:_BY_QUERY], plain()
        ),
    )


@benchmark(
    "reconstruction",
    "20 histograms of 10 classes from 10,000 answers each",
    "SciPy's SLSQP on the same likelihood and gradient",
    mark=8.5,
    most_seconds=1.0,
)
def _reconstruction(scratch: Path) -> Work:
    generator = np.random.default_rng(0)
    teachers, noise_std, classes = 250, 40.0, 10
    counts = np.empty((20, classes))
    for row in range(20):
        votes = generator.multinomial(teachers, generator.dirichlet(np.full(classes, 0.5)))
        probabilities = np.exp(answer_log_probabilities(votes, noise_std))
        counts[row] = generator.multinomial(10_000, probabilities / probabilities.sum())
    few = counts[:2]

    def plain() -> np.ndarray:
        """A general solver for the same maximum, with the likelihood's gradient."""
        found = []
        for row in few:
            shares = row / row.sum()
            solved = minimize(
                lambda votes, shares=shares: -shares @ answer_log_probabilities(votes, noise_std),
                np.full(classes, teachers / classes),
                jac=lambda votes, shares=shares: -shares @ _answers(votes, noise_std)[1],
                bounds=[(0, teachers)] * classes,
                constraints={"type": "eq", "fun": lambda votes: votes.sum() - teachers},
                method="SLSQP",
                options={"ftol": 1e-12, "maxiter": 500},
            )
            found.append(solved.x)
        return np.stack(found)

    return Work(
        ours=lambda: reconstruct(counts, noise_std, teachers),
        reference=plain,
        part=len(few) / len(counts),
        check=lambda: np.testing.assert_allclose(
            reconstruct(few, noise_std, teachers), plain(), atol=0.5
        ),
    )

"""PATE's prices, against plain loops over the queries, the moves and the distances."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from labeldp.mechanisms.accounting import ORDERS, conversion_offsets
from labeldp.mechanisms.pate.accounting import confident_gnmax_costs
from labeldp.mechanisms.pate.decisions import exact_rdp_gnmax
from labeldp.mechanisms.pate.published_cost import AnswerPrice, cost_of_answers
from labeldp.mechanisms.pate.vote_leakage import answer_log_probabilities
from tests.benchmarks.benchmark import Work, benchmark

Floats = NDArray[np.float64]

#: The 298 orders of PATE 2018: 100 is there twice.
PUBLISHED_ORDERS = np.sort(np.append(ORDERS[ORDERS >= 2], 100.0))
THRESHOLD, SIGMA1, SIGMA2, DELTA = 200.0, 150.0, 40.0, 1e-5
_QUERIES, _LOOPED = 50_000, 2500
_DECISIONS, _MOVED = 500, 5
_ANSWERS, _WALKED, _ORDER = 2000, 40, 10.0


def mixed_votes(num_queries: int) -> NDArray[np.int64]:
    """Votes of 250 teachers on 10 classes, from unanimous to split; four in five are different."""
    generator = np.random.default_rng(0)
    leader = generator.beta(3, 1.5, size=num_queries)
    rest = generator.dirichlet(np.full(9, 0.5), size=num_queries) * (1 - leader)[:, None]
    probabilities = np.concatenate([leader[:, None], rest], axis=1)
    return generator.multinomial(250, probabilities)


def gaussian_curve(log_q: float, noise: float, orders: Floats) -> Floats:
    """Theorem 6 of PATE 2018 for one query, at all orders at once."""
    ceiling = orders / noise**2
    mu2 = noise * math.sqrt(-log_q)
    mu1 = mu2 + 1
    e1, e2 = mu1 / noise**2, mu2 / noise**2
    if mu2 <= 1 or -log_q <= e2:
        return ceiling
    if log_q > (mu2 - 1) * e2 - mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1))):
        return ceiling
    log_1q = math.log1p(-math.exp(log_q))
    slope = log_1q - math.log1p(-math.exp((log_q + e2) * (1 - 1 / mu2)))
    steps = orders - 1
    bound = np.logaddexp(log_1q + steps * slope, log_q + steps * (e1 - log_q / mu2)) / steps
    return np.where(orders < mu1, np.minimum(bound, ceiling), ceiling)


def _log_q(row: NDArray[np.int64], noise_std: float) -> float:
    """Bound on the log probability of another answer than the leader."""
    leader = row.argmax()
    gaps = row[leader] - np.delete(row, leader)
    log_q = float(logsumexp(log_ndtr(-gaps / (math.sqrt(2) * noise_std))))
    return min(log_q, math.log1p(-1 / len(row)))


def plain_loop(votes: NDArray[np.int64]) -> float:
    """Epsilon of the expected cost, query by query."""
    orders = PUBLISHED_ORDERS
    total = np.zeros(len(orders))
    for row in votes:
        log_p = float(log_ndtr((row.max() - THRESHOLD) / SIGMA1))
        surprise = min(log_p, math.log(-math.expm1(log_p)))
        total += gaussian_curve(surprise, math.sqrt(2) * SIGMA1, orders)
        total += math.exp(log_p) * gaussian_curve(_log_q(row, SIGMA2), SIGMA2, orders)
    return float((total + conversion_offsets(orders, DELTA)).min())


def price(votes: NDArray[np.int64]) -> float:
    """The same by the library."""
    costs = confident_gnmax_costs(votes, threshold=THRESHOLD, sigma1=SIGMA1, sigma2=SIGMA2)
    return costs.cost(delta=DELTA, orders=PUBLISHED_ORDERS).epsilon


@benchmark(
    "accounting",
    "expected cost of 50,000 queries at 298 orders",
    "a loop over the queries, all orders at once",
    mark=26,
    most_seconds=0.3,
)
def _expected(scratch: Path) -> Work:
    votes = mixed_votes(_QUERIES)
    part = votes[:_LOOPED]
    return Work(
        ours=lambda: price(votes),
        reference=lambda: plain_loop(part),
        part=_LOOPED / _QUERIES,
        check=lambda: np.testing.assert_allclose(price(part), plain_loop(part), rtol=1e-9),
    )


@benchmark(
    "accounting-decisions",
    "exact cost of 500 answers of 250 teachers, all orders",
    "each vote moved to each class, one at a time",
    mark=6.9,
)
def _decision(scratch: Path) -> Work:
    votes, orders = mixed_votes(_DECISIONS), ORDERS

    def divergence(log_p: Floats, log_q: Floats) -> Floats:
        scores = np.outer(orders, log_p) + np.outer(1 - orders, log_q)
        found: Floats = logsumexp(scores, axis=1) / (orders - 1)
        return found

    def plain() -> Floats:
        """Move each vote to each other class, and take the worst of both directions."""
        found = np.zeros((_MOVED, len(orders)))
        for number, row in enumerate(votes[:_MOVED]):
            before = answer_log_probabilities(row, SIGMA2)
            for loses in np.flatnonzero(row):
                for gains in range(len(row)):
                    if gains == loses:
                        continue
                    moved = row.copy()
                    moved[loses] -= 1
                    moved[gains] += 1
                    after = answer_log_probabilities(moved, SIGMA2)
                    for both in ((before, after), (after, before)):
                        found[number] = np.maximum(found[number], divergence(*both))
        return found

    return Work(
        ours=lambda: exact_rdp_gnmax(votes, SIGMA2, orders),
        reference=plain,
        part=_MOVED / _DECISIONS,
        check=lambda: np.testing.assert_allclose(
            exact_rdp_gnmax(votes[:_MOVED], SIGMA2, orders), plain(), rtol=1e-5
        ),
    )


@benchmark(
    "smooth-sensitivity",
    "sensitivity of the cost of 2,000 answers at 250 distances",
    "a walk for each query, a vote a step",
    mark=180,
)
def _smooth(scratch: Path) -> Work:
    votes = mixed_votes(_ANSWERS)
    cost = AnswerPrice(noise_std=SIGMA2, num_classes=10, order=_ORDER)

    def walk(row: NDArray[np.int64]) -> Floats:
        """PATE 2018, Algorithms 3 to 5, for one histogram: a vote a step to the worst place."""
        counts = -np.sort(-row)
        log_q = _log_q(counts, SIGMA2)
        rises = log_q < cost.log_q1
        found = np.full(250, cost.largest_change)
        for distance in range(250):
            log_q = _log_q(counts, SIGMA2)
            if cost.log_q1 <= log_q <= cost.log_q0 or rises != (log_q < cost.log_q1):
                break
            found[distance] = cost.change(np.array([log_q]))[0]
            if rises:
                counts[0] -= 1
                counts[1] += 1
            elif counts[1] == 0:
                break
            else:
                counts[np.flatnonzero(counts[1:] == counts[1])[-1] + 1] -= 1
                counts[0] += 1
        return found

    def ours(some: NDArray[np.int64]) -> Floats:
        return cost_of_answers(some, price=cost, num_teachers=int(some[0].sum()))[1]

    def plain() -> Floats:
        found: Floats = np.sum([walk(row) for row in votes[:_WALKED]], axis=0)
        return found

    return Work(
        ours=lambda: ours(votes),
        reference=plain,
        part=_WALKED / _ANSWERS,
        check=lambda: np.testing.assert_allclose(ours(votes[:_WALKED]), plain(), rtol=1e-9),
    )

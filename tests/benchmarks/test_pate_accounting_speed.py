"""How fast PATE's prices are, against a plain loop over the queries, on one core.

`OMP_NUM_THREADS=1 python -m pytest -m benchmark -s tests/benchmarks/test_pate_accounting_speed.py`
"""

import math
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from labeldp.mechanisms.accounting import ORDERS, conversion_offsets
from labeldp.mechanisms.pate.accounting import confident_gnmax_costs
from labeldp.mechanisms.pate.many_settings import expected_of_settings

pytestmark = pytest.mark.benchmark

#: The 298 orders of PATE 2018: 100 is there twice.
PUBLISHED_ORDERS = np.sort(np.append(ORDERS[ORDERS >= 2], 100.0))
THRESHOLD, SIGMA1, SIGMA2, DELTA = 200.0, 150.0, 40.0, 1e-5


def mixed_votes(num_queries: int) -> NDArray[np.int64]:
    """Votes of 250 teachers on 10 classes, from unanimous to split; four in five are different."""
    generator = np.random.default_rng(0)
    leader = generator.beta(3, 1.5, size=num_queries)
    rest = generator.dirichlet(np.full(9, 0.5), size=num_queries) * (1 - leader)[:, None]
    probabilities = np.concatenate([leader[:, None], rest], axis=1)
    return generator.multinomial(250, probabilities)


def gaussian_curve(log_q: float, noise: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
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


def plain_loop(votes: NDArray[np.int64], *, every_prefix: bool) -> NDArray[np.float64]:
    """Epsilon of the expected cost, query by query: of every prefix [N], or the total only [1]."""
    orders = PUBLISHED_ORDERS
    offsets = conversion_offsets(orders, DELTA)
    total = np.zeros(len(orders))
    epsilons = []
    for row in votes:
        leader = row.argmax()
        gaps = row[leader] - np.delete(row, leader)
        log_q = float(logsumexp(log_ndtr(-gaps / (math.sqrt(2) * SIGMA2))))
        log_q = min(log_q, math.log1p(-1 / len(row)))
        log_p = float(log_ndtr((row[leader] - THRESHOLD) / SIGMA1))
        surprise = min(log_p, math.log(-math.expm1(log_p)))
        total += gaussian_curve(surprise, math.sqrt(2) * SIGMA1, orders)
        total += math.exp(log_p) * gaussian_curve(log_q, SIGMA2, orders)
        if every_prefix:
            epsilons.append((total + offsets).min())
    return np.array(epsilons if every_prefix else [(total + offsets).min()])


def seconds(work: Callable[[], object], *, repeats: int = 5) -> float:
    """Best of several runs: what else the machine does is not ours to measure."""
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def price(votes: NDArray[np.int64], *, every_prefix: bool) -> NDArray[np.float64]:
    costs = confident_gnmax_costs(votes, threshold=THRESHOLD, sigma1=SIGMA1, sigma2=SIGMA2)
    if every_prefix:
        return costs.expected_prefixes(delta=DELTA, orders=PUBLISHED_ORDERS).epsilon
    return np.array([costs.expected(delta=DELTA, orders=PUBLISHED_ORDERS).epsilon])


@pytest.mark.parametrize(
    ("every_prefix", "limit", "factor"), [(False, 0.3, 20.0), (True, 1.0, 8.0)]
)
def test_fifty_thousand_queries(every_prefix: bool, limit: float, factor: float) -> None:
    votes = mixed_votes(50_000)
    assert len(PUBLISHED_ORDERS) == 298
    part = votes[:5_000]  # a tenth of the loop: it is linear in the queries
    loop = 10 * seconds(lambda: plain_loop(part, every_prefix=every_prefix), repeats=2)
    ours = seconds(lambda: price(votes, every_prefix=every_prefix))
    np.testing.assert_allclose(
        price(part, every_prefix=every_prefix),
        plain_loop(part, every_prefix=every_prefix),
        rtol=1e-9,
    )
    what = "every prefix" if every_prefix else "total only"
    print(
        f"\n50,000 queries x 298 orders, {what}: {ours:.3f} s; plain loop {loop:.2f} s; "
        f"{loop / ours:.0f} times faster"
    )
    assert ours < limit
    assert loop / ours > factor


def test_memory_of_every_prefix() -> None:
    """Peak memory of a fresh process, votes and imports included."""
    program = (
        "from pathlib import Path\n"
        "from tests.benchmarks.test_pate_accounting_speed import mixed_votes, price\n"
        "price(mixed_votes(50_000), every_prefix=True)\n"
        # Not getrusage: what it tells includes the process that this one was forked from.
        "status = Path('/proc/self/status').read_text().splitlines()\n"
        "print(next(line for line in status if line.startswith('VmHWM')).split()[1])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    mebibytes = int(result.stdout) / 1024
    print(f"\n50,000 queries x 298 orders, every prefix: {mebibytes:.0f} MiB at most")
    assert mebibytes < 1024


@pytest.mark.parametrize("distinct_noise", [1000, 10])
def test_a_thousand_settings_over_ten_thousand_queries(distinct_noise: int) -> None:
    votes = mixed_votes(10_000)
    generator = np.random.default_rng(1)
    settings = np.stack(
        [
            generator.uniform(50, 250, size=1000),
            np.resize(generator.uniform(20, 100, size=distinct_noise), 1000),
            generator.uniform(100, 300, size=1000),
        ],
        axis=1,
    )
    taken = seconds(lambda: expected_of_settings(votes, settings, delta=DELTA), repeats=1)
    print(f"\n1,000 settings ({distinct_noise} different sigma2), 10,000 queries: {taken:.1f} s")
    assert taken < 60

"""How long a thousand settings of PATE take to price, on one core.

The price of one setting stands beside a plain loop in `hot_paths/accounting.py`.
"""

import time

import numpy as np
import pytest

from labeldp.mechanisms.pate.accounting import expected_of_settings
from tests.benchmarks.hot_paths.accounting import DELTA, mixed_votes


@pytest.mark.benchmark
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
    started = time.perf_counter()
    expected_of_settings(votes, settings, delta=DELTA)
    taken = time.perf_counter() - started
    print(f"\n1,000 settings ({distinct_noise} different sigma2), 10,000 queries: {taken:.1f} s")
    assert taken < 60

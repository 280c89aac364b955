"""Every hot path against its reference, as `make bench` has them, for pytest."""

import pytest

from tests.benchmarks.bench import in_its_own_process
from tests.benchmarks.benchmark import Benchmark, judge
from tests.benchmarks.hot_paths import BENCHMARKS
from tests.benchmarks.machine import this_machine


@pytest.mark.benchmark
@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_hot_path(benchmark: Benchmark) -> None:
    figures = in_its_own_process(benchmark)
    assert not isinstance(figures, str), figures
    verdict = judge(benchmark, figures, cores=this_machine().cores)
    print(f"\n{benchmark.name}: ratio {figures.ratio:.3g}; {verdict.words}")
    assert verdict.passed, verdict.words

"""What the fault tests share: the small sweep's end when nothing happens to it."""

import pytest

from tests.faults.small_sweep import SWEEP
from tests.faults.sweep_runs import Ending, run_here
from tests.faults.without_cluster import without_cluster


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ending:
    results = tmp_path_factory.mktemp("undisturbed") / "results"
    with without_cluster():
        code, said = run_here(SWEEP, "--results", str(results))
    assert code == 0, said
    return Ending.of(results)

"""What the fault tests share: the sweep's end when nothing happens to it."""

import pytest

from tests.faults.sweep_runs import Driver, Ending


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ending:
    """Run the small sweep once, in peace."""
    results = tmp_path_factory.mktemp("undisturbed") / "results"
    with Driver(results) as driver:
        driver.finish()
    return Ending.of(results)

"""The cluster of fake GPUs: its arithmetic here, a small one where benchmarks are asked for."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.cluster_scale import Mark, ScaleSettings, SweepFigures, main, table_of


def a_mark(trials: int) -> Mark:
    return Mark(
        trials=trials,
        seconds=0.5 * trials,
        driver_seconds=0.02 * trials,
        driver_megabytes=300 + 0.01 * trials,
        requests=8 * trials,
    )


def test_what_a_trial_costs_is_told_between_marks() -> None:
    sweep = SweepFigures(
        trials=1_000, finished=500, marks=tuple(map(a_mark, (1, 100, 500))), end_seconds=None
    )
    assert sweep.between(0, -1) == pytest.approx(
        {
            "seconds": 0.5,
            "driver_milliseconds": 20.0,
            "driver_kilobytes": 10.0,
            "requests": 8.0,
            "requests_per_second": 16.0,
        }
    )
    lines = table_of(None, sweep)
    assert "500 of 1,000 trials" in lines and "cut off" in lines and "0.50 s, 20 ms" in lines


@pytest.mark.parametrize(
    "changes", [{"slots": 17}, {"slots": 0}, {"teachers": -1}, {"trials": 1}, {"queries": 0}]
)
def test_sizes_that_no_cluster_has_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"slots|counts"):
        ScaleSettings(**changes)


@pytest.mark.benchmark
@pytest.mark.ray_cluster
def test_a_small_cluster(tmp_path: Path) -> None:
    path = tmp_path / "scale.json"
    sizes = ["--nodes", "2", "--slots", "1", "--teachers", "20", "--trials", "4"]
    assert main([*sizes, "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report["teachers"]["actors"] == 2 and report["teachers"]["teachers"] == 20
    assert report["sweep"]["finished"] == 4 and report["sweep"]["marks"][-1]["trials"] == 4

"""The command about the pool: its tables, and an ensemble of one's own."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.pool_model import Machines
from tests.benchmarks.pool_simulation import (
    BEFORE,
    MEASURED_SPREAD,
    NOW,
    main,
    several,
    sizes,
    table_of,
    times_of,
)


def test_an_ensemble_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.json"
    words = ["--teachers", "100", "--workers", "1", "10", "--each", "36", "--json", str(path)]
    assert main(words) == 0
    alone, ten = json.loads(path.read_text())["tables"]["own"]
    # An hour of work, and 4 % more for one run of a hundred that takes five times as long.
    assert alone["gpu_hours"] == pytest.approx(1.04, rel=0.05)
    assert alone["hours"] == pytest.approx(alone["gpu_hours"])
    assert ten["gpu_hours"] == pytest.approx(1.04, rel=0.05) and ten["hours"] < 0.2
    printed = capsys.readouterr().out
    assert "| workers | hours | gpu hours |" in printed and "\n| 10 | " in printed
    with pytest.raises(SystemExit):
        main(["--teachers", "0"])
    assert "take 1 or more" in capsys.readouterr().err


def test_measured_times_are_over_their_mean() -> None:
    assert sum(MEASURED_SPREAD) / len(MEASURED_SPREAD) == pytest.approx(1, abs=0.01)
    assert list(MEASURED_SPREAD) == sorted(MEASURED_SPREAD)


def test_more_workers_than_teachers_cost_no_more_than_as_many() -> None:
    rows = list(sizes(100))
    assert [(row["teachers"], row["workers"]) for row in rows] == [
        (100, 1),
        (100, 10),
        (100, 100),
        (100, 1_000),
    ]
    assert rows[3]["gpu_hours"] == pytest.approx(rows[2]["gpu_hours"], rel=0.2)
    assert len(table_of(rows).splitlines()) == 6


def test_the_pools_rules_save_time_and_machines() -> None:
    before, now = (
        several(
            500,
            1,
            times=times_of(each=300.0),
            machines=Machines(workers=50, deaths_per_hour=0.5),
            policy=policy,
            seeds=5,
        )
        for policy in (BEFORE, NOW)
    )
    assert sum(run.paid for run in now) < 0.95 * sum(run.paid for run in before)
    assert sum(run.makespan for run in now) < sum(run.makespan for run in before)

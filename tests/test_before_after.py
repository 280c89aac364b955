"""Two checkouts side by side: what a command took, the table, and what is refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import before_after
from tests.benchmarks.before_after import (
    COMMANDS,
    PART,
    chosen,
    main,
    row_of,
    table_of,
    trials_of,
)
from tests.benchmarks.performance_page import PAGE, part_of, with_part
from tests.benchmarks.timed_command import CommandFailed, Timing, timed

#: Starts a process that computes, and ends with it, but never waits for it.
_CARELESS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "for n in range(10**7): pass"])
while ") Z " not in open(f"/proc/{child.pid}/stat").read():
    time.sleep(.01)
print("done", flush=True)
os._exit(0)
"""


def a_timing(wall: float, **changes: Any) -> Timing:
    made: dict[str, Any] = {"processor": wall / 2, "load_before": 0.5, "others": 0.1, "output": ""}
    return Timing(wall=wall, **{**made, **changes})


def test_the_time_of_processes_that_nobody_waits_for_counts(tmp_path: Path) -> None:
    alone = timed([sys.executable, "-c", "pass"], cwd=tmp_path, environment={})
    found = timed([sys.executable, "-c", _CARELESS], cwd=tmp_path, environment={})
    assert found.output == "done\n"
    assert found.processor > 2 * alone.processor
    assert found.wall > 0 and found.others >= 0


def test_a_command_that_fails_or_takes_too_long_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="ended with 3"):
        timed([sys.executable, "-c", "raise SystemExit(3)"], cwd=tmp_path, environment={})
    wait = "import time; time.sleep(60)"
    with pytest.raises(CommandFailed, match="took more than"):
        timed([sys.executable, "-c", wait], cwd=tmp_path, environment={}, seconds=0.2)


def test_trials_are_read_from_either_kind_of_output() -> None:
    assert trials_of('progress\n{"trials": 16, "failed": 0}\n') == 16
    assert trials_of('{\n "trials": 5\n}\n') == 5
    assert trials_of("") is None and trials_of("[1]") is None


def test_a_row_has_medians_and_the_worst_load() -> None:
    before = [a_timing(wall, output='{"trials": 16}') for wall in (9.0, 8.0, 30.0)]
    after = [a_timing(wall, output='{"trials": 16}', load_before=3.0) for wall in (4.0, 5.0, 4.0)]
    row = row_of(COMMANDS[0], before, after)
    assert (row["before"]["wall"], row["after"]["wall"]) == (9.0, 4.0)
    assert row["after"]["processor"] == 2.0 and row["load_before"] == [0.5, 3.0]
    report = {"before": "old", "after": "new", "processor": "P", "cores": 2, "rows": [row]}
    table = table_of(report)
    assert "Commit old against new: P, 2 cores" in table
    assert "| 16 | 9.0 s | 4.0 s | 44% | 4.5 s | 2.0 s | 44% | 3 on " in table
    page = PAGE.read_text(encoding="utf-8")
    assert table in part_of(PART, with_part(PART, table, page))


def test_both_sides_run_in_turn_and_the_first_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (tmp_path / name for name in ("old", "new"))
    for side in (old, new):
        (side / ".venv" / "bin").mkdir(parents=True)
        (side / ".venv" / "bin" / "labeldp").touch()
    ran: list[str] = []

    def once(command: object, checkout: Path) -> Timing:
        ran.append(checkout.name)
        return a_timing(100.0 if len(ran) <= 2 else 2.0)

    monkeypatch.setattr(before_after, "once", once)
    path = tmp_path / "found.json"
    sides = [str(old), "--after", str(new), "--json", str(path), "--rounds", "3"]
    assert main([*sides, "--only", "plan"]) == 0
    assert ran == ["old", "new"] * 4
    assert [row["name"] for row in json.loads(path.read_text())["rows"]] == ["plan"]
    assert main([*sides, "--only", "import"]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [row["name"] for row in rows] == ["import", "plan"], "what was measured before stays"
    assert rows[1]["before"]["wall"] == 2.0
    assert "| 2.0 s |" in capsys.readouterr().out


def test_bad_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "comparison" not in [each.name for each in chosen([])]
    with pytest.raises(ValueError, match="no command 'demos'; there are import, driver, plan"):
        chosen(["demos"])
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "run make install there" in capsys.readouterr().err

"""Benchmarks: what is said where there are no results or data to begin with, and on Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import source_tree
from tests.benchmarks import (
    comparison_table,
    fast_network,
    fast_network_versus,
    pate_table,
    random_patches,
    self_supervised,
)
from tests.benchmarks.interruption import ended


@pytest.mark.parametrize(
    ("main", "arguments", "words"),
    [
        (comparison_table.main, ["mnist"], "pareto.csv can't be read (No such file"),
        (pate_table.main, [], "no record of a finished trial in nowhere/trials"),
        (pate_table.main, ["--facts"], "no record of a finished trial in nowhere/trials"),
    ],
)
def test_a_folder_without_results_is_named(
    main: Callable[[], None],
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["table", "nowhere", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "arguments", "words"),
    [
        (fast_network.main, [], "labeldp data fetch cifar10"),
        (fast_network_versus.main, [], "labeldp data fetch cifar10"),
        (self_supervised.main, ["cifar10"], "labeldp data fetch cifar10"),
        (random_patches.main, ["cifar10"], "labeldp data fetch cifar10"),
        (random_patches.main, ["cifar1"], "did you mean cifar10?"),
    ],
)
def test_data_that_are_not_there_are_named(
    main: Callable[[], None],
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert words in capsys.readouterr().err


def test_ctrl_c_ends_a_benchmark_in_one_line() -> None:
    command = [sys.executable, "-u", "-m", "tests.benchmarks.automatic_method"]
    with subprocess.Popen(
        command,
        cwd=source_tree.ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs, and so their children, would not hear of Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("| data | epsilon |"), "it measures"
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=120)
    assert said.splitlines() == ["interrupted; call it again to measure anew"]
    assert running.returncode == 130


@pytest.mark.parametrize(("returned", "code"), [(None, None), (0, 0), (1, 1)])
def test_else_a_benchmark_ends_as_it_says(returned: int | None, code: int | None) -> None:
    with pytest.raises(SystemExit) as end:
        ended(lambda: returned)
    assert end.value.code == code


def test_every_benchmark_that_is_a_command_ends_so() -> None:
    """But for a sweep, which has words of its own."""
    commands = {
        path.relative_to(source_tree.ROOT).as_posix(): text.partition('__name__ == "__main__":')[2]
        for path in (source_tree.ROOT / "tests" / "benchmarks").rglob("*.py")
        if '\nif __name__ == "__main__":' in (text := path.read_text(encoding="utf-8"))
    }
    assert commands.pop("tests/benchmarks/trivial_sweep.py").strip() == "main(SWEEP)"
    assert len(commands) > 20
    for name, last in commands.items():
        assert last.strip().startswith("ended("), name

"""Benchmarks: what is said where there are no results, or no data, to begin with."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks import (
    comparison_table,
    fast_network,
    fast_network_versus,
    pate_table,
    random_patches,
    self_supervised,
)


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

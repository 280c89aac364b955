"""Tables of results folders: what is said where there is nothing to make one of."""

import sys
from collections.abc import Callable

import pytest

from tests.benchmarks import comparison_table, pate_table


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

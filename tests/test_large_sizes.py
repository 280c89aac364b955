"""Small versions of `tests.benchmarks.large_sizes`: every part runs, and memory grows with size."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks import large_sizes
from tests.benchmarks.large_sizes import PARTS, Part, line_of, page_with

SMALL = {"vault": 5000, "vault-reader": 5000, "vault-wall": 5000, "plan": 40, "resume": 12}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_part_runs_at_a_small_size(part: Part, tmp_path: Path) -> None:
    assert part.size >= 100 * SMALL[part.name]
    figures = part.run(SMALL[part.name], tmp_path)
    assert figures.get("shared", 1.0) == 1.0, "a second reader has no copy"


def _peak_bytes(run: Callable[[int, Path], object], size: int, folder: Path) -> int:
    folder.mkdir()
    tracemalloc.start()
    try:
        run(size, folder)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_vault_of_a_million_labels_takes_a_hundred_bytes_for_each(tmp_path: Path) -> None:
    """2 GiB for ten million are 200 each; the interpreter and its libraries are not counted."""
    small = _peak_bytes(large_sizes.first_release, 100_000, tmp_path / "small")
    large = _peak_bytes(large_sizes.first_release, 1_000_000, tmp_path / "large")
    assert large < 100e6
    assert large < 11 * small, "no more for each label where there are more of them"


def test_a_release_is_read_without_a_second_copy(tmp_path: Path) -> None:
    """Eight bytes for each label, once to write it for the test and once as it is read."""
    assert _peak_bytes(large_sizes.read_by_another, 1_000_000, tmp_path / "read") < 30e6


def test_rows_for_the_terminal_and_the_page() -> None:
    row = {"name": "plan", "what": "trials planned", "size": 10**5, "passed": True, "words": ""}
    measured = {**row, "seconds": 31.25, "megabytes": 512.0}
    assert line_of(measured).split() == ["plan", "100,000", "31.2", "s", "512", "MB", "ok"]
    assert "FAILED: killed" in line_of({**row, "passed": False, "words": "killed"})
    text = f"before\n{large_sizes._BEGIN}\nold\n{large_sizes._END}\nafter\n"
    page = page_with([measured], text)
    assert "| plan | trials planned | 100,000 | 31.2 s | 512 MB |" in page
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    with pytest.raises(ValueError, match="lacks"):
        page_with([measured], "no marks")


def test_a_part_that_takes_more_than_it_may_fails() -> None:
    part = Part(name="plan", what="trials planned", size=40, run=large_sizes.plan, most_seconds=0.1)
    row = large_sizes.in_its_own_process(part)
    assert not row["passed"] and "seconds" in row["words"]

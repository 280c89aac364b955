"""Figures, tables and comparisons for a paper, by the commands that make them."""

from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_ind

from labeldp.platform.records.results import ResultsFolder
from tests.platform.cli.asked import answer, refusal, words
from tests.platform.sweep.examples import a_record

SEEDS = {"a": (0.70, 0.74, 0.75), "b": (0.80, 0.81, 0.85, 0.82)}


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Two sweeps of the line `A & B` at epsilon 1; the second has another line too."""
    for name, accuracies in SEEDS.items():
        folder = ResultsFolder(tmp_path / name, sweep="small")
        folder.identify(num_labels=100)
        for seed, accuracy in enumerate(accuracies):
            given: dict[str, Any] = {
                "variant": "A & B",
                "changes": {"seed": seed},
                "accuracy": accuracy,
            }
            folder.keep(a_record(f"{seed}" * 16, point={"seed": seed}, **given))
    folder.keep(a_record("f" * 16, variant="none", epsilon=float("inf"), accuracy=0.9))
    return [str(tmp_path / name) for name in SEEDS]


@pytest.mark.parametrize("name", ["accuracy_vs_epsilon", "epsilon_m_vs_epsilon"])
def test_a_figure_is_as_wide_as_a_column_and_has_fonts(
    name: str, folders: list[str], tmp_path: Path
) -> None:
    written = {}
    for ending in ("pdf", "svg", "png"):
        to = tmp_path / f"figure.{ending}"
        assert answer("report", folders[1], "--figure", name, "--to", str(to))["points"] == 2
        written[ending] = to.read_bytes()
    assert written["pdf"].startswith(b"%PDF") and b"/FontFile2" in written["pdf"]
    svg = written["svg"].decode()
    assert 'width="237.6pt"' in svg and ">no privacy<" in svg and ">A &amp; B<" in svg
    assert (">accuracy, %<" in svg) == (name == "accuracy_vs_epsilon")
    assert int.from_bytes(written["png"][16:20], "big") == 990  # 3.3 inches of 300 points
    assert "name a file that ends in" in refusal(
        "report", folders[0], "--figure", name, "--to", str(tmp_path / "figure.gif")
    )
    assert "needs a file" in refusal("report", folders[0], "--figure", name)


def test_a_table_is_for_the_paper_that_it_goes_into(folders: list[str], tmp_path: Path) -> None:
    latex = words("report", folders[1], "--table", "latex")
    assert r"A \& B & 1 & 0 & 82.00 $\pm$ 2.16 & 0.25 & 4 \\" in latex.splitlines()
    markdown = words("report", folders[1], "--table", "markdown").splitlines()
    assert markdown[2] == "| A & B | 1 | 0 | 82.00 ± 2.16 | 0.25 | 4 |"
    to = tmp_path / "table.csv"
    assert answer("report", folders[1], "--table", "csv", "--to", str(to))["rows"] == 2
    assert to.read_text().splitlines()[2].startswith("none,∞,0,90.00,")
    assert "of a results folder alone" in refusal(
        "report", folders[0], "--table", "csv", "--edition", "public"
    )


def test_two_sweeps_are_compared_by_their_seeds(folders: list[str]) -> None:
    (row,) = answer("compare", *folders)["rows"]
    found = ttest_ind(SEEDS["b"], SEEDS["a"], equal_var=False).confidence_interval()
    assert (row["line"], row["epsilon"]) == ("A & B", 1.0)
    assert (row["low"], row["high"]) == pytest.approx((found.low, found.high))
    other = ResultsFolder(Path(folders[0]).with_name("other"), sweep="small")
    other.keep(a_record("e" * 16, variant="C"))
    assert "no finished line at the same epsilon" in refusal("compare", folders[0], str(other.path))

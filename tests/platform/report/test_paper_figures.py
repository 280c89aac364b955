"""Figures, tables and comparisons for papers: each has the numbers that it was given, no others."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import ttest_ind

from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.report import paper_figures
from labeldp.platform.report.paper_figures import write_figures
from labeldp.platform.settings.metrics import ChooseBy
from tests.platform.cli.asked import answer, refusal, words
from tests.platform.sweep.examples import a_record, mode
from tests.trainers.encoders.test_libraries import MADE

VOTES = np.array([[200, 30, 20]] * 30 + [[120, 110, 20]] * 10)


def a_grid() -> list[TrialRecord]:
    """Two temperatures, three thresholds, two seeds; one point is missing."""
    return [
        a_record(
            f"{temperature}{tau}{seed}",
            point={"trainer.temperature": temperature, "trainer.tau": tau, "seed": seed},
            accuracy=temperature / 2 + tau / 1000 + 0.01 * seed,
        )
        for temperature in (0.5, 1.0)
        for tau in (100, 200, 300)
        for seed in (0, 1)
        if (temperature, tau) != (1.0, 300)
    ]


def panels(figure: Figure | None) -> list[Any]:
    """Axes of a figure that there must be; matplotlib's types leave open what is in them."""
    assert figure is not None
    return list(figure.axes)


def test_a_heat_map_has_the_mean_of_every_point() -> None:
    axes = panels(paper_figures.heat_map(a_grid()))[0]
    np.testing.assert_allclose(
        axes.images[0].get_array().filled(math.nan), [[35.5, 45.5, 55.5], [60.5, 70.5, math.nan]]
    )
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("trainer.tau", "trainer.temperature")


def test_a_heat_map_takes_epsilon_only_where_nothing_else_is_varied() -> None:
    keys = ("trainer.epsilon", "trainer.temperature", "trainer.mixup")
    records = [
        a_record(f"{number}", point=dict(zip(keys, values, strict=True)))
        for number, values in enumerate(product((1.0, 2.0), (0.5, 1.0), (0, 4)))
    ]
    axes = panels(paper_figures.heat_map(records))[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == keys[:0:-1]
    apart = [a_record(f"{key}{x}", point={key: x}) for key in keys[:2] for x in (1, 2)]
    assert paper_figures.heat_map(apart) is None, "two lines, each with an axis of its own"


def test_what_settings_do_has_shares_all_settings_and_means_along_each() -> None:
    shares, across, first, second = panels(paper_figures.settings(a_grid()))
    assert [text.get_text() for text in shares.get_yticklabels()] == ["temperature", "tau"]
    best = max(line.get_alpha() for line in across.lines if len(line.get_ydata()) == 3)
    (strongest,) = (line for line in across.lines if line.get_alpha() == best)
    assert strongest.get_ydata().tolist() == [1, 0.5, 1], "temperature 1, threshold 200"
    assert [text.get_text() for text in across.get_xticklabels()][-1] == "accuracy, %"
    np.testing.assert_allclose(first.lines[0].get_ydata(), [45.5, 65.5])
    np.testing.assert_allclose(second.lines[0].get_ydata(), [48.0, 58.0, 55.5])
    assert (first.get_xlabel(), first.get_ylabel()) == ("temperature", "accuracy, %")


def test_axes_of_any_kind_are_drawn() -> None:
    records = [
        a_record(f"{flag}{size}", point={"a.flag": flag, "a.size": size}, accuracy=0.5 + 0.1 * flag)
        for flag in (False, True)
        for size in (None, 1, 50.0)
    ]
    records.append(a_record("e", variant="other", accuracy=0.4))  # it has no axis
    shares, across = panels(paper_figures.settings(records))
    assert {text.get_text() for text in shares.get_yticklabels()} == {"line", "flag", "size"}
    assert {"False", "True", "None", "50"} <= {text.get_text() for text in across.texts}


def test_shares_are_main_effects_adjusted_for_chance() -> None:
    generator = np.random.default_rng(0)
    rows = [(a, b, c) for a in (0, 1, 2) for b in ("x", "y") for c in range(20)]
    table = pd.DataFrame(rows, columns=["a", "b", "c"])
    table["c"] = generator.uniform(size=len(table))  # an axis of many numbers, without effect
    table["accuracy"] = 4.0 * table["a"] + 3.0 * (table["b"] == "x")
    found = paper_figures.shares(table, ["b", "a", "c"])
    # Var(4 a) = 16 x 2/3 and Var(3 b) = 9 / 4, of all rows but for the adjustment.
    whole = 32 / 3 + 9 / 4
    assert list(found)[:2] == ["a", "b"]
    assert found["a"] == pytest.approx(1 - (9 / 4) / whole * 119 / 117)
    assert found["b"] == pytest.approx(1 - (32 / 3) / whole * 119 / 118)
    assert found["c"] < 0.05
    once = table.assign(d=[str(number) for number in range(len(table))])
    assert "d" not in paper_figures.shares(once, ["d"])


def test_stages_are_points_of_top_k_accuracy_and_lines_of_mean_k() -> None:
    figures = {"top_k_accuracy_stage_2": 0.9, "mean_top_k_stage_2": 1.8}
    records = [a_record("a", accuracy=0.7, figures=figures), a_record("b")]
    left, right = panels(paper_figures.stages(records))
    assert left.lines[0].get_xydata().tolist() == [[90.0, 70.0]]
    assert right.lines[0].get_xydata().tolist() == [[2.0, 1.8]]


def test_a_folder_gets_what_it_has_data_for_and_canaries_stay_with_the_owner(
    tmp_path: Path,
) -> None:
    assert write_figures([a_record("a"), a_record("f", finished=False)], tmp_path) == []
    evidence = tmp_path / "private" / "evidence"
    evidence.mkdir(parents=True)
    np.savez(evidence / "a.npz", own=np.linspace(0, 1, 20), others=np.zeros((20, 3)))
    written = write_figures([a_record("a")], tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        f"private/figures/canaries.{kind}" for kind in ("svg", "png")
    ]
    assert {mode(path) for path in written} == {0o600}
    (tmp_path / "others.txt").touch(mode=0o644)
    names = {path.name for path in write_figures(a_grid(), tmp_path)}
    assert mode(tmp_path / "others.txt") & 0o044, "nothing else is closed"
    assert names == {"heat_map.svg", "heat_map.png", "settings.svg", "settings.png"}


def test_the_plurality_has_every_query_the_likely_answers_and_the_papers_cost() -> None:
    aggregator = ConfidentGNMax(threshold=150.0, sigma1=20.0, sigma2=10.0)
    figure = paper_figures.plurality(VOTES, aggregator, delta=1e-5)
    left, right = panels(figure)
    heights = np.array([bar.get_height() for bar in left.patches])
    costs = aggregator.costs(VOTES, Accounting.COUNTS)
    assert heights[:20].sum() == 40 and heights[16] == 30
    assert heights[20:].sum() == pytest.approx(np.exp(costs.log_probability).sum())
    checks, both = (bar.get_height() for bar in right.patches)
    assert 0 < checks < both == pytest.approx(costs.cost(delta=1e-5).epsilon)


def test_less_noise_costs_more_and_answers_better_by_both_maxima() -> None:
    generator = np.random.default_rng(0)
    figure = paper_figures.noisy_maxima(VOTES, (10.0, 80.0), delta=1e-5, generator=generator)
    lines = panels(figure)[0].lines
    for line in lines:
        (dear, right), (cheap, less) = line.get_xydata()
        assert dear > cheap and right > less
    gaussian = GNMax(noise_std=80.0).costs(VOTES, Accounting.COUNTS).cost(delta=1e-5)
    assert lines[0].get_xdata()[1] == gaussian.epsilon


def test_a_command_draws_a_file_of_votes_with_plain_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "votes.npy", VOTES)
    asked = ["epsilon", "pate", "--aggregator=confident", "--sigma1=20", "--sigma2=10"]
    asked += ["--threshold=150", "--delta=1e-5", f"--figures={tmp_path / 'drawn'}"]
    assert "--votes" in refusal(*asked, "--answer=20")
    answer(*asked, "--votes", str(tmp_path / "votes.npy"))
    names = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert names == {
        f"{figure}.{kind}" for figure in ("plurality", "noisy_maxima") for kind in ("svg", "png")
    }
    assert mode(tmp_path / "drawn") == 0o700
    # A tick of a logarithmic axis was "$\\mathdefault{10^{0}}$".
    assert "mathdefault" not in (tmp_path / "drawn" / "noisy_maxima.svg").read_text()


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
    errors = ResultsFolder(tmp_path / "amounts", sweep="amounts")
    for seed, error in enumerate((0.031, 0.0254)):
        figures = {"mean_squared_error": error, "delta": 1e-5}
        record = a_record(f"{seed}" * 16, point={"seed": seed}, figures=figures)
        measured = {name: of for name, of in record.metrics.items() if name != "accuracy"}
        errors.keep(replace(record, metrics=measured))
    head, _, row = words("report", str(errors.path), "--table", "markdown").splitlines()
    assert "| mean squared error |" in head and "%" not in head
    assert "| 0.0282 ± 0.00396 | 0.25† |" in row
    assert r"0.25$\dagger$" in words("report", str(errors.path), "--table", "latex")
    assert "of a results folder alone" in refusal(
        "report", folders[0], "--table", "csv", "--edition", "public"
    )


def test_two_sweeps_are_compared_by_their_seeds(folders: list[str]) -> None:
    (row,) = answer("compare", *folders)["rows"]
    found = ttest_ind(SEEDS["b"], SEEDS["a"], equal_var=False).confidence_interval()
    assert (row["line"], row["epsilon"]) == ("A & B", 1.0)
    assert (row["low"], row["high"]) == pytest.approx((found.low, found.high))
    ResultsFolder(Path(folders[1]), sweep="small").keep(
        a_record("9" * 16, variant="A & B", point={"trainer.epochs": 9}, accuracy=0.6)
    )
    (row,) = answer("compare", *folders)["rows"]
    assert row["b"] == pytest.approx(0.82) and row["low"] is None, "chosen among settings"
    other = ResultsFolder(Path(folders[0]).with_name("other"), sweep="small")
    other.keep(a_record("e" * 16, variant="C"))
    asked = ("compare", folders[0], str(other.path))
    assert "no finished line at the same epsilon" in refusal(*asked)
    other.keep(replace(a_record("d" * 16, variant="A & B"), features=MADE.described()))
    assert "in the same league" in refusal(*asked)
    adult = a_record("d" * 16)
    other.keep(replace(adult, config={**adult.config, "data.name": "adult"}))
    assert f"those of {other.path} of adult, " in refusal(*asked)
    other.identify(choose_by=ChooseBy.LOG_LOSS)
    for digest in "ed":
        other.keep(a_record(digest * 16, figures={"log_loss": 0.3}))
    refused = refusal(*asked)
    assert (
        f"{folders[0]} are compared by accuracy, and those of {other.path} compared by" in refused
    )

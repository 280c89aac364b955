"""Files to read before installing: licenses, citation, promised versions."""

import json
import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

import labeldp
from docs import leaderboard, licenses
from labeldp.platform.cli.sweep_command import command_of, plan_options
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.sweep.plan import prepare
from tests.benchmarks.gpu_campaign import campaign
from tests.source_tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_licenses_are_those_of_the_packages_here() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    rows = dict(re.findall(r"^\| ([a-z][\w.-]*) \| (.*) \|$", licenses.page(), re.M))
    assert rows.pop("package") == "version | license | for"
    assert rows.keys() >= {"torch", "ray", "mlflow", "cryptography", "timm"}
    same = [name for name in rows if rows[name].split(" |")[0] == pinned.get(name)]
    assert len(same) > 100
    assert not [name for name, row in rows.items() if re.search(r"\bA?GPL", row)]


def test_the_citation_names_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == PROJECT["version"] == labeldp.__version__
    assert cited["license"] == PROJECT["license"] and cited["cff-version"] == "1.2.0"
    assert all({"type", "title", "authors"} <= each.keys() for each in cited["references"])


BOARD = leaderboard.FILE


def test_the_leaderboard_is_made_of_its_entries_and_ours_stand_in_the_pages() -> None:
    found = leaderboard.entries(BOARD.read_text())
    rows = leaderboard.page(found).split("\n## Rows\n")[1]
    assert re.findall(r"^\| (\d+) \| ", rows, re.M) == [str(n + 1) for n in range(len(found))]
    ours = [(entry, entry.run) for entry in found if entry.run]
    steps = [step.name for step in campaign()]
    assert len(ours) > 20 and len(found) - len(ours) > 30
    for entry, run in ours:
        lines = (ROOT / "docs" / run.page).read_text().splitlines()
        for result in entry.results:
            value = re.compile(rf"(?<![\d.]){result[1]:g}0*(?!\d)")
            assert any(value.search(line) for line in lines), (entry.method, result)
        _, file, *arguments = shlex.split(run.command)
        if file == "-m":
            assert arguments[0] == "tests.benchmarks.gpu_campaign"
            prefixes = [word for before, word in pairwise(arguments) if before == "--only"]
            assert all(any(step.startswith(each) for step in steps) for each in prefixes)
            continue
        sweep = load_sweep(str(ROOT / file))
        given = command_of(sweep).make_context("sweep", arguments).params
        assert prepare(sweep, plan_options(sweep, given))[1], run.command


def test_the_figure_of_the_frontier_is_made_of_the_entries(tmp_path: Path) -> None:
    again = tmp_path / "frontier.svg"
    leaderboard.draw(leaderboard.entries(BOARD.read_text()), again)
    number = re.compile(r"(?<![\w#])-?\d+(?:\.\d+)?")
    drawn, kept = again.read_text(), leaderboard.FIGURE.read_text()
    assert number.sub("", drawn) == number.sub("", kept)
    found, expected = ([float(each) for each in number.findall(text)] for text in (drawn, kept))
    assert found == pytest.approx(expected, abs=0.01)


def test_a_frontier_rises_and_a_pure_result_also_counts_at_a_delta() -> None:
    found = [each for each in leaderboard.entries(BOARD.read_text()) if each.data == "CIFAR-10"]
    pure, at_a_delta = (leaderboard.frontier(found, ours=True, pure=pure) for pure in (True, False))
    for front in (pure, at_a_delta):
        assert all(a.epsilon < b.epsilon and a.accuracy < b.accuracy for a, b in pairwise(front))
    assert {each.entry.delta for each in pure} == {0.0}
    assert {each.entry.delta > 0 for each in at_a_delta} == {True, False}
    assert all(each.entry.run for each in at_a_delta)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"results": [[1.0, 101.0]]}, "an accuracy is above 100%"),
        ({"results": [[2.0, 90.0], [1.0, 80.0]]}, "each stands once, in rising order"),
        ({"source": "A paper, Table 1"}, "either a source, or a run of ours"),
        ({"adjacency": "one person"}, "one label is substituted"),
        ({"delta": 0.5}, "less than 0.01"),
        ({"notes": "more"}, "Extra inputs are not permitted"),
        ({"run": {"command": "rm -r .", "hours": 0, "commit": "main"}}, "run.command"),
    ],
)
def test_entries_of_others_are_checked(change: dict[str, Any], problem: str) -> None:
    listed = json.loads(BOARD.read_text())
    entry = next(each for each in listed if "run" in each)
    changed = json.dumps([{**entry, **change}])
    assert leaderboard.entries(json.dumps([entry]))
    with pytest.raises(ValueError, match=re.escape(problem)):
        leaderboard.entries(changed)

"""report_verb: stores and experiments that are not there are named; editions."""

from pathlib import Path

import pytest

from labeldp.platform.cli import report_verb
from labeldp.platform.cli.folder_report import ReportFiles
from labeldp.platform.cli.report_verb import is_results
from labeldp.platform.cli.tables import shown
from tests.platform.cli.asked import answer, refusal
from tests.platform.report.folders import a_folder
from tests.platform.sweep.stores import new_store


def test_an_experiment_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    uri = new_store(tmp_path)
    line = refusal(capsys, "report", "quickstart", "--tracking-uri", uri)
    assert "has no experiment 'quickstart'" in line


def test_the_public_edition_has_a_folder_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    a_folder(tmp_path / "results", epsilon=2.0)
    asked = ("report", str(tmp_path / "results"), "--edition", "public")
    assert "--edition public --out DIR" in refusal(capsys, *asked)
    found = answer(capsys, *asked, "--out", "out")
    assert (found["trials"], found["epsilon"]) == (1, 2.0)
    assert "public edition" in (tmp_path / "out" / "report.html").read_text()


def test_names_of_experiments_are_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").mkdir()
    assert not is_results("quickstart")
    (tmp_path / "quickstart" / "trials").mkdir()
    assert is_results("quickstart") and is_results("./quickstart") and is_results(".")
    with pytest.raises(ValueError, match="there is no folder nowhere/at/all"):
        is_results("nowhere/at/all")


def test_people_get_the_table_beside_the_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "pareto.csv").write_text("variant,accuracy\nALIBI,0.14763231197771587\n")
    files = ReportFiles(
        html=str(tmp_path / "report.html"), pareto_png=str(tmp_path / "pareto.png"), rows=1
    )
    lines = shown(report_verb._told(files)).splitlines()
    assert lines[:3] == ["accuracy against epsilon", "variant  accuracy", "ALIBI    0.1476"]
    assert lines[3:] == [
        f"1 rows in the page {tmp_path}/report.html",
        f"figure: {tmp_path}/pareto.png",
    ]

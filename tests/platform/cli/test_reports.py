"""reports: of folders in any state, of experiments, for the public; and the ledger of folders."""

from pathlib import Path

import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.cli.command import shown
from labeldp.platform.cli.reports import ReportFiles, is_results, report_words
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep.accuracy_figures import ChooseBy, figures_of
from tests.platform.cli.asked import answer, refusal, words
from tests.platform.report.folders import a_folder, keep
from tests.platform.report.reading import Page
from tests.platform.sweep.examples import a_record


def test_a_folder_is_reported_where_it_lies(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    a_folder(tmp_path / "results", readers=9)
    found = answer(capsys, "report", str(tmp_path / "results"))
    assert set(found) == {"html", "pareto_png", "rows"} and found["rows"] == 1
    assert found["html"] == str(tmp_path / "results" / "report.html")
    page = Page(Path(found["html"]).read_text())
    assert "9 trials finished, 0 failed" in page.text
    said = "One release of Laplace noise, epsilon 2, read by nine trials, paid once"
    assert said in page.text and "1 release. A label" in page.text
    assert "is running" not in page.text
    again = answer(
        capsys, "report", str(tmp_path / "results"), "--out", str(tmp_path / "elsewhere")
    )
    assert Path(again["html"]).parent == tmp_path / "elsewhere"


def test_a_running_sweep_is_told_and_not_disturbed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    folder.identify(vault="v")
    with folder.held():
        found = answer(capsys, "report", str(folder.path))
        page = Page(Path(found["html"]).read_text())
        assert "0 trials finished, 0 failed; the sweep is running" in page.text
        folder.keep(a_record(finished=False, reason="the loss is not finite"))
        found = answer(capsys, "report", str(folder.path))
        page = Page(Path(found["html"]).read_text())
        assert "1 failed; the sweep is running" in page.text
        assert "the loss is not finite" in page.text and found["rows"] == 0
    with folder.held():
        pass  # nothing holds it any more


def test_a_sweep_that_chose_by_estimates_is_reported_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    a_folder(tmp_path / "results")
    ResultsFolder(tmp_path / "results", sweep="small").identify(choose_by=ChooseBy.ESTIMATED)
    assert "no labels are held out" in refusal(capsys, "report", str(tmp_path / "results"))
    estimated = figures_of(AccuracyEstimate(accuracy=0.7, sampling_error=0.01))
    keep(tmp_path / "results", a_record("0" * 16, figures=estimated))
    found = answer(capsys, "report", str(tmp_path / "results"))
    assert "Rows are compared by it" in Page(Path(found["html"]).read_text()).text


def test_what_holds_no_results_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no results" in refusal(capsys, "report", str(tmp_path / "empty"))
    assert not list((tmp_path / "empty").iterdir())
    assert "there is no folder" in refusal(capsys, "report", str(tmp_path / "nowhere"))
    a_folder(tmp_path / "results")
    (tmp_path / "file").write_text("")
    line = refusal(
        capsys, "report", str(tmp_path / "results"), "--out", str(tmp_path / "file" / "x")
    )
    assert "can't be written" in line and "--out DIR" in line


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
    lines = shown(report_words(files)).splitlines()
    assert lines[:3] == ["accuracy against epsilon", "variant  accuracy", "ALIBI    0.1476"]
    assert lines[3:] == [
        f"1 rows in the page {tmp_path}/report.html",
        f"figure: {tmp_path}/pareto.png",
    ]


def test_a_ledger_has_words_and_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    a_folder(tmp_path / "results", readers=2)
    said = words(capsys, "ledger", str(tmp_path / "results"), "--csv", "table.csv")
    assert "one release of Laplace noise, epsilon 2, read by two trials, paid once" in said
    assert (tmp_path / "table.csv").exists()
    found = answer(capsys, "ledger", str(tmp_path / "results"))
    assert found["ok"] and (found["epsilon"], found["delta"], found["releases"]) == (2.0, 0.0, 1)
    assert found["lines"][0]["who_may_see_it"] == "anybody"


def test_a_ledger_with_holes_is_not_ok(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    a_folder(tmp_path / "results")
    (tmp_path / "results" / "vault.db").unlink()
    found = answer(capsys, "ledger", str(tmp_path / "results"), code=1)
    assert not found["ok"] and "is gone" in found["problems"][0]
    (tmp_path / "empty").mkdir()
    assert "holds no results" in refusal(capsys, "ledger", str(tmp_path / "empty"))

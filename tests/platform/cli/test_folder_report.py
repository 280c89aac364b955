"""folder_report: a results folder in any state has a report, and a running one is left alone."""

from pathlib import Path

import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.cli.command_line import main
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep.accuracy_figures import ChooseBy, figures_of
from tests.platform.cli.asked import answer, refusal
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


def test_a_person_is_told_where_it_lies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    a_folder(tmp_path / "results")
    assert main(["report", str(tmp_path / "results")]) == 0
    assert "report.html" in capsys.readouterr().out

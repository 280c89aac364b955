"""report_verb: stores and experiments that are not there are named."""

from pathlib import Path

import pytest

from labeldp.platform.cli import report_verb
from labeldp.platform.cli.tables import shown
from labeldp.platform.cli.tracked_report import ReportFiles
from tests.platform.cli.asked import refusal
from tests.platform.stores import new_store


def test_an_experiment_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    uri = new_store(tmp_path)
    line = refusal(capsys, "report", "quickstart", "--tracking-uri", uri)
    assert "has no experiment 'quickstart'" in line


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

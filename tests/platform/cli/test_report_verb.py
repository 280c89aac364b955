"""report_verb: stores and experiments that are not there are named; editions."""

from pathlib import Path

import pytest

from tests.platform.cli.asked import answer, refusal
from tests.platform.publishing.folders import a_folder
from tests.platform.stores import new_store


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

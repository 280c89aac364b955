"""ledger_verb: words for a person, keys for a program, exit code 1 for a ledger with holes."""

from pathlib import Path

import pytest

from labeldp.platform.cli.command_line import main
from tests.platform.cli.asked import answer, refusal
from tests.platform.report.folders import a_folder


def test_words_and_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    a_folder(tmp_path / "results", readers=2)
    assert main(["ledger", str(tmp_path / "results"), "--csv", "table.csv"]) == 0
    said = capsys.readouterr().out
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


def test_a_folder_of_nothing_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "there is no folder nowhere" in refusal(capsys, "ledger", str(tmp_path), "nowhere")
    assert "holds no results" in refusal(capsys, "ledger", str(tmp_path))

"""ui_verb: what is no results folder is refused before any server is started."""

from pathlib import Path

import pytest

from labeldp.platform.cli.command_line import main
from labeldp.platform.cli.exit_codes import ExitCode


def test_a_folder_without_a_store_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ui", str(tmp_path)]) == ExitCode.BAD_INPUT
    said = capsys.readouterr().err
    assert "has no tracking store" in said and "starting" not in said


def test_a_folder_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ui"])
    assert "RESULTS" in capsys.readouterr().err

"""What a verb of the command line says, for tests."""

import json
from typing import Any

import pytest

from labeldp.platform.cli.command_line import main


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run a verb and return the JSON object that it printed, and nothing else."""
    assert main([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    found: dict[str, Any] = json.loads(captured.out)
    return found

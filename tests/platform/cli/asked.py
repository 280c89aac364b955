"""What a verb of the command line says, for tests."""

import json
from typing import Any

import pytest

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.platform.cli.command_line import main

OVER_BUDGET = BudgetExceeded(
    budget=Budget(epsilon=2.0), spent=1.0, requested=3.0, request="another release"
)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run a verb and return the JSON object that it printed, and nothing else."""
    assert main([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    found: dict[str, Any] = json.loads(captured.out)
    return found


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a verb that must end with code 2 and one line on standard error."""
    try:
        code = main([*arguments, "--json"])
    except SystemExit as end:  # how argparse refuses
        assert isinstance(end.code, int)
        code = end.code
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    assert "Traceback" not in captured.err
    (line,) = [line for line in captured.err.splitlines() if "error: " in line]
    return line

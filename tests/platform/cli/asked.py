"""Runs commands for tests, and returns what they print."""

import json
from typing import Any

import pytest

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.platform.cli.command_line import main

OVER_BUDGET = BudgetExceeded(
    budget=Budget(epsilon=2.0), spent=1.0, requested=3.0, request="another release"
)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run a command and return the JSON object that it printed, and nothing else."""
    assert main([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    found: dict[str, Any] = json.loads(captured.out)
    return found


def words(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run a command and return the text that it printed for a person."""
    assert main(list(arguments)) == code
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must end with code 2 and one line on standard error."""
    code = main([*arguments, "--json"])
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    assert "Traceback" not in captured.err
    (line,) = [line for line in captured.err.splitlines() if "error: " in line]
    return line

"""Runs commands for tests, and returns what they print."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.platform.cli.command_line import main

OVER_BUDGET = BudgetExceeded(
    budget=Budget(epsilon=2.0), spent=1.0, requested=3.0, request="another release"
)


def run(*arguments: str) -> tuple[int, str, str]:
    """Run a command and return its exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments))
    return code, out.getvalue(), err.getvalue()


def answer(*arguments: str, code: int = 0) -> dict[str, Any]:
    """Run a command and return the JSON object that it printed, and nothing else."""
    ended, out, err = run(*arguments, "--json")
    assert (ended, err) == (code, "")
    found: dict[str, Any] = json.loads(out)
    return found


def words(*arguments: str, code: int = 0) -> str:
    """Run a command and return the text that it printed for a person."""
    ended, out, _ = run(*arguments)
    assert ended == code
    return out


def refusal(*arguments: str) -> str:
    """Run a command that must end with code 2 and one line on standard error."""
    code, out, err = run(*arguments, "--json")
    assert (code, out) == (2, "") and "Traceback" not in err
    (line,) = [line for line in err.splitlines() if "error: " in line]
    return line

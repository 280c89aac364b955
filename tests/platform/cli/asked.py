"""Runs commands for tests, and returns what they print."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.platform.cli import sweep_command
from labeldp.platform.cli.command_line import main
from labeldp.platform.settings.sweep import Sweep

OVER_BUDGET = BudgetExceeded(
    budget=Budget(epsilon=2.0), spent=1.0, requested=3.0, request="another release"
)


def printed(call: Callable[[], int]) -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error of a call."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = call()
        except SystemExit as ended:  # as a sweep ends
            code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue()


def run(*arguments: str) -> tuple[int, str, str]:
    """Run a command and return its exit code and what it printed."""
    return printed(lambda: main(list(arguments)))


def swept(sweep: Sweep, *arguments: str) -> tuple[int, str, str]:
    """Run a sweep's own command line and return its exit code and what it printed."""
    return printed(lambda: sweep_command.run(sweep, list(arguments)))


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

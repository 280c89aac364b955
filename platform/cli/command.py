"""How a command ends: its result as text, tables or JSON, its errors in words, its exit code."""

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import IntEnum
from typing import Any, NoReturn, TextIO

import click
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

#: Rows shown of one table; `--json` prints all of them.
MOST_ROWS = 50


class ExitCode(IntEnum):
    """How a command ended.

    DONE: all is well. NOT_OK: it ran, and something in it failed. BAD_INPUT: nothing was done, the
    message says why. CANNOT_FIT: no machine is large enough. OVER_BUDGET: it would cost more
    privacy than is allowed. INTERRUPTED: Ctrl-C or SIGTERM.
    """

    DONE = 0
    NOT_OK = 1
    BAD_INPUT = 2
    CANNOT_FIT = 3
    OVER_BUDGET = 4
    INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of texts under names of columns; `styles` has styles such as `bold red` by row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    styles: Mapping[int, str] = field(default_factory=dict)


#: A result for a person: a text, or tables and lines of text.
Words = str | Sequence[Table | str]


def exit_code(error: BaseException) -> ExitCode | None:
    """Return the code of an error; None for a defect of ours."""
    # They take SciPy along, which `--help` does not need.
    from labeldp.mechanisms.ledger import BudgetExceeded
    from labeldp.platform.sweep.sweep import CannotFit, Unfinished

    codes: dict[tuple[type[BaseException], ...], ExitCode] = {
        (BudgetExceeded,): ExitCode.OVER_BUDGET,
        (CannotFit,): ExitCode.CANNOT_FIT,
        (Unfinished,): ExitCode.NOT_OK,
        (KeyboardInterrupt,): ExitCode.INTERRUPTED,
        (ValueError, OSError, MemoryError): ExitCode.BAD_INPUT,
    }
    return next((code for kinds, code in codes.items() if isinstance(error, kinds)), None)


def code_of_result(result: Any) -> ExitCode:
    """Return NOT_OK for a result whose `ok` is False, and DONE for all others."""
    plain = _plain(result)
    not_ok = isinstance(plain, dict) and plain.get("ok") is False
    return ExitCode.NOT_OK if not_ok else ExitCode.DONE


def explained(error: BaseException) -> str:
    """Return an error in words, for a person."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, MemoryError):
        more = str(error) or "no further details"
        return f"error: this machine has too little memory for that ({more})"
    return f"error: {error}"


def plain_text(result: Any, indent: str = "") -> str:
    """Return nested results for a person: one `name: value` a line."""
    lines = []
    for name, inner in _plain(result).items():
        if isinstance(inner, dict):
            lines += [f"{indent}{name}:"]
            lines += [plain_text(inner, indent + "  ")] if inner else []
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            lines.append(f"{indent}{name}:")
            for item in inner:
                lines.append(
                    f"{indent}  - " + ", ".join(f"{k} {_short(v)}" for k, v in item.items())
                )
        else:
            lines.append(f"{indent}{name}: {_short(inner)}")
    return "\n".join(lines)


def run_command(command: click.Command, arguments: Sequence[str], *, program: str) -> int:
    """Run a command line and return its exit code; a wrong argument is refused in one line."""
    try:
        ended = command.main(list(arguments), prog_name=program, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return ExitCode.BAD_INPUT
    except click.ClickException as error:
        print(f"error: {' '.join(error.format_message().split())}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    return int(ended or 0)


def perform(
    run: Callable[[], Any],
    *,
    json: bool,
    text: Callable[[Any], Words] = plain_text,
    code: Callable[[Any], ExitCode] = code_of_result,
    explain: Callable[[BaseException], str] = explained,
) -> ExitCode:
    """Run a command, print its result, and return how it ended.

    `run` returns a dataclass or a dict of plain values; its ValueError is the user's mistake. A
    defect, an error that has no exit code, is raised.
    """
    before = warnings.formatwarning

    def as_note(message: Any, category: type[Warning], *place: Any, **more: Any) -> str:
        """A warning of labeldp's own in a line, and others as Python shows them."""
        if category.__module__.startswith("labeldp."):
            return f"note: {message}\n"
        return before(message, category, *place, **more)

    warnings.formatwarning = as_note
    try:
        result = run()
    except (Exception, KeyboardInterrupt) as error:
        ended = exit_code(error)
        if ended is None:
            raise
        print(explain(error), file=sys.stderr)
        return ended
    finally:
        warnings.formatwarning = before
    try:
        print(_json(result) if json else shown(text(result)))
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has read enough. Python would complain once more as it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code(result)


def shown(words: Words, *, stream: TextIO | None = None) -> str:
    """Return text and tables as they are shown on `stream`: standard output if not given.

    A terminal gets colors, rules, and its own width. Other programs get padded columns and one line
    for each row.
    """
    if isinstance(words, str):
        return words
    where = stream or sys.stdout
    on_terminal = where.isatty() and os.environ.get("TERM") != "dumb"
    console = Console(file=where, highlight=False, width=None if on_terminal else 100_000)
    lines: list[str] = []
    for part in words:
        if isinstance(part, str):
            lines.append(part)
            continue
        lines += [part.title] if part.title else []
        with console.capture() as capture:
            console.print(_drawn(part, on_terminal=on_terminal))
        lines += [line.rstrip() for line in capture.get().rstrip().splitlines()]
        more = len(part.rows) - MOST_ROWS
        lines += [f"... and {more} more; --json has them all"] if more > 0 else []
    return "\n".join(lines)


def _drawn(table: Table, *, on_terminal: bool) -> RichTable:
    # Texts, and no markup: brackets are shown as they are.
    drawing = RichTable(
        box=box.SIMPLE_HEAD if on_terminal else None,
        header_style="bold",
        pad_edge=False,
        padding=(0, 1) if on_terminal else (0, 2, 0, 0),
    )
    for column in table.columns:
        drawing.add_column(Text(column), overflow="fold")
    for number, row in enumerate(table.rows[:MOST_ROWS]):
        drawing.add_row(*map(Text, row), style=table.styles.get(number, ""))
    return drawing


def _json(result: Any) -> str:
    from labeldp.platform.records.results import dumps  # it takes SciPy along

    return dumps(_plain(result))


def _plain(result: Any) -> Any:
    return asdict(result) if is_dataclass(result) and not isinstance(result, type) else result


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def interrupt(number: int, frame: object) -> NoReturn:
    """Treat a signal as Ctrl-C."""
    raise KeyboardInterrupt

"""How a command ends: its result as text, tables or JSON, its errors in words, its exit code."""

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from labeldp import install_hint
from labeldp.mechanisms.ledger import BudgetExceeded
from labeldp.mechanisms.ledger import shown as rounded_up
from labeldp.platform.records.results import dumps
from labeldp.platform.settings.sweep import CannotFit, Unfinished
from labeldp.trainers.data.files import umask_of, visible

#: Rows shown of one table; `--json` prints all of them.
MOST_ROWS = 50


class ExitCode(IntEnum):
    """How a command ended.

    DONE: all is well. NOT_OK: it ran, and something in it failed. BAD_INPUT: nothing was done, the
    message has the cause. CANNOT_FIT: a plan does not fit, or no machine is large enough.
    OVER_BUDGET: it would cost more privacy than is allowed. INTERRUPTED: Ctrl-C or SIGTERM.
    """

    DONE = 0
    NOT_OK = 1
    BAD_INPUT = 2
    CANNOT_FIT = 3
    OVER_BUDGET = 4
    INTERRUPTED = 130


#: A result for a person: a text, or tables and lines of text.
Words = str | Sequence[Table | str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a command.

    Attributes:
        facts: A dict or a dataclass of plain values, for `--json`.
        words: For a person; the facts, one a line, if None.
        code: NOT_OK for facts whose `ok` is False and DONE for others, if None.
    """

    facts: Any
    words: Words | None = None
    code: ExitCode | None = None


#: Errors that are not defects of ours, and their codes; the first that fits.
_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], ExitCode], ...] = (
    (BudgetExceeded, ExitCode.OVER_BUDGET),
    (CannotFit, ExitCode.CANNOT_FIT),
    (Unfinished, ExitCode.NOT_OK),
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
    ((ValueError, OSError, MemoryError, ModuleNotFoundError), ExitCode.BAD_INPUT),
)


def explained(error: BaseException) -> str:
    """Return an error in words, for a person."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if _disk_is_full(error):
        return "error: the disk is full; free some of it, and run the same command again"
    if isinstance(error, MemoryError):
        return f"error: this machine has too little memory for that ({error})"
    if isinstance(error, ModuleNotFoundError):
        return f"error: {install_hint(error)}"
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"error: {error.filename} does not exist; check the path"
    return f"error: {error}"


def _disk_is_full(error: BaseException | None) -> bool:
    """Whether a full disk, or share of one, is behind an error; SQLite has its own words."""
    while error is not None:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or "disk is full" in str(error) or "No space left on device" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def in_a_folder(option: str, file: str) -> Path:
    """Return the path of a file to write, or refuse one in a folder that is not there."""
    path = Path(file)
    if not path.parent.is_dir():
        raise ValueError(
            f"{option} is {file}, but the folder {path.parent} does not exist; create it"
        )
    return path


def plain_text(facts: Mapping[str, Any], indent: str = "") -> str:
    """Return nested results for a person: one `name: value` a line."""
    lines = []
    for name, inner in facts.items():
        if isinstance(inner, dict):
            lines.append(f"{indent}{name}:")
            lines += [plain_text(inner, indent + "  ")] if inner else []
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            lines.append(f"{indent}{name}:")
            items = (", ".join(f"{k} {_short(k, v)}" for k, v in item.items()) for item in inner)
            lines += [f"{indent}  - {item}" for item in items]
        else:
            lines.append(f"{indent}{name}: {_short(name, inner)}")
    return "\n".join(lines)


def _short(name: str, value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if not isinstance(value, float):
        return str(value) or "none"
    # Audits bound epsilon from below.
    above = "epsilon" in name and "low" not in name and "tight" not in name
    return rounded_up(value, 6) if above else f"{value:.6g}"


def perform(
    run: Callable[[], Any],
    *,
    json: bool,
    explain: Callable[[BaseException], str] = explained,
) -> ExitCode:
    """Run a command, print its result, and return how it ended.

    `run` returns an `Answer` or its facts; its ValueError is the user's mistake. A defect, an error
    that has no exit code, is raised.
    """
    before = warnings.formatwarning
    ignored_before = sys.unraisablehook

    def as_note(message: Any, category: Any, *where: Any, **line: Any) -> str:
        """A warning of labeldp's own in a line, and others as Python shows them."""
        if category.__module__.startswith("labeldp."):
            return visible(f"note: {message}\n")
        return before(message, category, *where, **line)

    def ignored(error: "sys.UnraisableHookArgs") -> None:
        """Repeat a Ctrl-C that came during a callback whose errors Python ignores."""
        if isinstance(error.exc_value, KeyboardInterrupt):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            ignored_before(error)

    warnings.formatwarning = as_note
    sys.unraisablehook = ignored
    try:
        with umask_of(0o022):
            result = run()
    except (Exception, KeyboardInterrupt) as error:
        otherwise = ExitCode.BAD_INPUT if _disk_is_full(error) else None
        ended = next((code for kinds, code in _CODES if isinstance(error, kinds)), otherwise)
        if ended is None:
            raise
        print(visible(explain(error)), file=sys.stderr)
        return ended
    finally:
        warnings.formatwarning = before
        sys.unraisablehook = ignored_before
    answer = result if isinstance(result, Answer) else Answer(facts=result)
    facts: Any = answer.facts if isinstance(answer.facts, dict) else asdict(answer.facts)
    words = plain_text(facts) if answer.words is None else answer.words
    try:
        print(dumps(facts) if json else shown(words), flush=True)
    except OSError as error:
        # Python would complain once more as it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # `| head` has read enough
            print(explained(error), file=sys.stderr)
            return ExitCode.BAD_INPUT
    if answer.code is not None:
        return answer.code
    return ExitCode.NOT_OK if facts.get("ok") is False else ExitCode.DONE


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    styles: Mapping[int, str] | None = None,
) -> list[Table | str]:
    """Return rows of texts under names of columns; `styles`: row -> style such as `bold red`."""
    drawing = Table(header_style="bold", pad_edge=False)
    for column in columns:  # texts, and no markup: brackets are shown as they are
        drawing.add_column(Text(visible(column)), overflow="fold")
    for number, row in enumerate(rows[:MOST_ROWS]):
        drawing.add_row(*map(Text, map(visible, row)), style=(styles or {}).get(number))
    more = len(rows) - MOST_ROWS
    left_out = [f"... and {more} more; --json has them all"] if more > 0 else []
    return [*([title] if title else []), drawing, *left_out]


def shown(words: Words) -> str:
    """Return text and tables as they are shown on standard output.

    A terminal gets colors, rules, and its own width. Other programs get padded columns and one line
    for each row.
    """
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    console = Console(file=sys.stdout, highlight=False, width=None if terminal else 100_000)
    lines: list[str] = []
    for part in [words] if isinstance(words, str) else words:
        if isinstance(part, str):
            lines.append(visible(part))
            continue
        part.box = box.SIMPLE_HEAD if terminal else None
        part.padding = (0, 1) if terminal else (0, 2, 0, 0)
        with console.capture() as capture:
            console.print(part)
        lines += [line.rstrip() for line in capture.get().rstrip().splitlines()]
    return "\n".join(lines)

"""What a verb of the command line is: its words, what it takes, what it does, how it ends.

A file of this folder whose name ends in `_verb` or `_verbs` holds its verbs as `VERBS`, and nothing
else has to know of them. All of them are imported for `labeldp --help`: what a verb needs, its
function imports when it runs.

>>> verb = Verb(name="half", summary="of a number", run=lambda options: {"half": options.of / 2})
>>> verb.perform(argparse.Namespace(of=7, json=False))
half: 3.5
<ExitCode.DONE: 0>
"""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.exit_codes import ExitCode, exit_code

if TYPE_CHECKING:
    from labeldp.platform.cli.tables import Table


def explained(error: BaseException) -> str:
    """Say in words, for a person, what went wrong."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, MemoryError):
        more = str(error) or "no more is said"
        return f"error: this machine has too little memory for that ({more})"
    return f"error: {error}"


#: Before any verb changes it.
_python_shows = warnings.formatwarning


def plain_text(value: Any, indent: str = "") -> str:
    """Return nested results for a person: one `name: value` per line."""
    if not isinstance(value, dict):
        return f"{indent}{_short(value)}"
    lines = []
    for name, inner in value.items():
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


def code_of_result(result: Any) -> ExitCode:
    """Return NOT_OK for what says of itself that it is not `ok`, and DONE for all else."""
    plain = _plain(result)
    not_ok = isinstance(plain, dict) and plain.get("ok") is False
    return ExitCode.NOT_OK if not_ok else ExitCode.DONE


@dataclass(frozen=True, kw_only=True)
class Group:
    """Verbs with a word in common.

    Attributes:
        name: The word.
        summary: What they are about, for `--help`.
    """

    name: str
    summary: str


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One thing that a command line can be asked to do.

    Attributes:
        name: Its word, the last one if it is of a group.
        summary: What it does in a line, for `--help`.
        run: Does it, and returns a dataclass or a dict of plain values. A ValueError is taken for
            a user's mistake.
        example: A whole command, for the reference; `labeldp` and the words come first.
        arguments: Adds to the parser what it takes, beside `--json`.
        group: Whose verb it is, if not of the command itself.
        explain: What to say of an error, or of an interruption.
        text: The result for a person.
        tables: The result for a person as tables and lines, where that reads better than `text`.
        code: The exit code that goes with a result.
    """

    name: str
    summary: str
    run: Callable[[argparse.Namespace], Any]
    example: str = ""
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    group: Group | None = None
    explain: Callable[[BaseException], str] = explained
    text: Callable[[Any], str] = lambda result: plain_text(_plain(result))
    tables: "Callable[[Any], Sequence[Table | str]] | None" = None
    code: Callable[[Any], ExitCode] = code_of_result

    @property
    def words(self) -> tuple[str, ...]:
        """As they are typed."""
        return (self.name,) if self.group is None else (self.group.name, self.name)

    def perform(self, options: argparse.Namespace) -> ExitCode:
        """Do it, print what came out, and return how it ended.

        Args:
            options: What the parser made of the arguments; with `json`, one object is printed.

        Raises:
            Exception: A defect: an error that has no exit code.
        """
        before, warnings.formatwarning = warnings.formatwarning, _as_note
        try:
            result = self.run(options)
        except (Exception, KeyboardInterrupt) as error:
            code = exit_code(error)
            if code is None:
                raise
            print(self.explain(error), file=sys.stderr)
            return code
        finally:
            warnings.formatwarning = before
        _print(_json(result) if options.json else self._words_for(result))
        return self.code(result)

    def _words_for(self, result: Any) -> str:
        if self.tables is None:
            return self.text(result)
        from labeldp.platform.cli.tables import shown

        return shown(self.tables(result))


def _as_note(message: Any, category: type[Warning], *place: Any, **more: Any) -> str:
    """A warning of labeldp's own in a line, and others as Python shows them."""
    if category.__module__.startswith("labeldp."):
        return f"note: {message}\n"
    return _python_shows(message, category, *place, **more)


def _plain(result: Any) -> Any:
    return asdict(result) if is_dataclass(result) and not isinstance(result, type) else result


def _json(result: Any) -> str:
    from labeldp.platform.records.results import dumps

    return dumps(_plain(result))


def _print(text: str) -> None:
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has read enough. Python would complain once more as it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""`labeldp config [METHOD]`: every configuration key with type, default, bounds and meaning."""

import argparse
from collections.abc import Sequence
from typing import Any

from labeldp.platform.cli.verb import Verb

#: Narrower terminals get a list: a table's columns would be slivers.
_TABLE_WIDTH = 110


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", nargs="?", metavar="METHOD", help="its keys only, such as alibi")
    parser.add_argument("--match", metavar="TEXT", help="only keys and meanings with this text")


def _config(options: argparse.Namespace) -> dict[str, Any]:
    from dataclasses import asdict

    from labeldp.platform.sweep.key_reference import all_keys, keys_of

    found = all_keys() if options.method is None else keys_of(options.method)
    text = (options.match or "").lower()
    keys = [facts for facts in found if text in f"{facts.key} {facts.meaning}".lower()]
    if not keys:
        raise ValueError(
            f"no key and no meaning holds {options.match!r}; `labeldp config` lists all of them"
        )
    return {"keys": [asdict(facts) for facts in keys]}


def _text(found: dict[str, Any]) -> str:
    """The keys for a person; methods are named where keys of several are listed."""
    from shutil import get_terminal_size
    from textwrap import fill

    keys = found["keys"]
    several = len({tuple(each["methods"]) for each in keys if each["methods"]}) > 1
    width = max(60, get_terminal_size((120, 24)).columns)
    rows = []
    for each in keys:
        value = _value(each["type"], each["bounds"])
        of = f" [{', '.join(each['methods'])}]" if several and each["methods"] else ""
        rows.append((each["key"], value, each["default"], each["meaning"] + of))
    if width >= _TABLE_WIDTH:
        return _table(rows, width)
    lines = []
    for key, value, default, meaning in rows:
        lines.append(f"{key} = {default}")
        lines += [
            fill(text, width, initial_indent="    ", subsequent_indent="    ")
            for text in (f"{value}.", meaning)
        ]
    return "\n".join(lines)


def _value(kind: str, bounds: str) -> str:
    """What a value may be: type and bounds in one."""
    left_open = ", or null" if kind.endswith(", or null") else ""
    kind = kind.removesuffix(left_open)
    bounds = bounds.removeprefix("a finite number").removeprefix(",").strip()
    return f"{kind}, {bounds}{left_open}" if bounds else f"{kind}{left_open}"


def _table(rows: Sequence[tuple[str, ...]], width: int) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.table import Table

    table = Table(
        "key", "value", "default", "meaning", box=None, pad_edge=False, padding=(0, 2, 1, 0)
    )
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*row)
    console = Console(file=StringIO(), width=width, highlight=False, markup=False)
    with console.capture() as lines:
        console.print(table)
    return "\n".join(line.rstrip() for line in lines.get().splitlines())


VERBS = (
    Verb(
        name="config",
        summary="every configuration key: type, default, bounds, meaning",
        example="labeldp config alibi --match epsilon",
        arguments=_arguments,
        run=_config,
        text=_text,
    ),
)

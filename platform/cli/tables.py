"""Tables that a person reads: in color and as wide as the terminal on one, plain lines off it.

>>> print(shown([Table(columns=("name", "there"), rows=(("digits", "yes"), ("mnist", "no")))]))
name    there
digits  yes
mnist   no
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TextIO

#: So many rows are shown of one table; `--json` has them all.
MOST_ROWS = 50


class Mood(StrEnum):
    """How a row is meant; the value is its style on a terminal."""

    PLAIN = ""
    GOOD = "green"
    BAD = "bold red"
    ASIDE = "dim"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under names of columns.

    Attributes:
        columns: Their names.
        rows: Texts, as many in each row as there are columns.
        title: What the rows are; a line above them.
        moods: Number of a row -> how it is meant; the others are PLAIN.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    moods: Mapping[int, Mood] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that it is rectangular."""
        for row in self.rows:
            assert len(row) == len(self.columns), f"{row} is no row of {self.columns}"

    @property
    def left_out(self) -> str:
        """What to say of the rows that are not shown; empty if all are."""
        more = len(self.rows) - MOST_ROWS
        return f"... and {more} more; --json has them all" if more > 0 else ""


def shown(parts: Sequence[Table | str], *, stream: TextIO | None = None) -> str:
    """Return tables and lines of text as they are shown on `stream`.

    Args:
        parts: In order; a table is set apart by an empty line.
        stream: Where it will be printed; standard output if not given.
    """
    where = stream or sys.stdout
    on_terminal = where.isatty() and os.environ.get("TERM") != "dumb"
    draw = _drawn if on_terminal else _plain
    texts = [part if isinstance(part, str) else draw(part, where) for part in parts]
    return "\n".join(text for text in texts if text)


def _plain(table: Table, stream: TextIO) -> str:
    """Columns padded by blanks, whatever the width: for files, `grep` and other programs."""
    del stream
    rows = [table.columns, *table.rows[:MOST_ROWS]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(line for line in (table.title, *lines, table.left_out) if line)


def _drawn(table: Table, stream: TextIO) -> str:
    """With rules and colors, folded to the width of the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(
        title=Text(table.title) if table.title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        header_style="bold",
        pad_edge=False,
    )
    for column in table.columns:
        drawing.add_column(Text(column), overflow="fold")
    for number, row in enumerate(table.rows[:MOST_ROWS]):
        style = table.moods.get(number, Mood.PLAIN).value
        # Texts, and no markup: what is in brackets is shown as it is.
        drawing.add_row(*(Text(text) for text in row), style=style)
    console = Console(file=stream, highlight=False)
    with console.capture() as capture:
        console.print(drawing)
        if table.left_out:
            console.print(Text(table.left_out))
    return capture.get().rstrip("\n")

"""tables: plain columns off a terminal, rules and colors on one, and never wider than it."""

import io
import json
import re
from argparse import Namespace

import pytest

from labeldp.platform.cli import tables
from labeldp.platform.cli.tables import Mood, Table, shown
from labeldp.platform.cli.verb import Verb

SETS = Table(
    title="sets",
    columns=("name", "there", "what"),
    rows=(("digits", "yes", "[red]not markup[/]"), ("mnist", "no", "images " * 30)),
    moods={1: Mood.BAD},
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_plain_columns_off_a_terminal() -> None:
    lines = shown(["above", SETS, "below"], stream=io.StringIO()).splitlines()
    assert lines[:4] == [
        "above",
        "sets",
        "name    there  what",
        "digits  yes    [red]not markup[/]",
    ]
    # One line per row, however long: other programs read it.
    assert lines[4].startswith("mnist   no     images images") and lines[4].endswith("images")
    assert lines[5:] == ["below"]


def test_a_terminal_gets_colors_and_its_own_width(terminal: Terminal) -> None:
    text = shown([SETS], stream=terminal)
    assert "\x1b[1;31m" in text, "the row that is bad has no color"
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert "[red]not markup[/]" in plain
    assert max(map(len, plain.splitlines())) <= 60
    assert plain.count("images") == 30, "a cell was cut off"


def test_no_color_is_minded(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in shown([SETS], stream=terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown([SETS], stream=terminal)


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_long_tables_say_what_they_leave_out(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    table = Table(columns=("n",), rows=tuple((f"row {n}",) for n in range(5)))
    text = shown([table], stream=stream)
    assert "row 1" in text and "row 2" not in text
    assert "... and 3 more; --json has them all" in text


def test_a_verb_shows_its_tables_to_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    verb = Verb(
        name="list",
        summary="sets",
        run=lambda options: {"sets": 2},
        tables=lambda result: [Table(columns=("sets",), rows=((str(result["sets"]),),))],
    )
    verb.perform(Namespace(json=False))
    assert capsys.readouterr().out == "sets\n2\n"
    verb.perform(Namespace(json=True))
    assert json.loads(capsys.readouterr().out) == {"sets": 2}

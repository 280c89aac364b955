"""command: a result is printed as text, tables or JSON; an error in words; each has its code."""

import io
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from labeldp.platform.cli import command
from labeldp.platform.cli.command import ExitCode, Table, exit_code, perform, plain_text, shown
from labeldp.platform.sweep.cluster import ClusterUnusable
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.sweep import CannotFit
from labeldp.platform.vault.home_proxy import VaultLost
from labeldp.platform.vault.teacher_pool import EnsembleIncomplete
from labeldp.trainers.data.files import DatasetMissing
from labeldp.trainers.models.schedules import TrainingDiverged
from tests.platform.cli.asked import OVER_BUDGET, Terminal

SETS = Table(
    title="sets",
    columns=("name", "there", "what"),
    rows=(("digits", "yes", "[red]not markup[/]"), ("mnist", "no", "images " * 30)),
    styles={1: "bold red"},
)


@dataclass(frozen=True)
class Found:
    ok: bool
    epsilon: float


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("kind", [Found, dict])
def test_results(capsys: pytest.CaptureFixture[str], ok: bool, code: int, kind: type) -> None:
    result = kind(ok=ok, epsilon=0.1234567891)
    assert perform(lambda: result, json=False) == code
    assert capsys.readouterr().out == f"ok: {ok}\nepsilon: 0.123457\n"
    assert perform(lambda: result, json=True) == code
    assert json.loads(capsys.readouterr().out) == {"ok": ok, "epsilon": 0.1234567891}


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("scale is 0"), 2, "error: scale is 0"),
        (FileNotFoundError("none.npz"), 2, "error: none.npz"),
        (MemoryError(), 2, "error: this machine has too little memory for that (no further det"),
        (ConfigurationError("no such key"), 2, "error: no such key"),
        (ClusterUnusable("does not answer"), 2, "error: does not answer"),
        (DatasetMissing("mnist"), 2, "error: mnist"),
        (CannotFit("a trial needs 64 CPU"), 3, "error: a trial needs 64 CPU"),
        (OVER_BUDGET, 4, f"error: {OVER_BUDGET}"),
        (EnsembleIncomplete("teacher 3"), 1, "error: teacher 3"),
        (VaultLost("its node died"), 1, "error: its node died"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, message: str
) -> None:
    def run() -> Any:
        raise error

    assert perform(run, json=True) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(message)


@pytest.mark.parametrize("error", [RuntimeError("a defect"), TrainingDiverged("of a trial")])
def test_a_defect_is_not_reported_as_bad_input(error: Exception) -> None:
    def run() -> Any:
        raise error

    assert exit_code(error) is None
    with pytest.raises(type(error)):
        perform(run, json=False)


def test_a_command_has_its_own_words_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    code = perform(
        lambda: 1 / 4,
        json=False,
        text=lambda result: [f"it is {result}", Table(columns=("sets",), rows=(("2",),))],
        code=lambda result: ExitCode.OVER_BUDGET,
    )
    assert code == 4 and capsys.readouterr().out == "it is 0.25\nsets\n2\n"


def test_plain_text_of_nested_results() -> None:
    nested = {"a": 1.0, "b": {"c": "x", "d": {}}, "rows": [{"n": 1, "e": 0.5}], "none": []}
    assert plain_text(nested) == "a: 1\nb:\n  c: x\n  d:\nrows:\n  - n 1, e 0.5\nnone: []"


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


def test_a_terminal_gets_colors_and_its_own_width(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown([SETS], stream=terminal)
    assert "\x1b[1;31m" in text, "the bad row has no color"
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert "[red]not markup[/]" in plain
    assert max(map(len, plain.splitlines())) <= 60
    assert plain.count("images") == 30, "a cell was cut off"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in shown([SETS], stream=terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown([SETS], stream=terminal)


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_long_tables_name_the_number_of_rows_left_out(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MOST_ROWS", 2)
    table = Table(columns=("n",), rows=tuple((f"row {n}",) for n in range(5)))
    text = shown([table], stream=stream)
    assert "row 1" in text and "row 2" not in text
    assert "... and 3 more; --json has them all" in text

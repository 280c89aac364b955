"""command: a result is printed as text, tables or JSON; an error in words; each has its code."""

import io
import json
from dataclasses import dataclass
from typing import Any

import pytest

from labeldp.platform.cli import command
from labeldp.platform.cli.command import Answer, ExitCode, perform, shown, table
from labeldp.platform.sweep.cluster import ClusterUnusable
from labeldp.platform.sweep.sweep import CannotFit
from labeldp.platform.vault.home_proxy import VaultLost
from labeldp.platform.vault.teacher_pool import EnsembleIncomplete
from labeldp.trainers.data.files import DatasetMissing
from labeldp.trainers.models.schedules import TrainingDiverged
from tests.platform.cli.asked import OVER_BUDGET


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
    own = Answer(
        facts=result, words=["it is", *table(("n",), (("2",),))], code=ExitCode.OVER_BUDGET
    )
    assert perform(lambda: own, json=False) == 4
    assert capsys.readouterr().out == "it is\nn\n2\n"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("scale is 0"), 2, "error: scale is 0"),
        (FileNotFoundError("none.npz"), 2, "error: none.npz"),
        (MemoryError(), 2, "error: this machine has too little memory for that"),
        (ClusterUnusable("does not answer"), 2, "error: does not answer"),
        (DatasetMissing("mnist"), 2, "error: mnist"),
        (CannotFit("a trial needs 64 CPU"), 3, "error: a trial needs 64 CPU"),
        (OVER_BUDGET, 4, f"error: {OVER_BUDGET}"),
        (EnsembleIncomplete("teacher 3"), 1, "error: teacher 3"),
        (VaultLost("its node died"), 1, "error: its node died"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("a defect"), None, ""),
        (TrainingDiverged("of a trial"), None, ""),
    ],
)
def test_errors(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int | None, message: str
) -> None:
    def run() -> Any:
        raise error

    if code is None:  # a defect of ours is not reported as bad input
        with pytest.raises(type(error)):
            perform(run, json=False)
        return
    assert perform(run, json=True) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(message)


def sets() -> list[Any]:
    rows = (("digits", "yes", "[red]not markup[/]"), ("mnist", "no", "images " * 30))
    return table(("name", "there", "what"), rows, title="sets", styles={1: "bold red"})


def test_plain_columns_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(["above", *sets(), "below"], stream=io.StringIO()).splitlines()
    assert lines[:4] == [
        *("above", "sets", "name    there  what", "digits  yes    [red]not markup[/]")
    ]
    # One line per row, however long: other programs read it.
    assert lines[4].startswith("mnist   no     images images") and lines[4].endswith("images")
    assert lines[5:] == ["below"]
    monkeypatch.setattr(command, "MOST_ROWS", 1)
    assert "... and 1 more; --json has them all" in shown(sets(), stream=io.StringIO())

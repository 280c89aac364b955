"""What a stranger's texts, a full disk, and a careless umask do to a command."""

import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from labeldp import LabelPrivateClassifier
from labeldp.platform import cluster
from labeldp.platform.cli.command import ExitCode, perform, shown, table
from labeldp.platform.records.results import csv_text
from labeldp.trainers.data.files import make_folder, visible

COMMAND = "from labeldp.platform.cli.command_line import main; raise SystemExit(main())"
ESCAPE = "\x1b]0;owned\x07\x1b[2J"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ESCAPE, "\\x1b]0;owned\\x07\\x1b[2J"),
        ("\x9b31m \x7f \r", "\\x9b31m \\x7f \\r"),
        ("yes\u202eon", "yes\\u202eon"),
        ("Zürich\t日本\n", "Zürich\t日本\n"),
    ],
)
def test_a_stranger_s_text_does_not_move_the_cursor(
    text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, tables, errors and notes."""
    assert visible(text) == told
    assert shown(text) == told
    cells = shown(table(["class"], [[text], ["b"]], title=text))
    assert not set(cells) & set("\x1b\x9b\x7f\r\u202e")

    def refused() -> None:
        raise ValueError(f"class {text} is unknown")

    assert perform(refused, json=False) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == f"error: class {told} is unknown\n"


def test_no_cell_of_a_table_is_a_formula() -> None:
    rows = {"prediction": ["=1+1", "@x", "-1", "+2.5", "-", "\t=a", "plain"], "x": [-1.5] * 7}
    found = csv_text(pd.DataFrame(rows).rename(columns={"x": "=x"}))
    assert found.splitlines()[0] == "prediction,'=x"
    assert [line.rpartition(",")[0] for line in found.splitlines()[1:]] == [
        *("'=1+1", "'@x", "-1", "+2.5", "-", "'\t=a", "plain")
    ]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        sqlite3.OperationalError("database or disk is full"),
        RuntimeError("[enforce fail] . PytorchStreamWriter failed: No space left on device"),
    ],
    ids=lambda error: str(error)[:20],
)
def test_a_full_disk_is_one_sentence(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        try:
            raise error
        except Exception as cause:
            raise KeyError("anything") from cause

    assert perform(fail, json=False) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert told.startswith("error: the disk is full; free ") and told.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_full_standard_output_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "epsilon", "laplace", "--scale", "1"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "the disk is full" in done.stderr


@pytest.mark.parametrize("closing", ["", ">&-", ">&- 2>&-"])
def test_output_that_shows_no_text_changes_no_exit_code(closing: str, tmp_path: Path) -> None:
    """Of another encoding than UTF-8, or closed by the caller."""
    Path(tmp_path, "x.csv").write_text("Straße,bought\n1,no\n2,yes\n")
    line = '"$0" -c "$1" data check x.csv --label-column bought --classes no,yes --hold-out none'
    done = subprocess.run(
        ["sh", "-c", f"{line} {closing}", sys.executable, COMMAND],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Stra\\xdfe" in done.stdout) == (not closing)


def test_nobody_else_writes_to_a_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b")

        def write() -> dict[str, Any]:
            (tmp_path / "c").mkdir()
            return {"done": True}

        perform(write, json=True)
        rows, given = np.arange(200.0).reshape(100, 2), dict[str, Any](epsilon=2, classes=2)
        learner = LabelPrivateClassifier("moment_labels", **given)
        learner.fit(rows, np.arange(100) // 50).save(tmp_path / "model")
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o022 for path in tmp_path.rglob("*")}
    assert len(modes) == 6 and not any(modes.values()), modes


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("AF_UNIX path length cannot exceed 107 bytes: /a/b"), "set RAY_TMPDIR=/tmp$"),
        (Exception("The node timed out during startup."), r"can't be started .* timed out"),
    ],
)
def test_what_keeps_ray_from_starting_is_a_sentence(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "start_private", Mock(side_effect=error))
    with pytest.raises(cluster.ClusterUnusable, match=said), cluster.connected(None):
        pass


def test_a_folder_for_ray_that_is_missing_is_named_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "missing"))
    said = "missing is not there; create it, or set RAY_TMPDIR=/tmp"
    with pytest.raises(cluster.ClusterUnusable, match=said), cluster.connected(None):
        pass

"""own_check: what is seen in a user's file, and the keys that are missing; never a label."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.platform.cli.command_line import main
from labeldp.platform.cli.own_check import check_own, text_of
from labeldp.platform.sweep.configuration import TrialConfig, with_changes
from labeldp.platform.sweep.overrides import parse_overrides
from labeldp.trainers.data.labelled_data import load_own
from labeldp.trainers.data.own_files import HoldOut, OwnSource

CLASSES = ("healthy", "HIV positive")
ROWS = 1200


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = ["id,joined,age,city,size,result"]
    lines += [
        f"p{i},2026-01-{1 + i % 28:02},{i % 70},{'Bern' if i % 3 else 'Rome'},"
        f"{'12x' if i == 7 else i},{CLASSES[i % 2]}"
        for i in range(ROWS)
    ]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_file_that_nothing_is_said_of(table: Path) -> None:
    found = check_own(OwnSource(path=table))
    assert not found.ok and found.seen is not None and found.seen.rows == ROWS
    assert [problem.partition("=")[0] for problem in found.problems] == [
        "data.label_column",
        "data.classes",
        "data.hold_out",
    ]
    kinds = {column.name: column.kind for column in found.seen.columns}
    assert kinds["age"] == "number" and kinds["city"] == "text" and "days" in kinds["joined"]
    assert all(column.usable and not column.note for column in found.seen.columns)
    # Any of the columns may be that of the labels: nothing is counted.
    assert all(column.categories is None for column in found.seen.columns)
    assert "12x" not in text_of(found)
    named = check_own(OwnSource(path=table, label_column="result")).seen
    assert named is not None
    assert [column.name for column in named.columns if not column.usable] == ["size"]


def test_names_of_rows_are_pointed_at(table: Path) -> None:
    table.write_text("\n".join(table.read_text().splitlines()[:500]))
    seen = check_own(OwnSource(path=table, label_column="result")).seen
    assert seen is not None and seen.columns[0].usable
    assert seen.columns[0].kind == "left out"
    assert "499 different values in 499 rows" in seen.columns[0].note
    kept = check_own(OwnSource(path=table, label_column="result", keep=("id",))).seen
    assert kept is not None and (kept.columns[0].kind, kept.columns[0].categories) == ("text", 499)


def test_step_by_step_to_a_command_that_works(table: Path) -> None:
    said: dict[str, Any] = {"path": table, "label_column": "result"}
    first = check_own(OwnSource(**said))
    assert first.seen is not None and first.seen.labels == "column 'result', text"
    assert "data.drop=size" in first.keys and "data.classes=NAME,NAME,..." in first.keys
    said |= {"drop": ("size",), "classes": CLASSES, "hold_out": HoldOut.NONE}
    ready = check_own(OwnSource(**said))
    assert ready.ok, ready.problems
    assert (ready.training_examples, ready.test_examples, ready.num_classes) == (ROWS, 0, 2)
    words = shlex.split(ready.command)
    assert words[:2] == ["python", "sweeps/quickstart.py"]
    assert words[2:6] == ["--results", "results/mine", "--without", "no privacy"]
    config = with_changes(TrialConfig(), parse_overrides(words[6:]))
    public = load_own(config.data.own_source).public
    assert public.fingerprint == ready.fingerprint
    assert public.train_features.shape == (ROWS, 1 + 1 + 2)  # joined, age, city


def test_no_label_is_shown_or_counted(table: Path) -> None:
    for said in ({}, {"label_column": "result"}, {"label_column": "result", "classes": ("a", "b")}):
        shown = text_of(check_own(OwnSource(path=table, **said)))
        assert "HIV" not in shown and "healthy" not in shown
    table.write_text(table.read_text().replace(CLASSES[0], CLASSES[1]))
    uneven = text_of(check_own(OwnSource(path=table, label_column="result")))
    assert uneven == text_of(check_own(OwnSource(path=table, label_column="result")))


def test_a_number_with_a_slip_of_the_pen_is_pointed_at(table: Path) -> None:
    seen = check_own(OwnSource(path=table, label_column="result")).seen
    assert seen is not None
    (size,) = (column for column in seen.columns if column.name == "size")
    assert size.note == "numbers but for 1 rows; the first is row 7: '12x'" and not size.usable


def test_arrays_and_a_second_file(tmp_path: Path) -> None:
    features, labels = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    for name in ("X", "T"):
        np.save(tmp_path / f"{name}.npy", features)
        np.save(tmp_path / f"y{name}.npy", labels)
    said: dict[str, Any] = {"path": tmp_path / "X.npy", "labels": tmp_path / "yX.npy"}
    found = check_own(OwnSource(**said))
    assert found.keys[-2:] == ["data.classes=K", "data.hold_out=none"]
    found = check_own(
        OwnSource(**said, test_path=tmp_path / "T.npy", test_labels=tmp_path / "yT.npy", classes=2)
    )
    assert found.ok and (found.training_examples, found.test_examples) == (20, 20)
    mine = tmp_path / "mine.npz"
    np.savez(mine, features=features, labels=labels)
    assert check_own(OwnSource(path=mine, hold_out=HoldOut.PUBLIC, classes=2)).test_examples == 4
    features[3, 1] = np.inf
    np.savez(mine, features=features, labels=labels)
    bad = check_own(OwnSource(path=mine, hold_out=HoldOut.PUBLIC, classes=2))
    assert not bad.ok and "row 3, column 1 is inf" in bad.problems[0]


def test_from_the_command_line(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "check", str(table), "--label-column", "result"]) == 1
    shown = capsys.readouterr().out
    assert "1,200 rows" in shown and "city    text, 2 categories" in shown and "HIV" not in shown
    assert "data.classes=NAME,NAME,...: which classes there are is public" in shown
    words = ["--label-column", "result", "--drop", "id,joined,size", "--classes", ",".join(CLASSES)]
    asked = ["data", "check", str(table), *words, "--hold-out", "public", "--seed", "3"]
    assert main([*asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (
        answer["ok"] and answer["test_examples"] == 240 and "data.hold_out_seed=3" in answer["keys"]
    )
    assert main(asked) == 0
    assert "960 for training, 240 for testing" in capsys.readouterr().out
    np.save(tmp_path / "X.npy", np.eye(6))
    np.save(tmp_path / "y.npy", np.arange(6) % 2)
    files = ["--features", str(tmp_path / "X.npy"), "--labels", str(tmp_path / "y.npy")]
    assert main(["data", "check", *files, "--classes", "2", "--hold-out", "none"]) == 0
    assert "matrix of 6 columns" in capsys.readouterr().out
    for wrong in (["data", "check"], ["data", "check", "a.csv", *files], files[:2]):
        asked = wrong if wrong[0] == "data" else ["data", "check", *wrong]
        assert main(asked) == 2
        assert "error: " in capsys.readouterr().err
    assert main(["data", "check", str(tmp_path / "nowhere.csv")]) == 1
    assert "is not there; check data.path" in capsys.readouterr().out

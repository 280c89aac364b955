"""data_sets: list, check and fetch; what is seen in a user's own file, and never a label."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.platform.cli import data_sets
from labeldp.platform.cli.data_sets import check_own, check_words
from labeldp.platform.sweep.configuration import TrialConfig, with_changes
from labeldp.platform.sweep.overrides import parse_overrides
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.data.labelled_data import load, load_own
from labeldp.trainers.data.own_files import HoldOut, OwnSource
from tests.platform.cli.asked import answer, refusal, words
from tests.real_data import real_data_root
from tests.trainers.data_samples import write_mnist


def test_the_list_says_what_is_there_and_how_to_get_the_rest(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    found = {entry.name: entry for entry in data_sets.entries(tmp_path)}
    assert list(found) == list(DATASETS)
    assert [name for name, entry in found.items() if entry.present] == ["digits", "mnist"]
    assert found["mnist"].path == str(tmp_path / "MNIST/raw")
    assert found["cifar10"].command == "labeldp data fetch cifar10"


def test_a_published_set_passes_and_a_changed_byte_does_not(tmp_path: Path) -> None:
    root = real_data_root("fashion_mnist")
    found = data_sets.check_set("fashion_mnist", root=root)
    assert found.ok and not found.problems
    assert (found.training_examples, found.test_examples, found.num_classes) == (60_000, 10_000, 10)
    assert found.fingerprint == load("fashion_mnist", root=root).public.fingerprint
    raw = tmp_path / "FashionMNIST/raw"
    raw.mkdir(parents=True)
    for file in (root / "FashionMNIST/raw").iterdir():
        (raw / file.name).write_bytes(file.read_bytes())
    labels = raw / "train-labels-idx1-ubyte"
    content = bytearray(labels.read_bytes())
    content[-1] = (content[-1] + 1) % 10
    labels.write_bytes(content)
    changed = data_sets.check_set("fashion_mnist", root=tmp_path)
    assert not changed.ok
    assert len(changed.problems) == 1 and "train-labels-idx1-ubyte has MD5" in changed.problems[0]


def test_sets_that_are_cut_off_or_missing_are_not_ok(tmp_path: Path) -> None:
    missing = data_sets.check_set("mnist", root=tmp_path)
    assert not missing.ok and "labeldp data fetch mnist" in missing.problems[0]
    write_mnist(tmp_path)
    short = data_sets.check_set("mnist", root=tmp_path)
    assert not short.ok and len(short.problems) == 4
    assert "the published file 47,040,016" in short.problems[0]
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:100])
    cut = data_sets.check_set("mnist", root=tmp_path)
    assert not cut.ok and cut.fingerprint == ""


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer(capsys, "data", "list", "--root", str(tmp_path))
    assert {entry["name"] for entry in listed["sets"]} == set(DATASETS)
    assert answer(capsys, "data", "check", "digits")["training_examples"] == 1438
    missing = answer(capsys, "data", "check", "mnist", "--root", str(tmp_path), code=1)
    assert not missing["ok"] and "labeldp data fetch mnist" in missing["problems"][0]
    assert "labeldp data check FILE" in refusal(capsys, "data", "check", "own")
    np.savez(tmp_path / "mine.npz", features=np.eye(6), labels=np.arange(6) % 2)
    own = ("data", "check", str(tmp_path / "mine.npz"), "--hold-out", "none", "--classes", "2")
    assert answer(capsys, *own)["test_examples"] == 0
    fetched = answer(capsys, "data", "fetch", "digits")
    assert fetched == {"name": "digits", "path": "in scikit-learn"}


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
    assert "12x" not in check_words(found)
    named = check_own(OwnSource(path=table, label_column="result")).seen
    assert named is not None
    (size,) = (column for column in named.columns if not column.usable)
    assert size.name == "size"
    assert size.note == "numbers but for 1 rows; the first is row 7: '12x'"


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


@pytest.mark.parametrize("name", ["1.5", "yes", "null", "#id", "[a", "007", "7"])
def test_the_command_means_the_column_that_was_checked(name: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    rows = [f"{row / 8},{'ab'[row % 2]}" for row in range(40)]
    file.write_text("\n".join([f"size,{name}", *rows]))
    source = OwnSource(path=str(file), label_column=name, classes=("a", "b"), hold_out=HoldOut.NONE)
    command = check_own(source).command
    changes = parse_overrides([word for word in shlex.split(command) if word.startswith("data.")])
    assert with_changes(TrialConfig(), changes).data.own_source == source


def test_no_label_is_shown_or_counted(table: Path) -> None:
    for said in ({}, {"label_column": "result"}, {"label_column": "result", "classes": ("a", "b")}):
        shown = check_words(check_own(OwnSource(path=table, **said)))
        assert "HIV" not in shown and "healthy" not in shown
    table.write_text(table.read_text().replace(CLASSES[0], CLASSES[1]))
    uneven = check_words(check_own(OwnSource(path=table, label_column="result")))
    assert uneven == check_words(check_own(OwnSource(path=table, label_column="result")))


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


def test_an_own_file_from_the_command_line(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = words(capsys, "data", "check", str(table), "--label-column", "result", code=1)
    assert "1,200 rows" in shown and "city    text, 2 categories" in shown and "HIV" not in shown
    assert "data.classes=NAME,NAME,...: which classes there are is public" in shown
    given = ["--label-column", "result", "--drop", "id,joined,size", "--classes", ",".join(CLASSES)]
    asked = ["data", "check", str(table), *given, "--hold-out", "public", "--seed", "3"]
    found = answer(capsys, *asked)
    assert found["ok"] and found["test_examples"] == 240
    assert "data.hold_out_seed=3" in found["keys"]
    assert "960 for training, 240 for testing" in words(capsys, *asked)
    np.save(tmp_path / "X.npy", np.eye(6))
    np.save(tmp_path / "y.npy", np.arange(6) % 2)
    files = ["--features", str(tmp_path / "X.npy"), "--labels", str(tmp_path / "y.npy")]
    shown = words(capsys, "data", "check", *files, "--classes", "2", "--hold-out", "none")
    assert "matrix of 6 columns" in shown
    assert "not both" in refusal(capsys, "data", "check", "a.csv", *files)
    assert "name a data set or a file" in refusal(capsys, "data", "check")
    shown = words(capsys, "data", "check", str(tmp_path / "nowhere.csv"), code=1)
    assert "is not there; check data.path" in shown

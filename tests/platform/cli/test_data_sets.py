"""data_sets: list, check and fetch; what is seen in a user's own file, and never a label."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labeldp.platform.cli.command import shown
from labeldp.platform.cli.data_sets import check_own, check_set
from labeldp.platform.settings.configuration import TrialConfig, with_changes
from labeldp.platform.sweep.config_files import parse_overrides
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.data.labelled_data import load, load_own
from labeldp.trainers.data.own_files import HoldOut, OwnSource
from tests.platform.cli.asked import answer, refusal, words
from tests.real_data import real_data_root
from tests.trainers.data_samples import write_mnist

CLASSES = ("healthy", "HIV positive")
ROWS = 1200


def test_a_changed_byte_of_a_set_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = real_data_root("fashion_mnist")
    monkeypatch.setenv("LABELDP_DATA", str(root))
    found = check_set("fashion_mnist")
    assert found["ok"] and not found["problems"]
    sizes = (found["training_examples"], found["test_examples"], found["num_classes"])
    assert sizes == (60_000, 10_000, 10)
    assert found["fingerprint"] == load("fashion_mnist", root=root).public.fingerprint
    raw = tmp_path / "FashionMNIST/raw"
    raw.mkdir(parents=True)
    for file in (root / "FashionMNIST/raw").iterdir():
        (raw / file.name).write_bytes(file.read_bytes())
    labels = raw / "train-labels-idx1-ubyte"
    content = bytearray(labels.read_bytes())
    content[-1] = (content[-1] + 1) % 10
    labels.write_bytes(content)
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path))
    (problem,) = check_set("fashion_mnist")["problems"]
    assert "train-labels-idx1-ubyte has MD5" in problem


def test_sets_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path))
    missing = answer("data", "check", "mnist", code=1)
    assert not missing["ok"] and "labeldp data fetch mnist" in missing["problems"][0]
    write_mnist(tmp_path)
    listed = answer("data", "list")["sets"]
    assert [entry["name"] for entry in listed] == list(DATASETS)
    there = {entry["name"]: entry for entry in listed if entry["present"]}
    assert list(there) == ["digits", "mnist"]
    assert there["mnist"]["path"] == str(tmp_path / "MNIST/raw")
    assert "labeldp data fetch cifar10" in words("data", "list")
    short = answer("data", "check", "mnist", code=1)
    assert len(short["problems"]) == 4
    assert "the published file 47,040,016" in short["problems"][0]
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:100])
    assert answer("data", "check", "mnist", code=1)["fingerprint"] == ""
    assert answer("data", "check", "digits")["training_examples"] == 1438
    assert "labeldp data check FILE" in refusal("data", "check", "own")
    fetched = answer("data", "fetch", "digits")
    assert fetched == {"name": "digits", "path": "in scikit-learn"}


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


def test_step_by_step_to_a_command_that_works(table: Path) -> None:
    said: dict[str, Any] = {"path": table}
    found = check_own(OwnSource(**said)).facts
    assert not found["ok"] and found["seen"]["rows"] == ROWS
    missing = [problem.partition("=")[0] for problem in found["problems"]]
    assert missing == ["data.label_column", "data.classes", "data.hold_out"]
    # Any of the columns may be that of the labels: nothing is counted.
    assert all(column["categories"] is None for column in found["seen"]["columns"])
    said |= {"label_column": "result"}
    found = check_own(OwnSource(**said)).facts
    assert found["seen"]["labels"] == "column 'result', each one of the stated classes"
    kinds = {column["name"]: column["kind"] for column in found["seen"]["columns"]}
    assert kinds["age"] == "number" and kinds["city"] == "text" and kinds["id"] == "left out"
    (size,) = (column for column in found["seen"]["columns"] if not column["usable"])
    assert size["note"] == "numbers but for 1 rows; the first is row 7: '12x'"
    assert "data.drop=size" in found["keys"] and "data.classes=NAME,NAME,..." in found["keys"]
    said |= {"drop": ("size",), "classes": CLASSES, "hold_out": HoldOut.NONE}
    ready = check_own(OwnSource(**said)).facts
    assert ready["ok"], ready["problems"]
    sizes = (ready["training_examples"], ready["test_examples"], ready["num_classes"])
    assert sizes == (ROWS, 0, 2)
    command = shlex.split(ready["command"])
    assert command[:5] == ["labeldp", "sweep", "quickstart", "--results", "results/mine"]
    assert command[5:7] == ["--without", "no privacy"]
    config = with_changes(TrialConfig(), parse_overrides(command[7:]))
    public = load_own(config.data.own_source).public
    assert public.fingerprint == ready["fingerprint"]
    assert public.train_features.shape == (ROWS, 1 + 1 + 2)  # joined, age, city


@pytest.mark.parametrize("name", ["1.5", "yes", "null", "#id", "[a", "007", "7"])
def test_the_command_means_the_column_that_was_checked(name: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    rows = [f"{row / 8},{'ab'[row % 2]}" for row in range(40)]
    file.write_text("\n".join([f"size,{name}", *rows]))
    source = OwnSource(path=str(file), label_column=name, classes=("a", "b"), hold_out=HoldOut.NONE)
    command = shlex.split(check_own(source).facts["command"])
    changes = parse_overrides([word for word in command if word.startswith("data.")])
    assert with_changes(TrialConfig(), changes).data.own_source == source


def test_truth_values_of_a_parquet_file_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pd.DataFrame({"member": [True, False] * 20, "bought": ["a", "b"] * 20}).to_parquet(file)
    found = check_own(OwnSource(path=str(file), label_column="bought", classes=("a", "b")))
    assert found.words is not None and "member" in shown(found.words)


def test_no_label_is_shown_or_counted(table: Path) -> None:
    def said(**stated: Any) -> str:
        found = check_own(OwnSource(path=table, **stated))
        assert found.words is not None
        text = f"{shown(found.words)} {found.facts}"
        assert "HIV" not in text and "healthy" not in text
        return text

    assert "12x" not in said() and said(label_column="result", classes=("a", "b"))
    even = said(label_column="result")
    for other in (CLASSES[1], "1"):  # not even whether all are numbers
        table.write_text(table.read_text().replace(CLASSES[0], other))
        assert said(label_column="result") == even
    table.write_text(table.read_text().replace(CLASSES[1], "1"))
    assert said(label_column="result") == even


def test_own_files_from_the_command_line(table: Path, tmp_path: Path) -> None:
    text = words("data", "check", str(table), "--label-column", "result", code=1)
    assert "1,200 rows" in text and "text, 2 categories" in text
    assert "data.classes=NAME,NAME,...: the classes are public" in text
    given = ["--label-column", "result", "--drop", "id,joined,size", "--classes", ",".join(CLASSES)]
    asked = ["data", "check", str(table), *given, "--hold-out", "public", "--seed", "3"]
    found = answer(*asked)
    assert found["ok"] and found["test_examples"] == 240
    assert "data.hold_out_seed=3" in found["keys"]
    assert "960 for training, 240 for testing" in words(*asked)
    for name in ("X", "T"):
        np.save(tmp_path / f"{name}.npy", np.eye(6))
        np.save(tmp_path / f"y{name}.npy", np.arange(6) % 2)
    files = ["data", "check", "X.npy", "--labels", "yX.npy", "--classes", "2"]
    text = words(*files, "--hold-out", "none")
    assert "matrix of 6 columns" in text
    Path("T.npy").rename("T.NPY")
    found = answer(*files, "--test", "T.NPY", "--test-labels", "yT.npy")
    assert found["ok"] and (found["training_examples"], found["test_examples"]) == (6, 6)
    np.savez("bad.npz", features=np.diag([np.inf] * 6), labels=np.arange(6) % 2)
    bad = answer(*("data", "check", "bad.npz", "--classes", "2", "--hold-out", "public"), code=1)
    assert "row 0, column 0 is inf" in bad["problems"][0]
    text = words("data", "check", "nowhere.csv", code=1)
    assert "is not there; check data.path" in text

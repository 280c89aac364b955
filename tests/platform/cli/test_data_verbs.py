"""data_verbs: list, check and fetch, as functions and from the command line."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli import data_verbs
from labeldp.platform.cli.command_line import main
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.data.labelled_data import load
from tests.real_data import real_data_root
from tests.trainers.data_samples import write_mnist


def test_the_list_says_what_is_there_and_how_to_get_the_rest(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    entries = {entry.name: entry for entry in data_verbs.list_sets(tmp_path)}
    assert list(entries) == list(DATASETS)
    assert [name for name, entry in entries.items() if entry.present] == ["digits", "mnist"]
    assert entries["mnist"].path == str(tmp_path / "MNIST/raw")
    assert entries["cifar10"].command == "labeldp data fetch cifar10"


def test_listing_does_not_wait_for_torch() -> None:
    script = (
        "import sys; from labeldp.platform.cli.data_verbs import list_sets; list_sets(None); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_published_set_passes_and_a_changed_byte_does_not(tmp_path: Path) -> None:
    root = real_data_root("fashion_mnist")
    found = data_verbs.check_set("fashion_mnist", root=root)
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
    changed = data_verbs.check_set("fashion_mnist", root=tmp_path)
    assert not changed.ok
    assert len(changed.problems) == 1 and "train-labels-idx1-ubyte has MD5" in changed.problems[0]


def test_sets_that_are_cut_off_or_missing_are_not_ok(tmp_path: Path) -> None:
    missing = data_verbs.check_set("mnist", root=tmp_path)
    assert not missing.ok and "labeldp data fetch mnist" in missing.problems[0]
    write_mnist(tmp_path)
    short = data_verbs.check_set("mnist", root=tmp_path)
    assert not short.ok and len(short.problems) == 4
    assert "the published file 47,040,016" in short.problems[0]
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:100])
    cut = data_verbs.check_set("mnist", root=tmp_path)
    assert not cut.ok and cut.fingerprint == ""


def test_a_re_encoded_set_is_told_from_the_published_one() -> None:
    root = real_data_root("cifar10")
    found = data_verbs.check_set("cifar10", root=root)
    assert found.training_examples == 50_000
    if not found.ok:  # the shared copy is exact in some places
        assert "say so beside every number" in found.problems[0]


def test_own_is_no_set_of_its_own() -> None:
    with pytest.raises(ValueError, match="labeldp data check FILE"):
        data_verbs.check_set("own")


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--json", "--root", str(tmp_path)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {entry["name"] for entry in listed["sets"]} == set(DATASETS)
    assert main(["data", "check", "digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["training_examples"] == 1438
    assert main(["data", "check", "mnist", "--json", "--root", str(tmp_path)]) == 1
    assert not json.loads(capsys.readouterr().out)["ok"]
    assert main(["data", "check", "minst"]) == 2
    assert "did you mean mnist" in capsys.readouterr().err
    np.savez(tmp_path / "mine.npz", features=np.eye(6), labels=np.arange(6) % 2)
    own = ["data", "check", str(tmp_path / "mine.npz"), "--hold-out", "none", "--classes", "2"]
    assert main([*own, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_examples"] == 0
    assert main(["data", "fetch", "digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "digits", "path": "in scikit-learn"}

"""outbox: searched before anything is written; a folder of its own, whole or not at all."""

import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.platform.report.ledger import FolderLedger, read_folder
from labeldp.platform.report.publish import check_target, search, write_folder
from labeldp.platform.report.selection import NotPublishable
from tests.platform.report.folders import a_folder
from tests.platform.sweep.examples import a_record

PATH = '/home/ada & "eve"/labels.npz'


@pytest.fixture
def folder(tmp_path: Path) -> FolderLedger:
    a_folder(tmp_path / "results")
    return read_folder(tmp_path / "results")


@pytest.mark.parametrize(
    "form", [PATH, json.dumps(PATH), "/home/ada &amp; &quot;eve&quot;/labels.npz"]
)
def test_places_are_found_however_they_are_written(form: str, folder: FolderLedger) -> None:
    record = a_record(changes={"data.name": "own", "data.path": PATH})
    with pytest.raises(NotPublishable, match=r"page would hold the value of data\.path") as refused:
        search({"page": b"..." + form.encode() + b"..."}, folder=folder, records=[record])
    assert "ada" not in str(refused.value)


def test_words_that_are_no_places_are_not_looked_for(folder: FolderLedger) -> None:
    record = a_record(changes={"data.name": "own", "data.label_column": "accuracy"})
    search({"page": b"accuracy, own"}, folder=folder, records=[record])


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("trainer.model", "networks.wide:Wide", False),
        ("trainer.model", "/home/ada/networks:Wide", True),
        ("trainer.prior.path", "networks.wide:Wide", True),
    ],
)
def test_a_network_of_ones_own_is_named_with_the_model(
    key: str, value: str, found: bool, folder: FolderLedger
) -> None:
    record = a_record()
    record = replace(record, config={**record.config, key: value})
    files = {"model.json": json.dumps({"model": value}).encode()}
    with pytest.raises(NotPublishable) if found else nullcontext():
        search(files, folder=folder, records=[record])


@pytest.mark.parametrize("name", ["path", "vault"])
def test_what_the_sweep_knows_of_itself_is_looked_for(name: str, folder: FolderLedger) -> None:
    value = folder.results.identity.of_the_owner[name]
    with pytest.raises(NotPublishable):
        search({"page": value.encode()}, folder=folder, records=[])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *[("MY_API_KEY", True), ("db_password", True), ("GPG_PASSPHRASE", True)],
        *[("SIGNING_KEY", True), ("EDITOR", False), ("PWD", False)],
    ],
)
def test_secrets_of_the_environment_are_looked_for(
    name: str, found: bool, folder: FolderLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "correct horse")
    try:
        search({"page": b"a correct horse"}, folder=folder, records=[])
    except NotPublishable as refused:
        assert found and name in str(refused) and "horse" not in str(refused)
    else:
        assert not found


def test_a_folder_is_written_whole_over_nothing_or_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/deep"):
        write_folder(tmp_path / name, {"a": b"1", "in/b": b"2"})
        assert (tmp_path / name / "in" / "b").read_bytes() == b"2"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    with pytest.raises(ValueError, match="can't be written"):
        write_folder(tmp_path / "full", {"a": b"1"})
    assert os.listdir(tmp_path / "full") == ["mine"]
    assert not list(tmp_path.glob(".*draft"))


def test_a_link_into_the_results_is_inside_of_them(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "results")
    with pytest.raises(ValueError, match="lies in the results folder"):
        check_target(tmp_path / "link" / "out", results=tmp_path / "results")


def test_a_password_in_an_address_is_looked_for(
    folder: FolderLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://ada:correct-horse@db.example/labels")
    with pytest.raises(NotPublishable, match="DATABASE_URL"):
        search({"page": b"a correct-horse"}, folder=folder, records=[])

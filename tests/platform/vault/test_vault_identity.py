"""vault_identity: a renamed store is itself, a copied or forgetful one is refused."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.vault import Charge
from labeldp.platform.vault.vault_store import SqliteStore, StoreUnusable, witness


def spend(store: SqliteStore, key: str) -> None:
    charge = Charge(
        key=key, event=PureEvent(epsilon=1.0), indices=None, mechanism={}, failure_probability=0.0
    )
    assert store.record(charge, np.arange(3), lines=len(store.charges()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that has spent twice, in a folder of its own."""
    folder = tmp_path / "results"
    folder.mkdir()
    store = SqliteStore(folder / "vault.db")
    spend(store, "a")
    spend(store, "b")
    return store.path


def test_ids_are_of_one_store_alone_also_where_stores_share_a_salt(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / f"{name}.db", salt=b"s" * 32) for name in "ab"]
    assert stores[0].id != stores[1].id
    assert SqliteStore(tmp_path / "a.db").id == stores[0].id


def test_a_renamed_folder_goes_on(path: Path) -> None:
    before = SqliteStore(path).id
    moved = path.parent.rename(path.parent.with_name("elsewhere")) / path.name
    assert SqliteStore(moved).id == before
    spend(SqliteStore(moved), "c")
    # And back again.
    moved.parent.rename(path.parent)
    assert len(SqliteStore(path).charges()) == 3


def test_a_copy_is_refused_until_it_is_told_that_it_moved(path: Path) -> None:
    copy = path.parent.with_name("copy") / path.name
    shutil.copytree(path.parent, copy.parent)
    with pytest.raises(StoreUnusable) as caught:
        SqliteStore(copy)
    for words in (str(copy), f"is a copy of the vault that was made at {path}", "--moved"):
        assert words in str(caught.value)
    SqliteStore(path)  # the original is none
    SqliteStore(copy, moved=True)
    assert len(SqliteStore(copy).charges()) == 2, "once told is enough"


def test_an_original_that_was_renamed_does_not_pass_while_its_copy_has_its_place(
    path: Path,
) -> None:
    copy, away = path.parent.with_name("copy"), path.parent.with_name("away")
    shutil.copytree(path.parent, copy)
    path.parent.rename(away)
    copy.rename(path.parent)
    for store in (path, away / path.name):
        with pytest.raises(StoreUnusable, match="--moved"):
            SqliteStore(store)


def test_an_older_copy_in_the_same_file_is_refused(path: Path, tmp_path: Path) -> None:
    older = Path(shutil.copy(path, tmp_path / "older"))
    spend(SqliteStore(path), "c")
    path.write_bytes(older.read_bytes())  # as `cp` does: the same file, with less in it
    for moved in (False, True):
        with pytest.raises(StoreUnusable, match=r"lost lines.*holds 2, and 3 lines are known"):
            SqliteStore(path, moved=moved)


def test_a_deleted_store_is_missed(path: Path) -> None:
    path.unlink()
    with pytest.raises(StoreUnusable, match=r"vault\.db is gone.*a ledger of 2 lines"):
        SqliteStore(path)
    assert not path.exists()


def test_another_store_in_its_place_is_refused(path: Path, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path / "other.db")
    shutil.copy(other.path, path)
    with pytest.raises(StoreUnusable, match="another vault was here"):
        SqliteStore(path, moved=True)


def test_a_store_that_lost_its_identity_and_its_witness_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE identity")
    witness(path).unlink()
    with pytest.raises(StoreUnusable, match=r"vault\.lines is gone"):
        SqliteStore(path)


@pytest.mark.parametrize("moved", [False, True])
def test_a_witness_that_is_gone_is_missed(path: Path, moved: bool) -> None:
    witness(path).unlink()
    with pytest.raises(StoreUnusable, match=r"vault\.lines is gone.*it holds 2;.*--results"):
        SqliteStore(path, moved=moved)
    assert not witness(path).exists()


def test_a_new_store_has_a_witness_before_it_spends(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "vault.db")
    assert witness(store.path).read_text() == f"{store.id} 0\n"
    # One of no lines says nothing against a new store, nor is it missed.
    store.path.unlink()
    again = SqliteStore(store.path)
    assert witness(store.path).read_text() == f"{again.id} 0\n"
    witness(store.path).unlink()
    assert SqliteStore(store.path).id == again.id


def test_the_same_number_in_another_file_system_is_a_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New file systems count files from one: a copy may well have the original's number."""

    class Another:
        f_fsid = os.statvfs(path).f_fsid + 1

    monkeypatch.setattr("os.statvfs", lambda path: Another)
    with pytest.raises(StoreUnusable, match=r"is a copy.*--moved"):
        SqliteStore(path)
    SqliteStore(path, moved=True)
    SqliteStore(path)


def test_another_name_of_the_same_file_is_refused(path: Path) -> None:
    other = path.parent.with_name("other") / path.name
    other.parent.mkdir()
    os.link(path, other)
    for name in (other, path):
        with pytest.raises(StoreUnusable, match=r"is a hard link: .* has 2 names.*--results"):
            SqliteStore(name)
    other.unlink()
    SqliteStore(path)


def test_a_store_at_the_end_of_a_link_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "vault.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(StoreUnusable, match=r"vault\.db is a link to .*elsewhere\.db"):
        SqliteStore(tmp_path / "vault.db")
    assert not (tmp_path / "elsewhere.db").exists()


def test_a_driver_that_was_killed_between_ledger_and_witness_goes_on(path: Path) -> None:
    store = SqliteStore(path)
    witness(path).write_text(f"{store.id} 1\n")
    assert len(SqliteStore(path).charges()) == 2


def test_a_damaged_witness_is_named(path: Path) -> None:
    witness(path).write_text("")
    with pytest.raises(StoreUnusable, match=r"vault\.lines is damaged"):
        SqliteStore(path)

"""vault_store: a vault's ledger is read as it lies there, and nothing of the vault changes."""

import os
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.vault.vault_store import SqliteStore, StoreUnusable, read_ledger, witness
from tests.platform.vault.test_vault_store import a_vault

LAPLACE = LaplaceNoise(epsilon=1.0, num_classes=3)


def test_lines_come_back_with_their_time_and_the_store_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    vault = a_vault(path)
    vault.release(LAPLACE)
    vault.release(LAPLACE, indices=np.array([0, 2]))
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    os.chmod(path, 0o444)
    kept = read_ledger(path)
    assert [charge.key for charge, _ in kept.lines] == [line.key for line in vault.charges()]
    assert kept.lines[0][0].event == LAPLACE.event
    indices = kept.lines[1][0].indices
    assert indices is not None and indices.tolist() == [0, 2]
    for _, made in kept.lines:
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", made)
    assert (kept.vault, kept.problems) == (SqliteStore(path).id, ())
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_nothing_shows_the_secret_or_what_was_released(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault.db")
    vault.release(LAPLACE)
    salt = SqliteStore(tmp_path / "vault.db").salt()
    kept = read_ledger(tmp_path / "vault.db")
    shown = repr(kept)
    assert salt.hex() not in shown and repr(salt) not in shown
    assert vault._labels_digest not in shown and kept.labels not in shown


def test_marks_are_equal_for_the_same_labels_under_one_secret_only(tmp_path: Path) -> None:
    def mark(name: str, salt: bytes | None, labels: list[int]) -> str:
        store = SqliteStore(tmp_path / name, salt=salt)
        LabelVault(labels=np.array(labels), num_classes=3, store=store)
        return read_ledger(tmp_path / name).labels

    first = mark("a.db", bytes(32), [0, 1, 2])
    assert mark("b.db", bytes(32), [0, 1, 2]) == first
    assert mark("c.db", bytes(32), [0, 1, 1]) != first
    assert mark("d.db", None, [0, 1, 2]) != first


def test_a_copy_is_read_and_tells_its_draws_apart(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault.db")
    vault.release(LAPLACE)
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "vault.db").read_bytes())
    assert read_ledger(copy).vault == read_ledger(tmp_path / "vault.db").vault
    assert read_ledger(copy).contents() == read_ledger(tmp_path / "vault.db").contents()


def test_lines_that_only_the_witness_knows_are_told(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    a_vault(path).release(LAPLACE)
    own = SqliteStore(path).id
    witness(path).write_text(f"{own} 3\n")
    (problem,) = read_ledger(path).problems
    assert "it holds 1, and 3 are known" in problem
    witness(path).write_text("nonsense")
    (problem,) = read_ledger(path).problems
    assert "is damaged" in problem


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100])
def test_what_is_no_store_is_refused_and_left_alone(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreUnusable, match=r"vault\.db"):
        read_ledger(path)
    assert path.exists() == (content is not None) and os.listdir(tmp_path) == (
        [] if content is None else ["vault.db"]
    )


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "vault.db")
    with pytest.raises(StoreUnusable, match="is a pipe"):
        read_ledger(tmp_path / "vault.db")


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    SqliteStore(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE vault SET version = 99")
    connection.close()
    with pytest.raises(StoreUnusable, match="version 99"):
        read_ledger(path)

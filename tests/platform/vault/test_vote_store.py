"""Votes on disk: batches of votes land whole, crashes cost the record being written, one writer."""

import resource
import signal
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.platform.vault.vault_store import VoteJournal, VoteStore
from tests.platform.sweep.examples import mode

VOTES = np.random.default_rng(0).integers(0, 3, size=(6, 40)).astype(np.uint8)


def a_journal(path: Path) -> VoteJournal:
    return VoteJournal(path, teachers=6, queries=40, classes=3)


def fill(path: Path, *batches: list[int]) -> VoteJournal:
    journal = a_journal(path)
    with journal.writing():
        for batch in batches:
            journal.append(batch, VOTES[batch])
    return journal


def test_votes_come_back_in_order_whatever_the_order_of_writing(tmp_path: Path) -> None:
    fill(tmp_path / "v")  # nothing yet
    fill(tmp_path / "v", [4, 5], [0], [2, 3], [1])
    journal = a_journal(tmp_path / "v")
    assert journal.finished == set(range(6))
    np.testing.assert_array_equal(journal.votes(), VOTES)
    # By several processes too; teachers that have not voted are missed.
    for batch in ([4, 5], [2, 3]):
        journal = fill(tmp_path / "w", batch)
        with pytest.raises(ValueError, match=r"of 6 teachers have not voted.*run the sweep"):
            journal.votes()
    np.testing.assert_array_equal(fill(tmp_path / "w", [0, 1]).votes(), VOTES)


@pytest.mark.parametrize("cut", [0, 1, 5, 60, 200, 500])
def test_a_damaged_file_is_dropped_and_the_rest_kept(cut: int, tmp_path: Path) -> None:
    folder = tmp_path / "v"
    fill(folder, [0, 1], [2, 3])
    path = folder / "2.npz"
    content = bytearray(path.read_bytes())
    content[content.index(VOTES[2].tobytes())] ^= not cut  # a bit that flipped
    path.write_bytes(content[: len(content) - cut])
    assert a_journal(folder).finished == {0, 1}
    journal = fill(folder, [2, 3], [4, 5])
    assert journal.finished == set(range(6))
    np.testing.assert_array_equal(a_journal(folder).votes(), VOTES)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v"
    with a_journal(path).writing():
        with pytest.raises(ValueError, match="another process is training"):
            with a_journal(path).writing():
                pass
    assert a_journal(path).finished == set()


def test_a_full_disk_is_named_and_what_was_kept_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "v"
    journal = a_journal(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(ValueError, match=r"File too large.*free the disk"):
            with journal.writing():
                journal.append([0], VOTES[[0]])
                journal.append([1], VOTES[[1]])
                resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
                journal.append([2], VOTES[[2]])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    kept = a_journal(path).finished
    assert kept == journal.finished == {0, 1}
    # There is room again, and no draft is left.
    assert {file.name for file in path.iterdir()} == {"0.npz", "1.npz", "lock"}
    np.testing.assert_array_equal(fill(path, [2, 3], [4, 5]).votes(), VOTES)
    np.testing.assert_array_equal(a_journal(path).votes(), VOTES)


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        (VOTES[:1], "2 teachers and 40 queries need"),
        (VOTES[:2, :39], r"shape \(2, 39\)"),
        (VOTES[:2].astype(np.int64), "of int64"),
        (np.full((2, 40), 3, dtype=np.uint8), "class 3 of 3"),
    ],
)
def test_misfit_votes_are_refused(votes: NDArray[np.uint8], words: str, tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "v")
    with journal.writing(), pytest.raises(ValueError, match=words):
        journal.append([0, 1], votes)
    assert a_journal(tmp_path / "v").finished == set()


def test_votes_are_their_owners_alone(tmp_path: Path) -> None:
    store = VoteStore(tmp_path / "votes")
    fill(store.folder / "k", [0])
    assert mode(store.folder) == 0o700
    for file in store.folder.rglob("*"):
        assert mode(file) == (0o700 if file.is_dir() else 0o600), file


def test_a_damaged_secret_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (tmp_path / "salt").write_bytes(b"short")
    with pytest.raises(ValueError, match=r"salt is damaged; move"):
        VoteStore(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"can't be kept in .*--results"):
        VoteStore(tmp_path / "file" / "votes")

"""vote_store: batches of votes land whole, crashes cost the record being written, one writer."""

import resource
import signal
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.platform.vault import vote_store
from labeldp.platform.vault.vote_store import VoteJournal, VoteStore, VoteStoreUnusable

VOTES = np.random.default_rng(0).integers(0, 3, size=(6, 40)).astype(np.uint8)
LABELS = np.array([0, 1, 2, 0])


def a_journal(path: Path, *, key: str = "k", teachers: int = 6, classes: int = 3) -> VoteJournal:
    return VoteJournal(path, key=key, teachers=teachers, queries=40, classes=classes)


def fill(path: Path, *batches: list[int]) -> VoteJournal:
    journal = a_journal(path)
    with journal.writing():
        for batch in batches:
            journal.append(batch, VOTES[batch])
    return journal


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_votes_come_back_in_order_whatever_the_order_of_writing(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vote_store, "_SYNC_SECONDS", seconds)
    fill(tmp_path / "v")  # nothing yet but the first line
    fill(tmp_path / "v", [4, 5], [0], [2, 3], [1])
    journal = a_journal(tmp_path / "v")
    assert journal.finished == set(range(6))
    np.testing.assert_array_equal(journal.votes(), VOTES)
    # By several processes too; teachers that have not voted are missed.
    for batch in ([4, 5], [2, 3]):
        journal = fill(tmp_path / "w", batch)
        with pytest.raises(VoteStoreUnusable, match=r"of 6 teachers have not voted.*run the sweep"):
            journal.votes()
    np.testing.assert_array_equal(fill(tmp_path / "w", [0, 1]).votes(), VOTES)


@pytest.mark.parametrize("cut", [0, 1, 5, 20, 60, 87, 88])
def test_a_record_that_was_cut_off_or_changed_is_dropped_and_the_rest_kept(
    cut: int, tmp_path: Path
) -> None:
    path = tmp_path / "v"
    fill(path, [0, 1])
    whole = path.stat().st_size
    fill(path, [2, 3])
    size = path.stat().st_size
    assert size - whole > cut
    content = bytearray(path.read_bytes())
    content[-10] ^= not cut  # a bit that flipped
    path.write_bytes(content[: size - cut])
    assert a_journal(path).finished == {0, 1}
    journal = fill(path, [2, 3], [4, 5])
    assert journal.finished == set(range(6))
    np.testing.assert_array_equal(a_journal(path).votes(), VOTES)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v"
    with a_journal(path).writing():
        with pytest.raises(VoteStoreUnusable, match="another process is training"):
            with a_journal(path).writing():
                pass
    assert a_journal(path).finished == set()


def test_a_full_disk_is_named_and_what_was_kept_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "v"
    journal = a_journal(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(VoteStoreUnusable, match=r"File too large.*free the disk"):
            with journal.writing():
                resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 150, hard))
                for teacher in range(6):
                    journal.append([teacher], VOTES[[teacher]])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    kept = a_journal(path).finished
    assert kept == journal.finished == {0, 1}
    # There is room again: writing goes on behind the last whole record.
    np.testing.assert_array_equal(fill(path, [2, 3], [4, 5]).votes(), VOTES)
    np.testing.assert_array_equal(a_journal(path).votes(), VOTES)


@pytest.mark.parametrize("cut", [0, 5, 14, 40])
def test_a_first_line_that_was_cut_off_is_written_again(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "v"
    fill(path)
    path.write_bytes(path.read_bytes()[:cut])
    assert a_journal(path).finished == set()
    np.testing.assert_array_equal(fill(path, [0, 1, 2], [3, 4, 5]).votes(), VOTES)
    np.testing.assert_array_equal(a_journal(path).votes(), VOTES)


@pytest.mark.parametrize("changes", [{"key": "other"}, {"teachers": 7}, {"classes": 10}])
def test_votes_of_another_ensemble_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "v"
    fill(path, [0])
    before = path.read_bytes()
    with pytest.raises(VoteStoreUnusable, match=r"does not hold the votes of .*move it away"):
        a_journal(path, **changes)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"x", b"some other file\n" * 10, b"labeldp votes\n{broken\n"])
def test_another_file_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "v"
    path.write_bytes(content)
    with pytest.raises(VoteStoreUnusable, match="move it away"):
        a_journal(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        (VOTES[:1], "2 teachers and 40 queries need"),
        (VOTES[:2, :39], r"shape \(2, 39\)"),
        (VOTES[:2].astype(np.int64), "of int64"),
        (np.full((2, 40), 3, dtype=np.uint8), "class 3 of 3"),
    ],
)
def test_votes_that_do_not_fit_are_refused(
    votes: NDArray[np.uint8], words: str, tmp_path: Path
) -> None:
    journal = a_journal(tmp_path / "v")
    with journal.writing(), pytest.raises(ValueError, match=words):
        journal.append([0, 1], votes)
    assert a_journal(tmp_path / "v").finished == set()


def test_votes_are_their_owners_alone(tmp_path: Path) -> None:
    store = VoteStore(tmp_path / "votes")
    fill(store.path("k"), [0])
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    for file in store.folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_addresses_tell_labels_and_settings_apart_and_folders_too(tmp_path: Path) -> None:
    store = VoteStore(tmp_path / "votes")
    facts = {"teachers": 6, "seed": 1}
    key = store.key(labels=LABELS, facts=facts)
    assert key == VoteStore(tmp_path / "votes").key(labels=LABELS, facts=dict(facts))
    others = {
        store.key(labels=LABELS[::-1].copy(), facts=facts),
        store.key(labels=LABELS, facts={**facts, "seed": 2}),
        # A secret of the folder: who sees an address can't try labels until one fits.
        VoteStore(tmp_path / "elsewhere").key(labels=LABELS, facts=facts),
    }
    assert len(others | {key}) == 4


def test_a_damaged_secret_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (tmp_path / "salt").write_bytes(b"short")
    with pytest.raises(VoteStoreUnusable, match=r"salt is damaged; move"):
        VoteStore(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(VoteStoreUnusable, match=r"can't be kept in .*--results"):
        VoteStore(tmp_path / "file" / "votes")

"""private_files: nobody but the owner, whatever was there, and nothing of others."""

import os
import stat
from pathlib import Path

import pytest

from labeldp.platform.private_files import NotOurs, owner_only, private_file, private_folder
from labeldp.platform.trusted.vote_store import VoteStore, VoteStoreUnusable


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_below_is_closed_and_the_owner_keeps_what_he_could(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    (folder / "b" / "c").mkdir(parents=True)
    modes = {
        "b": 0o755,
        "b/c": 0o2775,
        "b/text": 0o644,
        "b/c/script": 0o755,
        "b/c/read-only": 0o444,
    }
    for name, before in modes.items():
        if not (folder / name).exists():
            (folder / name).write_text("")
        (folder / name).chmod(before)
    private_folder(folder)
    after = {name: mode(folder / name) for name in modes}
    assert after == {
        "b": 0o700,
        "b/c": 0o700,
        "b/text": 0o600,
        "b/c/script": 0o700,
        "b/c/read-only": 0o400,
    }


def test_what_links_point_at_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("")
    other.chmod(0o644)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to(other)
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    private_folder(tmp_path / "a")
    assert mode(other) == 0o644


def test_folders_that_hold_more_than_results_are_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, home = tmp_path / "shared", tmp_path / "users" / "me"
    shared.mkdir()
    shared.chmod(0o1777)
    home.mkdir(parents=True)
    home.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    for folder in (shared, home, home.parent):
        before = mode(folder)
        with pytest.raises(NotOurs, match="choose a folder of its own"):
            private_folder(folder)
        assert mode(folder) == before
    private_folder(home / "results")


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give files away")
def test_a_file_of_another_user_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "votes" / "salt"
    file.parent.mkdir()
    file.write_bytes(b"x" * 32)
    file.chmod(0o644)
    os.chown(file, 12345, -1)
    with pytest.raises(NotOurs, match=r"votes/salt belongs to user 12345, and this is user 0"):
        private_folder(file.parent)
    with pytest.raises(NotOurs, match="12345"):
        private_file(file)
    with pytest.raises(VoteStoreUnusable, match=r"12345.*--results"):
        VoteStore(file.parent)
    assert mode(file) == 0o644


def test_votes_that_others_could_read_are_closed(tmp_path: Path) -> None:
    VoteStore(tmp_path / "votes")
    journal = tmp_path / "votes" / "a.votes"
    journal.write_bytes(b"")
    journal.chmod(0o644)
    (tmp_path / "votes").chmod(0o755)
    VoteStore(tmp_path / "votes")
    assert (mode(tmp_path / "votes"), mode(journal)) == (0o700, 0o600)


def test_what_is_made_meanwhile_is_the_owners_alone_and_the_umask_comes_back(
    tmp_path: Path,
) -> None:
    before = os.umask(0o022)
    try:
        with owner_only():
            (tmp_path / "a").mkdir()
            (tmp_path / "a" / "b").write_text("")
        (tmp_path / "c").write_text("")
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o600)
    assert mode(tmp_path / "c") == 0o644

"""files: nobody but the owner, nothing of others, and nothing that never ends or is too large."""

import errno
import os
import re
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from labeldp.platform.records.results import DESCRIPTION, write_model
from labeldp.platform.report.page import write_report
from labeldp.platform.sweep.trial import Keeper
from labeldp.platform.vault.vault_store import VoteStore
from labeldp.trainers.data import files
from labeldp.trainers.data.files import (
    FileRefused,
    NotOurs,
    check_unpacked,
    make_folder,
    memory_bytes,
    open_private,
    open_regular,
    private_file,
    private_folder,
    read_bytes,
    replacing,
)
from tests.platform.sweep.examples import a_record, mode


def test_everything_below_is_closed_and_the_owner_keeps_what_he_could(tmp_path: Path) -> None:
    modes = {"a": 0o2775, "a/text": 0o644, "a/script": 0o755, "a/read-only": 0o444}
    (tmp_path / "a").mkdir()
    for name, before in modes.items():
        if name != "a":
            (tmp_path / name).touch()
        (tmp_path / name).chmod(before)
    private_folder(tmp_path)
    assert [mode(tmp_path / name) for name in modes] == [0o700, 0o600, 0o700, 0o400]


def test_folders_are_closed_without_an_umask_which_threads_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", None)
            private_folder(tmp_path / "a" / "b")
            make_folder(tmp_path / "c" / "d")
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("a", "a/b", "c", "c/d")] == [0o700] * 2 + [0o755] * 2
    (tmp_path / "c" / "file").touch()
    with pytest.raises(NotADirectoryError, match="name another"):
        make_folder(tmp_path / "c" / "file" / "e")


def test_folders_of_more_than_results_are_left(
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
def test_a_file_or_link_of_another_user_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "votes" / "salt"
    file.parent.mkdir()
    file.write_bytes(b"x" * 32)
    file.chmod(0o644)
    os.chown(file, 12345, -1)
    with pytest.raises(NotOurs, match=r"votes/salt belongs to user 12345, and this is user 0"):
        private_folder(file.parent)
    with pytest.raises(NotOurs, match="12345"):
        private_file(file)
    with pytest.raises(ValueError, match=r"12345.*--results"):
        VoteStore(file.parent)
    assert mode(file) == 0o644
    (tmp_path / "way").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    os.chown(tmp_path / "way", 12345, -1, follow_symlinks=False)
    with pytest.raises(NotOurs, match=r"way belongs to user 12345"):
        private_folder(tmp_path / "way")


@pytest.mark.parametrize("name", ["driver.lock", "trials", "notes", "trials/a"])
def test_links_are_refused(name: str, tmp_path: Path) -> None:
    """Also one that points at nothing: what is written would be made there."""
    for target in (tmp_path / "other", tmp_path / "nothing"):
        link = tmp_path / "results" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other").chmod(0o755)
        link.symlink_to(target)
        with pytest.raises(NotOurs, match=rf"{name} is a link to {target}.*remove the link"):
            private_folder(tmp_path / "results")
        link.unlink()
        assert mode(tmp_path / "other") == 0o755 and not (tmp_path / "nothing").exists()


def report(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    write_report([a_record("a")], folder=folder, title="small")


def model(folder: Path) -> None:
    write_model(folder / "models", "ab", {DESCRIPTION: b"{}"})


def state(folder: Path) -> None:
    Keeper(str(folder / "states"), "").keep("ab", b"state")


@pytest.mark.parametrize(
    ("write", "name"),
    [
        *((report, name) for name in ("report.html", "pareto.png", "pareto.csv")),
        *((model, name) for name in ("models", "models/ab")),
        *((state, name) for name in ("states", "states/ab.state")),
    ],
)
def test_no_write_follows_a_link(write: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir(mode=0o755)
    link = tmp_path / "results" / name
    link.parent.mkdir(parents=True)
    for target in (tmp_path / "victim", tmp_path / "nothing"):
        link.symlink_to(target)
        with pytest.raises(ValueError, match=f"{link.name} is a link to {target}"):
            write(tmp_path / "results")
        link.unlink()
    assert not list((tmp_path / "victim").iterdir()) and not (tmp_path / "nothing").exists()
    assert mode(tmp_path / "victim") == 0o755


def test_files_are_opened_through_no_link_and_as_nothing_but_files(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("do not lose me")
    precious.chmod(0o644)
    (tmp_path / "soft").symlink_to(precious)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    os.link(precious, tmp_path / "hard")
    os.mkfifo(tmp_path / "pipe")
    for name, words in {
        "soft": "soft is a link to .*precious",
        "dangling": "dangling is a link to .*nothing",
        "hard": "hard is a hard link: the same file has 2 names",
        "pipe": "pipe is not a regular file",
    }.items():
        with pytest.raises(NotOurs, match=words):
            private_file(tmp_path / name)
    assert precious.read_text() == "do not lose me" and mode(precious) == 0o644
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "hard").unlink()
    os.close(open_private(precious, os.O_RDONLY))
    assert mode(precious) == 0o600


@pytest.mark.parametrize("name", ["page", 127 * "ü"])  # no name has more than 255 bytes
def test_drafts_have_secret_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / name
    victim = tmp_path / "victim"
    victim.write_text("mine")
    drafts = []
    for content in (b"one", b"two"):
        with replacing(page) as file:
            (draft,) = tmp_path.glob(".*")
            drafts.append(draft.name)
            assert mode(draft) == 0o600 and not (page.exists() and page.read_bytes() == content)
            file.write(content)
        assert page.read_bytes() == content and not list(tmp_path.glob(".*"))
    assert len(set(drafts)) == 2
    # Somebody foresaw it all the same.
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    (tmp_path / f".{name[:50]}.{'0' * 16}.draft").symlink_to(victim)
    with pytest.raises(FileExistsError), replacing(page) as file:
        file.write(b"three")
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(NotOurs, match="link is a link"), replacing(tmp_path / "link") as file:
        file.write(b"three")
    assert (victim.read_text(), page.read_bytes()) == ("mine", b"two")


def test_an_error_names_the_file_and_not_its_draft(tmp_path: Path) -> None:
    page = tmp_path / "none" / "page"
    with pytest.raises(FileNotFoundError, match=re.escape(f"'{page}'")), replacing(page):
        pass
    page = tmp_path / "page"
    with pytest.raises(OSError, match=re.escape(f"'{page}'")), replacing(page):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_a_secret_that_somebody_else_chose_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chosen").write_bytes(b"A" * 32)
    for plant in (os.symlink, os.link):
        votes = tmp_path / plant.__name__
        votes.mkdir()
        plant(tmp_path / "chosen", votes / "salt")
        with pytest.raises(ValueError, match=r"salt is a (hard )?link.*--results"):
            VoteStore(votes)


@pytest.mark.timeout(20)
def test_a_file_that_becomes_a_pipe_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    regular = tmp_path / "regular"
    regular.write_text("x")
    looked_up = os.stat
    # What is there when one looks, and what is opened a moment later.
    monkeypatch.setattr(os, "stat", lambda path, **_: looked_up(regular))
    with pytest.raises(FileRefused, match="is a pipe"):
        open_regular(tmp_path / "pipe")


def test_sizes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_bytes(file, most_bytes=5) == b"12345"
    with pytest.raises(FileRefused, match=r"more than 4 bytes.* is it the right file"):
        read_bytes(file, most_bytes=4)
    # A file of holes: no disk holds it, and no memory.
    os.truncate(file, memory_bytes() + 1)
    with pytest.raises(FileRefused, match=r"this process may have [\d,]+ bytes of memory"):
        open_regular(file)
    check_unpacked(file, memory_bytes() // 2)
    with pytest.raises(FileRefused, match="when unpacked"):
        check_unpacked(file, memory_bytes() // 2 + 1)


@pytest.mark.parametrize(
    ("groups", "name"),
    [("0::/a/b\n", "memory.max"), ("4:cpu,memory:/a/b\n1:cpu:/\n", "memory.limit_in_bytes")],
)
def test_memory_is_what_the_process_may_have(
    groups: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least limit of its control groups and those around them, or its own."""
    read = Path.read_text
    monkeypatch.setattr(files, "_GROUPS", tmp_path)
    monkeypatch.setattr(
        Path, "read_text", lambda path: groups if str(path) == "/proc/self/cgroup" else read(path)
    )
    machine = memory_bytes()
    inner = tmp_path / ("memory" if "limit" in name else "") / "a" / "b"
    inner.mkdir(parents=True)
    for folder, limit in ((inner, "3000000"), (inner.parent, "2000000"), (inner.parents[1], "max")):
        (folder / name).write_text(f"{limit}\n")
    assert memory_bytes() == 2_000_000 < machine
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_000_000, resource.RLIM_INFINITY))
    assert memory_bytes() == 1_000_000


@pytest.mark.timeout(20)
def test_a_file_that_hides_its_size_is_not_read_to_its_end() -> None:
    pages = Path("/proc/self/pagemap")  # a regular file of 0 bytes that holds 256 GB
    if not pages.exists():
        pytest.skip("no such file in this system's /proc")
    with pytest.raises(FileRefused, match="more than 1,000 bytes"):
        read_bytes(pages, most_bytes=1000)

"""files: what never ends, and what is too large, is told before it is read."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from labeldp.trainers.data.files import (
    FileRefused,
    check_unpacked,
    memory_bytes,
    open_regular,
    read_bytes,
)


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Path]:
    """A folder with a thing of each kind that is no file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        yield tmp_path


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "socket"])
def test_a_path_without_a_file_is_refused_by_its_kind(kind: str, endless: Path) -> None:
    for read in (open_regular, read_bytes):
        with pytest.raises(FileRefused, match=rf"{kind} is a {kind}, which can't be read to an"):
            read(endless / kind)


@pytest.mark.timeout(20)
def test_a_file_that_becomes_a_pipe_on_the_way_does_not_hang(
    endless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular = endless / "regular"
    regular.write_text("x")
    looked_up = os.stat
    # What is there when one looks, and what is opened a moment later.
    monkeypatch.setattr(os, "stat", lambda path, **_: looked_up(regular))
    with pytest.raises(FileRefused, match="is a pipe"):
        open_regular(endless / "pipe")


def test_sizes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_bytes(file, most_bytes=5) == b"12345"
    with pytest.raises(FileRefused, match=r"more than 4 bytes.* is it the right file"):
        read_bytes(file, most_bytes=4)
    # A file of holes: no disk holds it, and no memory.
    os.truncate(file, memory_bytes() + 1)
    with pytest.raises(FileRefused, match=r"this machine has [\d,]+ bytes of memory"):
        open_regular(file)
    check_unpacked(file, memory_bytes())
    with pytest.raises(FileRefused, match="when unpacked"):
        check_unpacked(file, memory_bytes() + 1)


@pytest.mark.timeout(20)
def test_a_file_that_hides_its_size_is_not_read_to_its_end() -> None:
    pages = Path("/proc/self/pagemap")  # a regular file of 0 bytes that holds 256 GB
    if not pages.exists():
        pytest.skip("no such file in this system's /proc")
    with pytest.raises(FileRefused, match="more than 1,000 bytes"):
        read_bytes(pages, most_bytes=1000)

"""files: what never ends, and what is too large, is told before it is read."""

import os
from pathlib import Path

import pytest

from labeldp.trainers.data.files import (
    FileRefused,
    check_unpacked,
    memory_bytes,
    open_regular,
    read_bytes,
)


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

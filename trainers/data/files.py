"""Files that are read: regular ones that end, no larger than they may be, written whole.

A pipe without a writer waits for ever, `/dev/zero` never ends, and a few bytes of an archive
can stand for more than any machine holds. All of it is read from what the file system and the
file's own table of contents say, before anything is read.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, BufferedWriter
from pathlib import Path

#: A file of settings, or a record, has a few thousand bytes.
SETTINGS_BYTES = 4_000_000

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)


class FileRefused(ValueError):
    """A path that is not a regular file, or a file too large to read."""


def memory_bytes() -> int:
    """Return how much memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def open_regular(path: str | Path, *, most_bytes: int | None = None) -> BufferedReader:
    """Open a regular file to read its bytes; the caller closes it."""
    # Before it is opened, since a device may act on that; and after, since it may be another then.
    _check(path, os.stat(path), most_bytes)
    file = open(path, "rb", opener=_without_waiting)
    try:
        _check(path, os.fstat(file.fileno()), most_bytes)
    except BaseException:
        file.close()
        raise
    return file


def read_bytes(path: str | Path, *, most_bytes: int = SETTINGS_BYTES) -> bytes:
    """Return the content of a small file."""
    with open_regular(path, most_bytes=most_bytes) as file:
        content = file.read(most_bytes + 1)
    # It may have grown, and files of the kernel's own say that they have no bytes.
    _check_size(path, len(content), most_bytes)
    return content


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedWriter]:
    """Open a file to write it, for the owner alone: whole, or it stays as it was."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def check_unpacked(path: str | Path, size: int) -> None:
    """Refuse a file whose content needs `size` bytes, if this machine's memory has less."""
    if size > (memory := memory_bytes()):
        raise FileRefused(
            f"{path} holds {size:,} bytes when unpacked, but this machine has {memory:,} bytes of "
            "memory; keep fewer rows or columns, or take a larger machine"
        )


def _check(path: str | Path, found: os.stat_result, most_bytes: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for holds, name in _KINDS if holds(found.st_mode)), "no regular file")
        way_out = "name a file in it" if kind == "a folder" else "save what it gives to a file"
        raise FileRefused(f"{path} is {kind}, which can't be read to an end; {way_out}")
    _check_size(path, found.st_size, most_bytes)


def _check_size(path: str | Path, size: int, most_bytes: int | None) -> None:
    if most_bytes is None:
        if size > (memory := memory_bytes()):
            raise FileRefused(
                f"{path} has {size:,} bytes, but this machine has {memory:,} bytes of memory; keep "
                "fewer rows, or take a larger machine"
            )
    elif size > most_bytes:
        raise FileRefused(
            f"{path} has more than {most_bytes:,} bytes, which is too much for what is read here; "
            "is it the right file?"
        )


def _without_waiting(path: str, flags: int) -> int:
    """Open what may have become a pipe; regular files take no notice of the flag."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


class DatasetMissing(FileNotFoundError, ValueError):
    """A data set is not where it was looked for; the message names the place and what gets it."""


class DataFileError(ValueError):
    """A file of data that is cut off, damaged or of another kind; the message names it."""


def data_root(root: str | os.PathLike[str] | None) -> Path:
    """Return the folder of the data sets: `root`, else LABELDP_DATA, else `data` right here."""
    return Path(root or os.environ.get("LABELDP_DATA") or "data").expanduser()


def file_size(path: Path) -> int:
    """Bytes of a regular file that is there."""
    try:
        with open_regular(path) as file:
            return os.fstat(file.fileno()).st_size
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DatasetMissing(f"{path} is missing") from error


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type's name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]

"""Arrays that several processes want and one computes: directions of a kernel, groups of k-means.

They are made of public inputs alone and cost seconds to minutes; workers of a sweep are processes
of their own, and a sweep that is resumed begins with new ones. Who comes first computes while the
others wait for the file; if it dies, the next one does. A file lies where computed features do,
under a name made of all that decides its content. It is whole or not there at all, carries a digest
that every reader checks, and is mapped into memory, so that workers on one machine share one copy.

Who reads sees the very bits that were computed. That matters where a release is addressed by them:
a process that computed them anew on another processor might ask for another release, and pay.

>>> with tempfile.TemporaryDirectory() as folder:
...     place = Place(folder=Path(folder), name="squares", key={"up to": 3})
...     first = made_once(lambda: (np.arange(3) ** 2,), place=place)
...     again = made_once(lambda: (np.zeros(3),), place=place)
>>> again[0].tolist()
[0, 1, 4]
"""

import fcntl
import hashlib
import json
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.files import FileRefused, open_regular

Arrays: TypeAlias = tuple[NDArray[Any], ...]

#: How long one process waits for another at most: ten times what the slowest of these arrays take
#: on a busy machine. Afterwards it computes for itself, which costs time and nothing else.
PATIENCE_SECONDS = 900.0
_POLL_SECONDS = 0.2
#: Arrays begin at multiples of it, as torch's own do: what a processor adds up in which order may
#: depend on that, and with it the last digits.
_ALIGNED = 64
_DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where arrays are kept.

    Attributes:
        folder: Shared by the processes that want them; None to keep nothing.
        name: What they are, the beginning of the file's name.
        key: All that decides their content, as JSON takes it; no label is among it.
    """

    folder: Path | None
    name: str
    key: Mapping[str, object]

    @property
    def digest(self) -> bytes:
        """SHA-256 of the key."""
        return hashlib.sha256(json.dumps(self.key, sort_keys=True).encode()).digest()

    def file(self, folder: Path) -> Path:
        """The file in a folder."""
        return folder / f"{self.name}-{self.digest.hex()[:32]}.arrays"


class _Turn(Enum):
    """Whose turn it is to compute: mine; another's, so wait; or unknown where nothing is locked."""

    MINE = "mine"
    ANOTHERS = "another's"
    UNKNOWN = "unknown"


def made_once(
    make: Callable[[], Arrays], *, place: Place, patience: float = PATIENCE_SECONDS
) -> Arrays:
    """Return what `make` returns, made by the first process that asks; read-only.

    A folder that can't be written, locked or read costs time and stops nothing.

    Args:
        make: Computes the arrays; no array holds objects.
        place: Where they are kept.
        patience: Seconds to wait for another process at most.
    """
    if place.folder is None:
        return _read_only(make())
    path, began = place.file(place.folder), time.monotonic()
    while (kept := _read(path, place.digest)) is None:
        with _turn(path) as turn:
            if turn is not _Turn.ANOTHERS or time.monotonic() - began > patience:
                # Whoever had its turn in between has written it by now.
                return _read(path, place.digest) or _made(make, path, place.digest)
        time.sleep(_POLL_SECONDS)
    return kept


def _read_only(arrays: Arrays) -> Arrays:
    for array in arrays:
        array.setflags(write=False)
    return arrays


@contextmanager
def _turn(path: Path) -> Iterator[_Turn]:
    """Try to be the one who computes; the kernel ends the turn of a process that dies."""
    lock = path.with_suffix(".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield _Turn.UNKNOWN
        return
    try:
        turn = _locked(descriptor, lock)
        yield turn
        if turn is _Turn.MINE:
            lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, lock: Path) -> _Turn:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last holder deletes it: a lock on a file without a name keeps nobody out.
        same = os.path.samestat(os.fstat(descriptor), os.stat(lock))
    except (BlockingIOError, FileNotFoundError):
        return _Turn.ANOTHERS
    except OSError:  # a file system without locks
        return _Turn.UNKNOWN
    return _Turn.MINE if same else _Turn.ANOTHERS


def _made(make: Callable[[], Arrays], path: Path, digest: bytes) -> Arrays:
    """Make arrays, keep them, and return them as they are read, or as made where they can't be."""
    with suppress(OSError):
        path.unlink(missing_ok=True)  # damaged: nobody who waits need look at it again
    arrays = _read_only(make())
    size = sum(array.nbytes for array in arrays)
    try:
        for left in path.parent.glob(f"{path.name}.*.part"):  # of processes that were killed
            left.unlink(missing_ok=True)
        if shutil.disk_usage(path.parent).free < 2 * size:
            return arrays  # the records of a sweep may need what is left
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                _write(file, arrays, digest)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return arrays
    return _read(path, digest) or arrays


class _Digesting:
    """A file that everything written to it is digested of."""

    def __init__(self, file: IO[bytes], digest: bytes) -> None:
        self._file, self._sum, self._at = file, hashlib.sha256(digest), 0

    def write(self, content: bytes) -> int:
        self._sum.update(content)
        self._at += len(content)
        return self._file.write(content)

    def align(self) -> None:
        self.write(b"\0" * (-self._at % _ALIGNED))

    def sign(self) -> None:
        self._file.write(self._sum.digest())


def _write(file: IO[bytes], arrays: Arrays, digest: bytes) -> None:
    digesting = _Digesting(file, digest)
    for array in arrays:
        digesting.align()
        np.lib.format.write_array(digesting, array, version=(1, 0), allow_pickle=False)
    digesting.sign()


def _read(path: Path, digest: bytes) -> Arrays | None:
    """Arrays mapped from a file; None where there is none that is whole and of this key."""
    try:
        with open_regular(path) as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            end = len(content) - _DIGEST_BYTES
            found = hashlib.sha256(digest)
            with memoryview(content) as view:
                found.update(view[: max(end, 0)])
            if end < 0 or found.digest() != content[end:]:
                return None
            return tuple(_mapped(file, content, end=end))
    except (OSError, FileRefused, ValueError):  # an empty file can't be mapped
        return None


def _mapped(file: IO[bytes], content: mmap.mmap, *, end: int) -> Iterator[NDArray[Any]]:
    """Each array of a file, where it lies."""
    at = 0
    while at < end:
        file.seek(at)
        assert np.lib.format.read_magic(file) == (1, 0), "it is what was written"
        shape, turned, kind = np.lib.format.read_array_header_1_0(file)
        values = np.frombuffer(content, kind, int(np.prod(shape)), file.tell())
        at = file.tell() + values.nbytes
        at += -at % _ALIGNED
        yield values.reshape(shape, order="F" if turned else "C")

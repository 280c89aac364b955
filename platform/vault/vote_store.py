"""Votes of teacher ensembles on disk: one byte per teacher and query, kept as teachers finish.

Training teachers is what costs; noise is not. Votes are therefore stored under a hash of all that
decides them, and every setting of the noise reads the same ones. They are made of true labels
without any noise: whoever reads this folder has no privacy to overcome, so only its owner may.
"""

import fcntl
import hashlib
import json
import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.files import NotOurs, open_private, open_regular, private_folder

SCHEMA_VERSION = 1
_MAGIC = b"labeldp votes\n"
#: A record: how many teachers, how many bytes of votes, their checksum; then ids, then votes.
_RECORD = struct.Struct("<IQI")
#: At most this much work is lost to a power cut; a killed process loses none.
_SYNC_SECONDS = 1.0


class VoteStoreUnusable(ValueError):
    """A folder or file of votes that can't be used; the message has cause and fix."""


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except NotOurs as error:
        raise VoteStoreUnusable(f"votes can't be kept: {error} with --results") from error
    except OSError as error:
        raise VoteStoreUnusable(
            f"votes can't be kept in {path} ({error.strerror or error}); free the disk, or choose "
            "another folder with --results, and run again: votes that are there are kept"
        ) from error


class VoteStore:
    """A folder of votes for its owner alone, with 32 secret random bytes for its life, `salt`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with _explained(folder):
            private_folder(folder)
            self.salt = _secret(folder / "salt")

    def key(self, *, labels: NDArray[np.int64], facts: Mapping[str, Any]) -> str:
        """Return the address of an ensemble's votes.

        True labels with canaries [N] enter through a secret of this folder only; `facts` are all
        else that decides the votes, plain values.
        """
        keyed = hashlib.blake2b(labels.tobytes(), key=self.salt, digest_size=16)
        keyed.update(json.dumps(facts, sort_keys=True, default=str).encode())
        return keyed.hexdigest()

    def path(self, key: str) -> Path:
        """Return where the votes of `key` lie."""
        return self.folder / f"{key}.votes"


class VoteJournal:
    """The votes of one ensemble; grows by whole batches of teachers, in any order."""

    def __init__(self, path: Path, *, key: str, teachers: int, queries: int, classes: int) -> None:
        """Read what is there; a record that a crash cut off is dropped."""
        self.path, self.teachers, self.queries = path, teachers, queries
        self._header = {
            "version": SCHEMA_VERSION,
            "key": key,
            "teachers": teachers,
            "queries": queries,
            "classes": classes,
        }
        self._head = _MAGIC + json.dumps(self._header).encode() + b"\n"
        self._classes = classes
        self._votes: dict[int, NDArray[np.uint8]] = {}
        self._file: BinaryIO | None = None
        self._end = 0
        self._synced = time.monotonic()
        if path.exists():
            self._read()

    @property
    def finished(self) -> set[int]:
        """Teachers whose votes are here."""
        return set(self._votes)

    def votes(self) -> NDArray[np.uint8]:
        """Return all votes [T, Q]."""
        missing = [t for t in range(self.teachers) if t not in self._votes]
        if missing:
            raise VoteStoreUnusable(
                f"{len(missing)} of {self.teachers} teachers have not voted yet in {self.path}; "
                "run the sweep again to train them"
            )
        return np.stack([self._votes[teacher] for teacher in range(self.teachers)])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the file for writing; the lock goes with the process, however it ends."""
        with _explained(self.path):
            self._file = self._opened()
        try:
            yield
        except BaseException:
            # Every batch was flushed. Data beyond a full disk fails once more here, and the
            # error that is under way reports it already.
            with suppress(OSError):
                self._file.close()
            raise
        else:
            with _explained(self.path):
                os.fsync(self._file.fileno())
                self._file.close()
        finally:
            self._file = None

    def append(self, teachers: Sequence[int], votes: NDArray[np.uint8]) -> None:
        """Keep the votes [n, Q] of a batch of teachers, all of them or none."""
        if votes.shape != (len(teachers), self.queries) or votes.dtype != np.uint8:
            raise ValueError(
                f"votes have shape {votes.shape} of {votes.dtype}; {len(teachers)} teachers and "
                f"{self.queries} queries need [{len(teachers)}, {self.queries}] of uint8"
            )
        if votes.size and votes.max() >= self._classes:
            raise ValueError(f"a teacher votes for class {votes.max()} of {self._classes}")
        assert self._file is not None, "append outside of writing()"
        ids = np.asarray(teachers, dtype="<u4").tobytes()
        body = ids + votes.tobytes()
        with _explained(self.path):
            self._file.write(_RECORD.pack(len(teachers), votes.size, zlib.crc32(body)) + body)
            self._file.flush()
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        self._end = self._file.tell()
        self._votes.update(zip(teachers, votes, strict=True))

    def _opened(self) -> BinaryIO:
        file = open(open_private(self.path, os.O_RDWR | os.O_CREAT), "r+b")
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise VoteStoreUnusable(
                    f"another process is training the ensemble of {self.path}; wait until it ends"
                ) from error
            self._read()
            file.truncate(self._end)  # what a crash cut off
            file.seek(self._end)
            if self._end == 0:
                file.write(self._head)
                file.flush()
                self._end = file.tell()
        except BaseException:
            with suppress(OSError):
                file.close()
            raise
        return file

    def _read(self) -> None:
        self._votes.clear()
        self._end = 0
        with open_regular(self.path) as file:
            begun = file.read(len(self._head))
            if len(begun) < len(self._head) and self._head.startswith(begun):
                return  # a new file, or one whose first line a crash or a full disk cut off
            if begun != self._head:
                raise VoteStoreUnusable(
                    f"{self.path} does not hold the votes of {self._header}: it is of another data "
                    "set, other settings or another labeldp, or damaged; move it away"
                )
            self._end = file.tell()
            while len(head := file.read(_RECORD.size)) == _RECORD.size:
                count, size, checksum = _RECORD.unpack(head)
                if count > self.teachers or size != count * self.queries:
                    return
                body = file.read(4 * count + size)
                if len(body) < 4 * count + size or zlib.crc32(body) != checksum:
                    return
                ids = np.frombuffer(body[: 4 * count], dtype="<u4").tolist()
                votes = np.frombuffer(body[4 * count :], dtype=np.uint8).reshape(count, -1)
                self._votes.update(zip(ids, votes, strict=True))
                self._end = file.tell()


def _secret(path: Path) -> bytes:
    try:
        with open(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(secrets.token_bytes(32))
    except FileExistsError:
        pass
    for _ in range(100):  # another process may be about to fill it
        # A file that somebody else chose, or can reach by another name, is not a secret.
        with open(open_private(path, os.O_RDONLY), "rb") as file:
            found = file.read(33)
        if len(found) == 32:
            return found
        time.sleep(0.05)
    raise VoteStoreUnusable(f"{path} is damaged; move its folder away to train teachers again")

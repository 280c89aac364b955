"""Votes of teacher ensembles on disk: one byte per teacher and query, kept as teachers finish.

Training teachers is what costs; noise is not. Votes are therefore stored under a hash of all that
decides them, and every setting of the noise reads the same ones. They are made of true labels
without any noise, so only the owner may read this folder.
"""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from labeldp.trainers.data.files import (
    NotOurs,
    inner_folder,
    open_private,
    open_regular,
    private_folder,
    replacing,
)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except NotOurs as error:
        raise ValueError(f"votes can't be kept: {error} with --results") from error
    except OSError as error:
        raise ValueError(
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


class VoteJournal:
    """The votes of one ensemble: a file for each batch of teachers, in any order."""

    def __init__(self, folder: Path, *, teachers: int, queries: int, classes: int) -> None:
        """Read what is there; files that are damaged or of others are left out."""
        self.folder = folder
        self.teachers = teachers
        self.queries = queries
        self._classes = classes
        self._votes: dict[int, NDArray[np.uint8]] = {}
        self._read()

    @property
    def finished(self) -> set[int]:
        """Teachers whose votes are here."""
        return set(self._votes)

    def votes(self) -> NDArray[np.uint8]:
        """Return all votes [T, Q]."""
        missing = [t for t in range(self.teachers) if t not in self._votes]
        if missing:
            raise ValueError(
                f"{len(missing)} of {self.teachers} teachers have not voted yet in {self.folder}; "
                "run the sweep again to train them"
            )
        return np.stack([self._votes[teacher] for teacher in range(self.teachers)])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder for writing; the lock goes with the process, however it ends."""
        lock = FileLock(self.folder / "lock", timeout=0, mode=0o600)
        with _explained(self.folder):
            inner_folder(self.folder)
            try:
                lock.acquire()
            except Timeout as error:
                raise ValueError(
                    f"another process is training the ensemble of {self.folder}; wait until it ends"
                ) from error
        try:
            self._read()
            yield
        finally:
            lock.release()

    def append(self, teachers: Sequence[int], votes: NDArray[np.uint8]) -> None:
        """Keep the votes [n, Q] of a batch of teachers, all of them or none."""
        if votes.shape != (len(teachers), self.queries) or votes.dtype != np.uint8:
            raise ValueError(
                f"votes have shape {votes.shape} of {votes.dtype}; {len(teachers)} teachers and "
                f"{self.queries} queries need [{len(teachers)}, {self.queries}] of uint8"
            )
        if votes.size and votes.max() >= self._classes:
            raise ValueError(f"a teacher votes for class {votes.max()} of {self._classes}")
        place = self.folder / f"{min(teachers)}.npz"
        with _explained(self.folder), replacing(place) as file:
            np.savez(file, key=self.folder.name, teachers=np.asarray(teachers), votes=votes)
        self._votes.update(zip(teachers, votes, strict=True))

    def _read(self) -> None:
        self._votes.clear()
        for path in self.folder.glob("*.npz"):
            try:
                with open_regular(path) as file, np.load(file, allow_pickle=False) as kept:
                    if kept["key"] == self.folder.name:  # votes of this ensemble
                        pairs = zip(kept["teachers"].tolist(), kept["votes"], strict=True)
                        self._votes.update(pairs)
            except (BadZipFile, EOFError, KeyError, ValueError):
                continue


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
    raise ValueError(f"{path} is damaged; move its folder away to train teachers again")

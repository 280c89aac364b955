"""Releases and charges on disk, in one SQLite database; and votes of teacher ensembles.

A charge and its release land together, in one transaction: a process that is killed, a disk that is
full or a folder that becomes read-only leaves either both lines or none. No release is handed out
before the user's state folder knows its line (`witness`): a store without all lines that are known
of it was restored, copied or edited, and is refused.

Training teachers is what costs; noise is not. Votes are stored under a hash of all that decides
them, one byte per teacher and query, and every setting of the noise reads the same ones. They are
made of true labels without any noise, so only the owner may read their folder.
"""

import hashlib
import io
import json
import math
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from labeldp.mechanisms.release_store import Charge, OtherLabels, read_event, write_event
from labeldp.platform.vault.witness import Line, Witness, database, not_among, state_folder
from labeldp.trainers.data.files import (
    NotOurs,
    inner_folder,
    open_private,
    open_regular,
    private_file,
    private_folder,
    replacing,
)

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vault (version INTEGER NOT NULL, salt BLOB NOT NULL, labels TEXT);
CREATE TABLE IF NOT EXISTS releases (key TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS release_parts (
    key TEXT NOT NULL REFERENCES releases (key), part INTEGER NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (key, part));
CREATE TABLE IF NOT EXISTS charges (
    position INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE REFERENCES releases (key),
    event TEXT NOT NULL, indices BLOB, mechanism TEXT NOT NULL, failure_probability REAL NOT NULL,
    made TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS identity (id TEXT NOT NULL, path TEXT NOT NULL, inode TEXT);
CREATE TABLE IF NOT EXISTS known_to (witness TEXT PRIMARY KEY);
"""
#: All of each line that its digest is of, after the id of its store.
_LINES = (
    "SELECT position, key, event, hex(indices), mechanism, failure_probability, made FROM charges "
    "WHERE position > ? ORDER BY position"
)
#: The number of lines, and whether a release is there.
_STATE = "SELECT (SELECT count(*) FROM charges), EXISTS (SELECT 1 FROM releases WHERE key = ?)"
_ADDED = (
    "INTO charges (key, event, indices, mechanism, failure_probability, made) "
    "VALUES (?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"
)
_ELSEWHERE = "or choose another folder with --results and add what this one spent"

#: SQLite takes a thousand million bytes for one value: a longer one continues in `release_parts`.
_PART_BYTES = 900_000_000


class StoreUnusable(ValueError):
    """A vault store that can't be used as it is; the message has cause and fix."""


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite, NumPy and JSON into `StoreUnusable`."""
    try:
        yield
    except StoreUnusable:
        raise
    except NotOurs as error:
        raise StoreUnusable(f"{error}, with --results") from error
    except Exception as error:
        raise StoreUnusable(
            f"{path} can't be used as a vault store ({type(error).__name__}: {error}); check who "
            "may read it and free the disk; after a crash start the sweep again. If that does not "
            f"help, restore it from a copy, {_ELSEWHERE}"
        ) from error


class SqliteStore:
    """A `ReleaseStore` in one file for its owner alone; its `id`, which copies have, is public."""

    def __init__(
        self, path: Path, *, salt: bytes | None = None, vault: str = "", moved: bool = False
    ) -> None:
        """Open the store, or create it.

        A new one gets random secret bytes, if no `salt` of 32 is given; stores of one salt plant
        the same coin canaries among the same labels. `vault` is the id of the vault that it is a
        part of. `moved` is the user's word that no other copy is in use: lines that this one has
        lost are charged to everybody then.
        """
        self.path = path
        self._charges: list[Charge] = []
        self._lines: list[Line] = []
        self._reading = threading.Lock()
        with _explained(path):
            # The salt and the releases' noise protect the labels: nobody else may read the file.
            private_file(path)
            # Created and filled in one transaction, so that two processes that open a new store
            # together agree on its salt.
            with database(path, writing=True) as connection:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                if connection.execute("SELECT count(*) FROM vault").fetchone()[0] == 0:
                    facts = (SCHEMA_VERSION, salt or secrets.token_bytes(32))
                    connection.execute("INSERT INTO vault VALUES (?, ?, NULL)", facts)
                query = "SELECT version, salt FROM vault"
                version, self._salt = connection.execute(query).fetchone()
                _check_version(path, version)
                found = connection.execute("SELECT id FROM identity").fetchone()
                if found is None:
                    found = (secrets.token_hex(16),)
                    row = (*found, str(path.resolve()), "")
                    connection.execute("INSERT INTO identity VALUES (?, ?, ?)", row)
                self.id = str(found[0])
        self._vault = vault or self.id
        self._witness = Witness()
        self._compare(moved=moved)

    def _compare(self, *, moved: bool) -> None:
        """Compare the ledger with its witness, and have the witness know all of it."""
        # The witness first: a line that another process adds meanwhile is in the ledger before.
        known = self._witness.of_store(self.id)
        own = self.lines()
        if (missing := not_among(known, own)) and not moved:
            raise StoreUnusable(behind(self.path, missing))
        with _explained(self.path), database(self.path) as connection:
            witnesses = {row[0] for row in connection.execute("SELECT * FROM known_to")}
            elsewhere = witnesses and self._witness.id not in witnesses
            if elsewhere and own and not moved:
                raise StoreUnusable(
                    f"what {self.path} has paid was last seen by another state folder than "
                    f"{state_folder()}: it is a copy, or was moved from another machine or user, "
                    "or the state folder was lost, so that nobody knows whether it is complete. "
                    "Name that folder in LABELDP_STATE. If this is the latest state, and no other "
                    f"copy will be used, pass --moved; if not, restore the latest, {_ELSEWHERE}"
                )
            row = (self._witness.id,)
            if self._witness.id not in witnesses:
                connection.execute("INSERT OR IGNORE INTO known_to VALUES (?)", row)
        self._witness.add(self._vault, not_among(own, known))
        self.charge_lost(missing)

    def salt(self) -> bytes:
        """Return the store's secret random bytes."""
        return bytes(self._salt)

    def bind(self, labels_digest: str) -> None:
        """Tie a new store to the labels of this digest; refuse one with releases of others."""
        with _explained(self.path), database(self.path, writing=True) as connection:
            connection.execute("UPDATE vault SET labels = ? WHERE labels IS NULL", (labels_digest,))
            bound = connection.execute("SELECT labels FROM vault").fetchone()[0]
        if bound != labels_digest:
            raise OtherLabels(
                f"{self.path} holds the releases and the ledger of other labels (another data set, "
                "data.limit, noise.seed or other canaries); choose another folder with --results"
            )

    def release(self, key: str) -> NDArray[Any] | None:
        """Return the values stored at `key`, or None.

        Raises:
            StoreUnusable: They can't be read, or a copy went on since this store was opened.
        """
        query = "SELECT content FROM releases WHERE key = ?"
        further = "SELECT content FROM release_parts WHERE key = ? ORDER BY part"
        with _explained(self.path):
            with database(self.path) as connection:
                row = connection.execute(query, (key,)).fetchone()
                parts = connection.execute(further, (key,)).fetchall()
            if row is None:
                return None
            found = _read_array(b"".join(part for (part,) in (row, *parts)) if parts else row[0])
        self._have_known(key)  # what wrote it may have been refused or killed before
        return found

    def charges(self) -> Sequence[Charge]:
        """Return every charge so far, in order."""
        self.lines()
        return tuple(self._charges)

    def lines(self) -> Sequence[Line]:
        """Return every line of the ledger so far, in order, as a witness knows it."""
        # Lines are only ever added, so each is read once: a long sweep needs them all the time.
        with self._reading, _explained(self.path):
            read_up_to = self._lines[-1].position if self._lines else 0
            with database(self.path) as connection:
                rows = connection.execute(_LINES, (read_up_to,)).fetchall()
            for row in rows:
                self._charges.append(_charge_of_row(row))
                self._lines.append(_line_of_row(self.id, row))
            return tuple(self._lines)

    def charge_lost(self, lost: Iterable[Line]) -> None:
        """Charge lines that the vault has lost to everybody, and whatever they touched."""
        # To everybody: a witness does not know which labels a line touched.
        rows = [(x.lost_key, x.event, None, x.mechanism, x.failure_probability) for x in lost]
        if rows:
            with _explained(self.path), database(self.path, writing=True) as connection:
                connection.executemany(f"INSERT OR IGNORE {_ADDED}", rows)
            self._witness.add(self._vault, self.lines())

    def record(self, charge: Charge, values: NDArray[Any], *, lines: int) -> bool:
        """Keep a charge and its release, atomically, if the ledger still has so many `lines`.

        Raises:
            StoreUnusable: It was not kept; or it was, but is not to be handed out.
        """
        # Written before the transaction, which blocks other processes.
        indices = None if charge.indices is None else _write_array(charge.indices)
        event = write_event(charge.event)
        mechanism = json.dumps(charge.mechanism)
        content = memoryview(_write_array(values))
        try:
            with database(self.path, writing=True) as connection:
                (count, made) = connection.execute(_STATE, (charge.key,)).fetchone()
                if lost := self._lines[count:]:  # an earlier state was put back meanwhile
                    raise StoreUnusable(behind(self.path, lost))
                if lines != count or made:
                    return False
                first = content[:_PART_BYTES]
                connection.execute("INSERT INTO releases VALUES (?, ?)", (charge.key, first))
                for start in range(_PART_BYTES, len(content), _PART_BYTES):
                    row = (charge.key, start // _PART_BYTES, content[start : start + _PART_BYTES])
                    connection.execute("INSERT INTO release_parts VALUES (?, ?, ?)", row)
                line = (charge.key, event, indices, mechanism, float(charge.failure_probability))
                connection.execute(f"INSERT {_ADDED}", line)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreUnusable(
                f"the release could not be kept in {self.path} ({error}), so it was not made; free "
                "the disk or make the folder writable, and run again with --resume auto"
            ) from error
        # A process that stops before this line hands nothing out. The next one tells the witness
        # before it reads the release.
        self._have_known(charge.key)
        return True

    def _have_known(self, key: str) -> None:
        """Have the witness know the line of the release at `key`, which is to be handed out."""
        with _explained(self.path):
            (line,) = (line for line in self.lines() if line.key == key)
        if not self._witness.add(self._vault, [line], first=True):
            # A copy went on since this one was opened.
            known = self._witness.of_store(self.id)
            raise StoreUnusable(behind(self.path, not_among(known, self.lines())))


def _check_version(path: Path, version: int) -> None:
    if version != SCHEMA_VERSION:
        raise StoreUnusable(
            f"{path} is a vault store of version {version}, but this labeldp reads version "
            f"{SCHEMA_VERSION}; use the labeldp that wrote it, or another folder with --results"
        )


def behind(path: Path, missing: Sequence[Line]) -> str:
    """Return what to say of a vault without lines that its witness knows."""
    what = json.loads(missing[-1].mechanism).get("name")
    return (
        f"{path} has lost {len(missing)} lines of its ledger that {state_folder()} knows, the last "
        f"of them of a {what}: it was restored from a backup, is a copy of a vault that went on "
        "elsewhere, is in the place of another one, or was edited. Released noise would be drawn "
        "again. Restore the latest state, or pass --moved to charge what is missing to everybody, "
        f"{_ELSEWHERE}"
    )


# A ledger read without its vault


@dataclass(frozen=True, kw_only=True)
class KeptLedger:
    """All lines of a vault on disk, which may be a copy; its secret and releases stay behind.

    `labels` are equal for stores of the same labels under the same secret. Different ones prove
    nothing: their labels may be equal all the same.
    """

    path: Path
    vault: str = ""  # id of the store; empty where `path` is not there, or has no tables
    labels: str = field(default="", repr=False)
    charges: tuple[Charge, ...] = ()  # in the order in which they were made
    lines: tuple[Line, ...] = field(default=(), repr=False)  # the same as a witness knows them

    @property
    def problems(self) -> tuple[str, ...]:
        """A warning if the user's state folder knows lines that this ledger lacks."""
        if not (self.vault and state_folder().exists()):
            return ()
        missing = not_among(Witness().of_store(self.vault), self.lines)
        if not missing:
            return ()
        return (f"{behind(self.path, missing)}; no sum includes the cost of those",)


def read_ledger(path: Path) -> KeptLedger:
    """Return the ledger of the store at `path`, without a change to any file.

    Only what a killed process had begun to write is undone.
    """
    if not path.exists():
        raise StoreUnusable(
            f"{path} is not there: a results folder has its ledger in a file of that name; check "
            "the folder"
        )
    address = f"{path.absolute().as_uri()}?mode=ro"
    tables = "SELECT count(*) FROM sqlite_master"
    with (
        _explained(path),
        open_regular(path),
        closing(sqlite3.connect(address, uri=True, timeout=60)) as connection,
    ):
        if path.with_name(f"{path.name}-journal").exists():
            with database(path) as writer:  # what reads only can't undo anything
                writer.execute(tables).fetchone()
        if connection.execute(tables).fetchone() == (0,):  # killed as it was made
            return KeptLedger(path=path)
        version, salt, labels = connection.execute(
            "SELECT version, salt, labels FROM vault"
        ).fetchone()
        _check_version(path, version)
        (vault,) = connection.execute("SELECT id FROM identity").fetchone()
        rows = connection.execute(_LINES, (0,)).fetchall()
        return KeptLedger(
            path=path,
            vault=vault,
            labels=hashlib.sha256(bytes(salt) + labels.encode()).hexdigest() if labels else "",
            charges=tuple(map(_charge_of_row, rows)),
            lines=tuple(_line_of_row(vault, row) for row in rows),
        )


def _charge_of_row(row: tuple[Any, ...]) -> Charge:
    _, key, event, indices, mechanism, failure_probability, made = row
    return Charge(
        key=key,
        event=read_event(event),
        indices=_read_array(bytes.fromhex(indices)) if indices else None,
        mechanism=json.loads(mechanism),
        failure_probability=failure_probability,
        made=made,
    )


def _line_of_row(store: str, row: tuple[Any, ...]) -> Line:
    position, key, event, _, mechanism, failure_probability, _ = row
    return Line(
        store=store,
        position=position,
        digest=hashlib.sha256(json.dumps([store, *row]).encode()).hexdigest(),
        key=key,
        event=event,
        mechanism=mechanism,
        failure_probability=failure_probability,
    )


def _write_array(values: NDArray[Any]) -> bytes:
    """Return the array in NumPy's format, but eight booleans in a byte: released sets are such."""
    buffer = io.BytesIO()
    if values.dtype == np.bool_:
        header = {"descr": "|b1", "fortran_order": False, "shape": values.shape}
        np.lib.format.write_array_header_1_0(buffer, header)
        buffer.write(np.packbits(values).tobytes())
    else:
        np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()


def _read_array(content: bytes) -> NDArray[Any]:
    """The array that `_write_array` wrote: read-only and, unless of booleans, where it lies."""
    header = io.BytesIO(content)
    if np.lib.format.read_magic(header) != (1, 0):
        raise ValueError("it has an unknown format")
    shape, turned, kind = np.lib.format.read_array_header_1_0(header)
    size = math.prod(shape)
    if kind == np.bool_:
        octets = np.frombuffer(content, np.uint8, offset=header.tell())
        if octets.size != -(-size // 8):  # cut off, or a byte for each as before
            raise ValueError(f"it has {octets.size} bytes for {size} booleans")
        values = np.unpackbits(octets, count=size).astype(np.bool_)
        values.flags.writeable = False
    else:
        values = np.frombuffer(content, kind, size, header.tell())
    return values.reshape(shape, order="F" if turned else "C")


# Votes of ensembles


@contextmanager
def _votes_explained(path: Path) -> Iterator[None]:
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
        with _votes_explained(folder):
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
        with _votes_explained(self.folder):
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
        with _votes_explained(self.folder), replacing(place) as file:
            np.savez(file, key=self.folder.name, teachers=np.asarray(teachers), votes=votes)
        self._votes.update(zip(teachers, votes, strict=True))

    def _read(self) -> None:
        self._votes.clear()
        for path in self.folder.glob("*.npz"):
            try:
                with open_regular(path) as file:
                    content = io.BytesIO(file.read())  # a place before its start is a ValueError
                with np.load(content, allow_pickle=False) as kept:
                    if kept["key"] == self.folder.name:  # votes of this ensemble
                        pairs = zip(kept["teachers"].tolist(), kept["votes"], strict=True)
                        self._votes.update(pairs)
            except (BadZipFile, EOFError, KeyError, RuntimeError, ValueError):
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

"""Releases and charges on disk, in one SQLite database.

A charge and its release land together, in one transaction: a process that is killed, a disk that is
full or a folder that becomes read-only leaves either both lines or none.

Two copies of one store would draw the same release with different noise, each unknown to the other,
and a store that forgot lines of its ledger would spend them again. A store therefore knows its own
id and place, and a small file beside it, the witness, knows the id and how many lines there were.
The place is a path, a file system and a number in it: cloned machines have all three in common, and
their stores are indistinguishable.
"""

import hashlib
import io
import json
import math
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.release_store import OtherLabels, read_event, write_event
from labeldp.mechanisms.vault import Charge
from labeldp.trainers.data.files import NotOurs, open_regular, private_file, replacing

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
"""
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

    def __init__(self, path: Path, *, salt: bytes | None = None, moved: bool = False) -> None:
        """Open the store, or create it.

        A new one gets random secret bytes, if no `salt` of 32 is given; stores of one salt plant
        the same coin canaries among the same labels. `moved` is the user's word that the store was
        moved, and that no other copy is in use.
        """
        self.path = path
        self._charges: list[Charge] = []
        self._read_up_to = 0
        self._reading = threading.Lock()
        with _explained(path):
            refuse_if_gone(path)
            # The salt and the releases' noise protect the labels: nobody else may read the file.
            private_file(path)
            with self._connection() as connection:
                # Created and filled in one transaction, so that two processes that open a new
                # store together agree on its salt.
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                if connection.execute("SELECT count(*) FROM vault").fetchone()[0] == 0:
                    row = (SCHEMA_VERSION, salt or secrets.token_bytes(32))
                    connection.execute("INSERT INTO vault VALUES (?, ?, NULL)", row)
                query = "SELECT version, salt FROM vault"
                version, self._salt = connection.execute(query).fetchone()
                _check_version(path, version)
                self.id, lines = _settle(connection, path, moved=moved)
            # After the transaction, when the store's own id is sure to be in it. From now on a
            # missing witness was taken away.
            known = _known(path)
            if known is None or known[0] != self.id:
                _testify(path, self.id, lines)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # One connection for each use: nothing is left open, and any thread may use it.
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
            if connection.in_transaction:
                connection.execute("COMMIT")
        finally:
            connection.close()  # without COMMIT: rolled back

    def salt(self) -> bytes:
        """Return the store's secret random bytes."""
        return bytes(self._salt)

    def bind(self, labels_digest: str) -> None:
        """Tie a new store to the labels of this digest; refuse one with releases of others."""
        with _explained(self.path), self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE vault SET labels = ? WHERE labels IS NULL", (labels_digest,))
            bound = connection.execute("SELECT labels FROM vault").fetchone()[0]
        if bound != labels_digest:
            raise OtherLabels(
                f"{self.path} holds the releases and the ledger of other labels (another data set, "
                "data.limit, noise.seed or other canaries); choose another folder with --results"
            )

    def release(self, key: str) -> NDArray[Any] | None:
        """Return the values stored at `key`, or None."""
        query = "SELECT content FROM releases WHERE key = ?"
        further = "SELECT content FROM release_parts WHERE key = ? ORDER BY part"
        with _explained(self.path):
            with self._connection() as connection:
                row = connection.execute(query, (key,)).fetchone()
                parts = connection.execute(further, (key,)).fetchall()
            if row is None:
                return None
            return _read_array(b"".join(part for (part,) in (row, *parts)) if parts else row[0])

    def charges(self) -> Sequence[Charge]:
        """Return every charge so far, in order."""
        query = (
            "SELECT position, key, event, indices, mechanism, failure_probability FROM charges "
            "WHERE position > ? ORDER BY position"
        )
        # Lines are only ever added, so each is read once: a long sweep needs them all the time.
        with self._reading, _explained(self.path):
            with self._connection() as connection:
                rows = connection.execute(query, (self._read_up_to,)).fetchall()
            for position, *row in rows:
                self._charges.append(_charge_of_row(*row))
                self._read_up_to = position
            return tuple(self._charges)

    def record(self, charge: Charge, values: NDArray[Any], *, lines: int) -> bool:
        """Keep a charge and its release, atomically, if the ledger still has so many `lines`."""
        indices = None if charge.indices is None else _write_array(charge.indices)
        event, mechanism = write_event(charge.event), json.dumps(charge.mechanism)
        content = memoryview(_write_array(values))
        try:
            with self._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                if lines != _count_lines(connection):
                    return False
                first = content[:_PART_BYTES]
                connection.execute("INSERT INTO releases VALUES (?, ?)", (charge.key, first))
                for start in range(_PART_BYTES, len(content), _PART_BYTES):
                    row = (charge.key, start // _PART_BYTES, content[start : start + _PART_BYTES])
                    connection.execute("INSERT INTO release_parts VALUES (?, ?, ?)", row)
                connection.execute(
                    "INSERT INTO charges "
                    "(key, event, indices, mechanism, failure_probability, made) "
                    "VALUES (?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
                    (charge.key, event, indices, mechanism, float(charge.failure_probability)),
                )
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreUnusable(
                f"the release could not be kept in {self.path} ({error}), so it was not made; free "
                "the disk or make the folder writable, and run again with --resume auto"
            ) from error
        # A process that is killed before this leaves a witness of one line less, which does not
        # contradict the ledger; a full disk costs the witness, not the release.
        with suppress(OSError):
            _testify(self.path, self.id, lines + 1)
        return True


# The store's identity, and the witness beside it


def _check_version(path: Path, version: int) -> None:
    if version != SCHEMA_VERSION:
        raise StoreUnusable(
            f"{path} is a vault store of version {version}, but this labeldp reads version "
            f"{SCHEMA_VERSION}; use the labeldp that wrote it, or another folder with --results"
        )


def witness(path: Path) -> Path:
    """Where the number of lines of the store at `path` is kept."""
    return path.with_suffix(".lines")


def refuse_if_gone(path: Path) -> None:
    """Refuse a new store where the witness knows of one."""
    there = path.exists() and path.stat().st_size > 0
    if not there and (known := _known(path)) is not None and known[1] > 0:
        raise StoreUnusable(
            f"{path} is missing, with a ledger of {known[1]} lines; restore it from a copy, "
            f"{_ELSEWHERE}"
        )


def _settle(connection: sqlite3.Connection, path: Path, *, moved: bool) -> tuple[str, int]:
    """Return the id and the number of lines of the store at `path`, within a transaction.

    A store that was renamed, or whose folder was, is the same file in another place. Any other file
    in another place, or in its place, must be taken for a copy.
    """
    # The file system's own number and the file's number in it. The number of a device would not
    # do: restarts give devices other ones.
    here, inode = str(path.resolve()), f"{os.statvfs(path).f_fsid}:{path.stat().st_ino}"
    found = connection.execute("SELECT id, path, inode FROM identity").fetchone()
    if found is None:
        found = (secrets.token_hex(16), here, inode)
        connection.execute("INSERT INTO identity VALUES (?, ?, ?)", found)
    own, there, before = found
    if (there, before) != (here, inode):
        renamed = before == inode and not _another_is_at(Path(there), path, own)
        if not (renamed or moved):
            raise StoreUnusable(
                f"{path} is a copy of the vault that was made at {there}, or was moved to another "
                "disk or restored. Two copies draw the same release with different noise, and "
                "neither knows what the other spent. If this is the only one that is still used, "
                "pass --moved; if not, choose another folder with --results"
            )
        connection.execute("UPDATE identity SET path = ?, inode = ?", (here, inode))
    lines, known = _count_lines(connection), _known(path)
    if known is None and lines > 0:
        raise StoreUnusable(
            f"{witness(path)} is missing, so it is unknown whether the ledger in {path} is "
            f"complete: it holds {lines}; restore the file from a copy, {_ELSEWHERE}"
        )
    # A witness of no lines was left by a start that released nothing.
    if known is not None and known[1] > 0 and (known[0] != own or known[1] > lines):
        what = f"{known[1]} lines are known" if known[0] == own else "another vault was here"
        raise StoreUnusable(
            f"{path} has lost lines of its ledger: it holds {lines}, and {what} to "
            f"{witness(path).name} beside it; restore the latest file from a copy, {_ELSEWHERE}"
        )
    return str(own), lines


def _count_lines(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM charges").fetchone()[0])


def _testify(path: Path, vault: str, lines: int) -> None:
    with replacing(witness(path)) as file:
        file.write(f"{vault} {lines}\n".encode())


def _known(path: Path) -> tuple[str, int] | None:
    """Id and number of lines by the witness of the store at `path`; None without one."""
    try:
        vault, lines = witness(path).read_text().split()
        return vault, int(lines)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StoreUnusable(
            f"{witness(path)} is damaged; it states how many lines the ledger beside it must have: "
            f"restore it from a copy, {_ELSEWHERE}"
        ) from error


def _another_is_at(there: Path, here: Path, own: str) -> bool:
    try:
        if not there.is_file() or there.samefile(here):
            return False
        with closing(sqlite3.connect(f"{there.as_uri()}?mode=ro", uri=True)) as other:
            return bool(other.execute("SELECT id FROM identity").fetchone() == (own,))
    except (OSError, sqlite3.Error):
        return False


# A ledger read without its vault


@dataclass(frozen=True, kw_only=True)
class KeptLedger:
    """All lines of a vault on disk, which may be a copy; its secret and releases stay behind.

    Attributes:
        labels: Equal for stores of the same labels under the same secret. Different ones prove
            nothing: their labels may be equal all the same.
        lines: In the order in which they were charged, each with its time in UTC by the clock of
            the machine that drew it, as `2026-11-21T23:40:15.120Z`.
    """

    path: Path
    vault: str
    labels: str = field(repr=False)
    lines: tuple[tuple[Charge, str], ...]
    problems: tuple[str, ...] = ()

    def contents(self) -> dict[str, str]:
        """Return a digest of each release (or its first part) by key: distinguishes two draws."""
        with _reading(self.path) as connection:
            rows = connection.execute("SELECT key, content FROM releases")
            return {key: hashlib.sha256(content).hexdigest() for key, content in rows}


def read_ledger(path: Path) -> KeptLedger:
    """Return the ledger of the store at `path`."""
    with _reading(path) as connection:
        version, salt, labels = connection.execute(
            "SELECT version, salt, labels FROM vault"
        ).fetchone()
        _check_version(path, version)
        (vault,) = connection.execute("SELECT id FROM identity").fetchone()
        rows = connection.execute(
            "SELECT key, event, indices, mechanism, failure_probability, made FROM charges "
            "ORDER BY position"
        ).fetchall()
        lines = tuple((_charge_of_row(*row), made) for *row, made in rows)
    mark = hashlib.sha256(bytes(salt) + labels.encode()).hexdigest() if labels else ""
    problems = []
    try:
        if (known := _known(path)) is not None and known[1] > len(lines):
            problems.append(
                f"{path} has lost lines of its ledger: it holds {len(lines)}, and {known[1]} are "
                "known to the file beside it; no sum includes the cost of the others"
            )
    except StoreUnusable as error:
        problems.append(str(error))
    return KeptLedger(path=path, vault=vault, labels=mark, lines=lines, problems=tuple(problems))


def line_digests(path: Path) -> list[tuple[int, str]]:
    """Return the position and a SHA-256 digest of each line of the ledger of the store at `path`.

    A line's place in its vault is part of it, and so is the vault.
    """
    columns = "position, key, event, hex(indices), mechanism, failure_probability, made"
    with _reading(path) as connection:
        (vault,) = connection.execute("SELECT id FROM identity").fetchone()
        rows = connection.execute(f"SELECT {columns} FROM charges ORDER BY position")
        return [
            (row[0], hashlib.sha256(json.dumps([vault, *row]).encode()).hexdigest()) for row in rows
        ]


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.exists():
        raise StoreUnusable(
            f"{path} is not there: a results folder has its ledger in a file of that name; check "
            "the folder"
        )
    with _explained(path):
        open_regular(path).close()
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=60)) as connection:
            yield connection


def _charge_of_row(
    key: str, event: str, indices: bytes | None, mechanism: str, failure_probability: float
) -> Charge:
    return Charge(
        key=key,
        event=read_event(event),
        indices=None if indices is None else _read_array(indices),
        mechanism=json.loads(mechanism),
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

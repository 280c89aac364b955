"""Releases and charges on disk, in one SQLite database.

A charge and what it paid for land together: SQLite's transactions make the ledger complete whatever
happens. A process that is killed, a disk that is full or a folder that turns read-only leaves
either both lines or none.
"""

import hashlib
import io
import json
import math
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.release_store import OtherLabels, read_event, write_event
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.private_files import NotOurs, private_file
from labeldp.platform.vault import vault_identity
from labeldp.platform.vault.vault_identity import StoreUnusable as StoreUnusable
from labeldp.trainers.data.files import FileRefused, open_regular

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
"""


#: SQLite takes a thousand million bytes for one value: what is longer goes on in `release_parts`.
_PART_BYTES = 900_000_000


class StoreOfOtherLabels(StoreUnusable, OtherLabels):
    """A vault store whose releases are of other labels."""


class SqliteStore:
    """A `ReleaseStore` in one file, readable by its owner only.

    Attributes:
        path: The file.
        id: Random, no secret, of this vault alone; a copy of the file has the same.
    """

    def __init__(self, path: Path, *, salt: bytes | None = None, moved: bool = False) -> None:
        """Open the store, or create it.

        Args:
            path: The file.
            salt: 32 secret bytes for a new store; random ones if not given. Stores of one salt
                plant the same coin canaries among the same labels.
            moved: Somebody said that the store was moved, and that no other copy is in use.

        Raises:
            StoreUnusable: The file is no vault store, is of a newer version, can't be written, is a
                copy, or has forgotten what it spent.
        """
        self.path = path
        self._charges: list[Charge] = []
        self._read_up_to = 0
        self._reading = threading.Lock()
        # A second reader gets the array that the first one still holds, and not a copy of it.
        self._held: WeakValueDictionary[str, NDArray[Any]] = WeakValueDictionary()
        try:
            vault_identity.refuse_if_gone(path)
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
                if version == SCHEMA_VERSION:
                    self.id = vault_identity.settle(connection, path, moved=moved)
                    lines = connection.execute("SELECT count(*) FROM charges").fetchone()[0]
            if version == SCHEMA_VERSION:
                # Once the store's own id is sure to be in it.
                vault_identity.let_witness_know(path, vault=self.id, lines=lines)
        except NotOurs as error:
            raise StoreUnusable(f"{error}, with --results") from error
        except StoreUnusable:
            raise
        except Exception as error:  # SQLite's own kinds, and those of bytes that were damaged
            raise StoreUnusable(
                f"{path} can't be used as a vault store ({error}); move it away, free the disk, or "
                "choose another folder with --results"
            ) from error
        if version != SCHEMA_VERSION:
            raise StoreUnusable(
                f"{path} is a vault store of version {version}, but this labeldp reads version "
                f"{SCHEMA_VERSION}; use the labeldp that wrote it, or another folder with --results"
            )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # One connection per use: nothing is left open, and any thread may ask.
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
            if connection.in_transaction:
                connection.execute("COMMIT")
        finally:
            connection.close()  # without COMMIT: rolled back

    @contextmanager
    def _telling_of_damage(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # SQLite's, NumPy's and JSON's own kinds
            raise StoreUnusable(
                f"{self.path} can't be read as a vault store ({type(error).__name__}: {error}); "
                "restore it from a copy, or choose another folder with --results and count what "
                "this one spent as spent"
            ) from error

    def salt(self) -> bytes:
        """Return the store's secret random bytes."""
        return bytes(self._salt)

    def bind(self, labels_digest: str) -> None:
        """Tie a new store to the labels of this digest.

        Raises:
            StoreOfOtherLabels: The store holds releases of other labels.
        """
        with self._telling_of_damage(), self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE vault SET labels = ? WHERE labels IS NULL", (labels_digest,))
            bound = connection.execute("SELECT labels FROM vault").fetchone()[0]
        if bound != labels_digest:
            raise StoreOfOtherLabels(
                f"{self.path} holds the releases and the ledger of other labels (another data set, "
                "data.limit, noise.seed or other canaries); choose another folder with --results"
            )

    def release(self, key: str) -> NDArray[Any] | None:
        """Return the values stored at `key`, or None.

        Raises:
            StoreUnusable: The file is damaged.
        """
        held = self._held.get(key)
        if held is not None:
            return held
        query = "SELECT content FROM releases WHERE key = ?"
        further = "SELECT content FROM release_parts WHERE key = ? ORDER BY part"
        with self._telling_of_damage():
            with self._connection() as connection:
                row = connection.execute(query, (key,)).fetchone()
                parts = connection.execute(further, (key,)).fetchall()
            if row is None:
                return None
            content = b"".join(part for (part,) in (row, *parts)) if parts else row[0]
            self._held[key] = values = _read_array(content)
        return values

    def charges(self) -> Sequence[Charge]:
        """Return every charge so far, in order.

        Raises:
            StoreUnusable: The file is damaged.
        """
        query = (
            "SELECT position, key, event, indices, mechanism, failure_probability FROM charges "
            "WHERE position > ? ORDER BY position"
        )
        # Lines are only ever added, so each is read once: a long sweep asks for them all the time.
        with self._reading, self._telling_of_damage():
            with self._connection() as connection:
                rows = connection.execute(query, (self._read_up_to,)).fetchall()
            for position, *row in rows:
                self._charges.append(_charge_of_row(*row))
                self._read_up_to = position
            return tuple(self._charges)

    def record(self, charge: Charge, values: NDArray[Any], *, lines: int) -> bool:
        """Keep a charge and what it paid for, atomically, if the ledger still has so many `lines`.

        Raises:
            StoreUnusable: The disk is full or the file can't be written; nothing is kept.
        """
        indices = None if charge.indices is None else _write_array(charge.indices)
        event, mechanism = write_event(charge.event), json.dumps(charge.mechanism)
        content = memoryview(_write_array(values))
        try:
            with self._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                found = connection.execute("SELECT count(*) FROM charges").fetchone()[0]
                if lines != found:
                    return False
                first = content[:_PART_BYTES]
                connection.execute("INSERT INTO releases VALUES (?, ?)", (charge.key, first))
                for start in range(_PART_BYTES, len(content), _PART_BYTES):
                    row = (charge.key, start // _PART_BYTES, content[start : start + _PART_BYTES])
                    connection.execute("INSERT INTO release_parts VALUES (?, ?, ?)", row)
                connection.execute(
                    "INSERT INTO charges "
                    "(key, event, indices, mechanism, failure_probability, made) "
                    "VALUES (?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
                    (charge.key, event, indices, mechanism, float(charge.failure_probability)),
                )
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreUnusable(
                f"the release could not be kept in {self.path} ({error}), so it was not made; free "
                "the disk or make the folder writable, and run again with --resume auto"
            ) from error
        vault_identity.testify(self.path, vault=self.id, lines=lines + 1)
        if not values.flags.writeable:
            self._held[charge.key] = values
        return True


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


@dataclass(frozen=True, kw_only=True)
class KeptLedger:
    """All lines of a vault on disk, read without touching it.

    Nothing is made, settled or closed, so that a backup, a copy, and a folder that a sweep holds
    now can be read. The store's secret and the values of releases stay behind.

    Attributes:
        path: The store.
        vault: Id of the vault, which copies share.
        labels: Equal for stores that hold the very same labels under the same secret, and for no
            others. Of different ones nothing follows: their labels may be equal all the same.
        lines: In the order in which they were charged, each with its time in UTC by the clock of
            the machine that drew it, as `2026-11-21T23:40:15Z`.
        problems: What says that lines are missing.
    """

    path: Path
    vault: str
    labels: str = field(repr=False)
    lines: tuple[tuple[Charge, str], ...]
    problems: tuple[str, ...] = ()

    def contents(self) -> dict[str, str]:
        """Return a digest of what was released, by release: tells two draws of one address apart.

        Of a release in parts it is that of the first, in which two draws differ.

        Raises:
            StoreUnusable: The store is damaged.
        """
        with _reading(self.path) as connection:
            rows = connection.execute("SELECT key, content FROM releases")
            return {key: hashlib.sha256(content).hexdigest() for key, content in rows}


def read_ledger(path: Path) -> KeptLedger:
    """Return the ledger of the store at `path`.

    Raises:
        StoreUnusable: There is none, or it can't be read.
    """
    with _reading(path) as connection:
        version, salt, labels = connection.execute(
            "SELECT version, salt, labels FROM vault"
        ).fetchone()
        if version != SCHEMA_VERSION:
            raise StoreUnusable(
                f"{path} is a vault store of version {version}, but this labeldp reads version "
                f"{SCHEMA_VERSION}; use the labeldp that wrote it"
            )
        (vault,) = connection.execute("SELECT id FROM identity").fetchone()
        rows = connection.execute(
            "SELECT key, event, indices, mechanism, failure_probability, made FROM charges "
            "ORDER BY position"
        ).fetchall()
        lines = tuple((_charge_of_row(*row), made) for *row, made in rows)
    mark = hashlib.sha256(bytes(salt) + (labels or "").encode()).hexdigest() if labels else ""
    return KeptLedger(
        path=path, vault=vault, labels=mark, lines=lines, problems=_missing(path, len(lines))
    )


def _missing(path: Path, lines: int) -> tuple[str, ...]:
    """What the file beside the store knows of lines that are not there."""
    try:
        known = vault_identity.lines_known(path)
    except StoreUnusable as error:
        return (str(error),)
    if known is None or known <= lines:
        return ()
    return (
        f"{path} has lost lines of its ledger: it holds {lines}, and {known} are known to the file "
        "beside it; what the others cost is not in any sum",
    )


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        open_regular(path).close()
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=60)
    except FileNotFoundError as error:
        raise StoreUnusable(
            f"{path} is not there: a results folder has its ledger in a file of that name; check "
            "the folder"
        ) from error
    except FileRefused as error:
        raise StoreUnusable(str(error)) from error
    except (OSError, sqlite3.Error) as error:
        raise StoreUnusable(f"{path} can't be read ({error}); check who may read it") from error
    try:
        yield connection
    except StoreUnusable:
        raise
    except Exception as error:  # SQLite's own kinds, and those of bytes that were damaged
        raise StoreUnusable(
            f"{path} can't be read as a vault store ({type(error).__name__}: {error}); if a sweep "
            "was cut off, start it again to settle the file; if not, restore it from a copy"
        ) from error
    finally:
        connection.close()


def _write_array(values: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()


def _read_array(content: bytes) -> NDArray[Any]:
    """The array that `_write_array` wrote, where it lies: read-only, and no copy."""
    header = io.BytesIO(content)
    if np.lib.format.read_magic(header) != (1, 0):
        raise ValueError("it is of a form that is not written here")
    shape, turned, kind = np.lib.format.read_array_header_1_0(header)
    values = np.frombuffer(content, kind, math.prod(shape), header.tell())
    return values.reshape(shape, order="F" if turned else "C")

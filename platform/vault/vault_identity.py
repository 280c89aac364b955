"""Which vault a store is, where it lies, and how much it is known to have spent.

Two copies of one store would draw the same release with different noise, each unknown to the other,
and a store that forgot lines of its ledger would spend them again. A store therefore knows its own
id and place, and a small file beside it, the witness, knows the id and how many lines there were.
Its place is a path, a file system and a number in it: whole machines that were cloned have all
three in common, and their stores can't be told apart.
"""

import os
import secrets
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from labeldp.platform.records.private_files import replacing

SCHEMA = "CREATE TABLE IF NOT EXISTS identity (id TEXT NOT NULL, path TEXT NOT NULL, inode TEXT)"


class StoreUnusable(ValueError):
    """A vault store that can't be used as it is; the message says why and what to do."""


def witness(path: Path) -> Path:
    """Where the number of lines is kept of the store at `path`."""
    return path.with_suffix(".lines")


def refuse_if_gone(path: Path) -> None:
    """Refuse a new store where the witness knows of one.

    Raises:
        StoreUnusable: Says so.
    """
    there = path.exists() and path.stat().st_size > 0
    if not there and (known := _known(path)) is not None and known[1] > 0:
        raise StoreUnusable(
            f"{path} is gone, and with it a ledger of {known[1]} lines; restore it from a copy, or "
            "choose another folder with --results and count what this one spent as spent"
        )


def settle(connection: sqlite3.Connection, path: Path, *, moved: bool) -> str:
    """Return the id of the store at `path`, within a transaction; a new one gets its id.

    A store that was renamed, or whose folder was, is the same file in another place. Any other
    file in another place, or in its place, is a copy for all that anybody can tell. A new store
    gets a witness by `let_witness_know`, after the transaction.

    Args:
        connection: To the store, within a transaction.
        path: Of the store.
        moved: Somebody said that it was moved, and that no other copy is in use.

    Raises:
        StoreUnusable: It is a copy, or the witness is gone, or knows of another one or more lines.
    """
    here, inode = str(path.resolve()), _file_number(path)
    connection.execute(SCHEMA)
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
                "say so with --moved; if not, choose another folder with --results"
            )
        connection.execute("UPDATE identity SET path = ?, inode = ?", (here, inode))
    lines = connection.execute("SELECT count(*) FROM charges").fetchone()[0]
    known = _known(path)
    if known is None and lines > 0:
        raise StoreUnusable(
            f"{witness(path)} is gone, so nobody knows whether all lines of the ledger in {path} "
            f"are there: it holds {lines}; restore the file from a copy, or choose another folder "
            "with --results and count what this one spent as spent"
        )
    # One of no lines was left by a start that released nothing.
    if known is not None and known[1] > 0 and (known[0] != own or known[1] > lines):
        what = f"{known[1]} lines are known" if known[0] == own else "another vault was here"
        raise StoreUnusable(
            f"{path} has lost lines of its ledger: it holds {lines}, and {what} to "
            f"{witness(path).name} beside it; restore the latest file from a copy, or choose "
            "another folder with --results and count what this one spent as spent"
        )
    return str(own)


def let_witness_know(path: Path, *, vault: str, lines: int) -> None:
    """Give a new store of this id a witness, if it has none yet.

    From then on a witness that is missing was taken away.

    Raises:
        OSError: It can't be written.
    """
    known = _known(path)
    if known is None or known[0] != vault:
        _write(path, vault, lines)


def testify(path: Path, *, vault: str, lines: int) -> None:
    """Write down that the store of this id has so many lines; the ledger has them already.

    Whoever is killed before this leaves a witness of one line less, which is no contradiction.
    """
    # A full disk costs the witness, not the release.
    with suppress(OSError):
        _write(path, vault, lines)


def lines_known(path: Path) -> int | None:
    """Return how many lines the witness of the store at `path` knows of; None without a witness.

    Raises:
        StoreUnusable: The witness is damaged.
    """
    known = _known(path)
    return None if known is None else known[1]


def _write(path: Path, vault: str, lines: int) -> None:
    with replacing(witness(path)) as file:
        file.write(f"{vault} {lines}\n".encode())


def _known(path: Path) -> tuple[str, int] | None:
    try:
        vault, lines = witness(path).read_text().split()
        return vault, int(lines)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StoreUnusable(
            f"{witness(path)} is damaged; it says how many lines the ledger beside it must have: "
            "restore it from a copy, or choose another folder with --results and count what this "
            "one spent as spent"
        ) from error


def _file_number(path: Path) -> str:
    """The file system's own number and the file's number in it.

    The number of a device would do as well, but restarts give devices other ones.
    """
    return f"{os.statvfs(path).f_fsid}:{path.stat().st_ino}"


def _another_is_at(there: Path, here: Path, own: str) -> bool:
    """Whether a store of this id, but not this very file, lies at `there`."""
    try:
        if not there.is_file() or there.samefile(here):
            return False
        with closing(sqlite3.connect(f"{there.as_uri()}?mode=ro", uri=True)) as other:
            return bool(other.execute("SELECT id FROM identity").fetchone() == (own,))
    except (OSError, sqlite3.Error):
        return False

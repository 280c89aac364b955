"""A vault's ledger as it lies on disk, read without touching it, for who answers for the labels.

Nothing is made, settled or closed, so that a backup, a copy, and a folder that a sweep holds right
now can be read. The store's secret and the values of releases stay behind.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from labeldp.mechanisms.vault import Charge
from labeldp.platform.vault.vault_identity import StoreUnusable, lines_known
from labeldp.platform.vault.vault_store import SCHEMA_VERSION, charge_of_row
from labeldp.trainers.data.regular_files import FileRefused, open_regular


@dataclass(frozen=True, kw_only=True)
class KeptLine:
    """One line of a ledger on disk.

    Attributes:
        charge: What was charged.
        made: When, in UTC by the clock of the machine that drew it, as `2026-11-21T23:40:15Z`; None
            for lines from before this was kept.
    """

    charge: Charge
    made: str | None


@dataclass(frozen=True, kw_only=True)
class KeptLedger:
    """All lines of a vault.

    Attributes:
        path: The store.
        vault: Id of the vault, which copies share; empty in stores from before there were any.
        labels: Equal for stores that hold the very same labels under the same secret, and for no
            others. Of different ones nothing follows: their labels may be equal all the same.
        lines: In the order in which they were charged.
        problems: What says that lines are missing.
    """

    path: Path
    vault: str
    labels: str = field(repr=False)
    lines: tuple[KeptLine, ...]
    problems: tuple[str, ...] = ()

    def contents(self) -> dict[str, str]:
        """Return a digest of what was released, by release: tells two draws of one address apart.

        Of a release in parts (`vault_store`) it is that of the first, in which two draws differ.

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
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        named = None
        if "identity" in found:
            named = connection.execute("SELECT id FROM identity").fetchone()
        columns = {row[1] for row in connection.execute("PRAGMA table_info(charges)")}
        # Older stores lack these columns, and reading must not add them.
        later = [
            name if name in columns else f"NULL AS {name}"
            for name in ("failure_probability", "made")
        ]
        rows = connection.execute(
            f"SELECT key, event, indices, mechanism, {', '.join(later)} FROM charges "
            "ORDER BY position"
        ).fetchall()
    lines = tuple(KeptLine(charge=charge_of_row(*row[:5]), made=row[5]) for row in rows)
    mark = hashlib.sha256(bytes(salt) + (labels or "").encode()).hexdigest() if labels else ""
    return KeptLedger(
        path=path,
        vault=named[0] if named else "",
        labels=mark,
        lines=lines,
        problems=_missing(path, len(lines)),
    )


def _missing(path: Path, lines: int) -> tuple[str, ...]:
    """What the file beside the store knows of lines that are not there."""
    try:
        known = lines_known(path)
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

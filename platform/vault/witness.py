"""What vaults have paid, kept apart from them: in the state folder of the user.

A vault that was restored from a backup has forgotten releases that went out, and would draw them
again with other noise. A copy never hears of the releases of the other one. Nothing that lies in
the vault tells. So each line of its ledger is known here too, before its release is handed out.
A vault without one of these lines is refused, or charged with it.

A vault knows by which state folders it is known (`Witness.id`): without one of them, on another
machine, nobody can say whether it is complete.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from labeldp.trainers.data.files import NotOurs, private_file, private_folder

STATE = "LABELDP_STATE"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS state (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS lines (
    vault TEXT NOT NULL, store TEXT NOT NULL, position INTEGER NOT NULL, digest TEXT NOT NULL,
    key TEXT NOT NULL, event TEXT NOT NULL, mechanism TEXT NOT NULL,
    failure_probability REAL NOT NULL,
    PRIMARY KEY (store, digest));
CREATE INDEX IF NOT EXISTS lines_of_vaults ON lines (vault);
CREATE TABLE IF NOT EXISTS places (vault TEXT PRIMARY KEY, path TEXT NOT NULL);
"""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a ledger: enough to recognize it, and to charge it to everybody."""

    store: str  # id of its store; a shared vault has several
    position: int  # from 1, in its store
    digest: str  # of all that the line says
    key: str  # of its release
    event: str  # its price, as JSON
    mechanism: str  # name and parameters, as JSON
    failure_probability: float

    @property
    def lost_key(self) -> str:
        """Key of the charge that stands for this line in a vault that had lost it."""
        return f"lost {self.digest}"


def not_among(known: Iterable[Line], own: Iterable[Line]) -> list[Line]:
    """Return the known lines that a vault has neither as they were nor as lost ones."""
    own = tuple(own)
    digests = {line.digest for line in own}
    keys = {line.key for line in own}
    return [line for line in known if not (line.digest in digests or line.lost_key in keys)]


def state_folder() -> Path:
    """Return LABELDP_STATE, or else `labeldp` in XDG_STATE_HOME or in ~/.local/state."""
    if named := os.environ.get(STATE):
        return Path(named).expanduser().absolute()
    base = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return base.absolute() / "labeldp"


class Witness:
    """The lines of all vaults of a user, in one file, which several processes may use."""

    def __init__(self) -> None:
        """Open it, or create it.

        Raises:
            ValueError: It can't be written, so that no vault may release anything.
        """
        with _explained():
            folder = state_folder()
            self._path = folder / "vaults.db"
            # Only once: the folder may hold other files of the user later.
            if not self._path.exists():
                private_folder(folder)
            private_file(self._path)
            with database(self._path, writing=True) as connection:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                row = (secrets.token_hex(16),)
                connection.execute(
                    "INSERT INTO state SELECT ? WHERE NOT EXISTS (SELECT * FROM state)", row
                )
                (self.id,) = connection.execute("SELECT id FROM state").fetchone()

    def of_store(self, store: str) -> list[Line]:
        """Return the known lines of a store."""
        return self._lines("store = ?", store)

    def of_vault(self, vault: str, *, at: Path, opened: bool = True) -> list[Line]:
        """Return the known lines of all stores of a vault, and of others that were last `at` it.

        It is at that place from now on if it was `opened`: who reads a copy's ledger moves nothing.
        """
        place = (vault, str(at.resolve()))
        with _explained(), database(self._path) as connection:
            query = "SELECT * FROM places WHERE vault = ? AND path = ?"
            if opened and not connection.execute(query, place).fetchone():
                connection.execute("INSERT OR REPLACE INTO places VALUES (?, ?)", place)
        return self._lines(
            "vault = ? OR vault IN (SELECT vault FROM places WHERE path = ?)", *place
        )

    def vault_of(self, store: str) -> str | None:
        """Return the vault that has a store; None where none is known."""
        with _explained(), database(self._path) as connection:
            query = "SELECT vault FROM lines WHERE store = ?"
            found = connection.execute(query, (store,)).fetchone()
        return found and str(found[0])

    def add(self, vault: str, lines: Iterable[Line], *, first: bool = False) -> bool:
        """Keep lines of a vault; those that are known stay as they are.

        `first`: keep nothing and return False where only another line is known in one's place.
        """
        rows = list(lines)
        if not rows:
            return True
        with _explained(), database(self._path, writing=True) as connection:
            # The highest of none is none; a known line has kept its place beside another.
            own = "SELECT max(digest = ?) FROM lines WHERE store = ? AND position = ?"
            for line in rows if first else ():
                place = (line.digest, line.store, line.position)
                if connection.execute(own, place).fetchone() == (0,):
                    return False
            query = "INSERT OR IGNORE INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            connection.executemany(query, [(vault, *astuple(line)) for line in rows])
        return True

    def _lines(self, condition: str, *values: str | int) -> list[Line]:
        columns = tuple(Line.__dataclass_fields__)
        query = f"SELECT {', '.join(columns)} FROM lines WHERE {condition} ORDER BY store, position"
        with _explained(), database(self._path) as connection:
            rows = connection.execute(query, values).fetchall()
        return [Line(**dict(zip(columns, row, strict=True))) for row in rows]


@contextmanager
def database(path: Path, *, writing: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a database for one use: nothing is left open, and any thread may use it.

    `writing` takes the write lock first: of two processes, one sees what the other has written.
    """
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        # A release is handed out when this returns: its charge, and the witness of it, must survive
        # a power failure by then.
        connection.execute("PRAGMA synchronous = FULL")
        if writing:
            connection.execute("BEGIN IMMEDIATE")
        yield connection
        if connection.in_transaction:
            connection.execute("COMMIT")  # without it: rolled back


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (NotOurs, OSError, RuntimeError, sqlite3.Error) as error:
        raise ValueError(
            f"{STATE} is {os.environ.get(STATE) or 'not set'}, and what vaults have paid can't be "
            f"kept or read there ({error}); without it nobody notices a vault that was restored "
            "from a backup and releases twice, so nothing is released, and no ledger is summed: "
            f"mend it, or set {STATE} to a folder of your own that lasts"
        ) from error

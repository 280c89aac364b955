"""Labels in a database: read by one query, in batches, and never written to.

`duckdb:FILE` is read by DuckDB, other addresses by SQLAlchemy. Connections or transactions are
read-only where the engine knows that. The query stands within another one, where one that writes
is no query. No message of a database is passed on that may quote a value: it would be a label.
"""

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.trainers.data.files import DataFileError, first_line, read_bytes

PASSWORD = "LABELDP_DATABASE_PASSWORD"
PASSWORD_FILE = "LABELDP_DATABASE_PASSWORD_FILE"
_DUCKDB = "duckdb:"
_BATCH = 50_000
#: A password in an address, or in a query that opens another database.
_SECRET = re.compile(r"(password|passwd|pwd|token)\s*=|://[^/@]*:[^/@]*@", re.IGNORECASE)
_SELECT = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*(select|with)\b", re.IGNORECASE | re.DOTALL)
#: Errors whose words are of names, rights and places; but for two, which quote values.
_SAID = {
    "OperationalError",
    "ProgrammingError",
    "InternalError",
    "NotSupportedError",
    "SQLAlchemyError",
}
_QUOTING = {"InvalidInputException", "RaiseException"}
_LIBRARIES = ("duckdb", "_duckdb", "psycopg", "sqlalchemy")


def is_address(text: str) -> bool:
    """Whether it names a database, and not a file."""
    return text.startswith(_DUCKDB) or "://" in text


def file_of(address: str) -> Path | None:
    """Return the file that an address names; None for a server, or DuckDB in memory."""
    kind, _, place = address.partition(":")
    file = place.removeprefix("///").partition("?")[0]
    return Path(file) if file and kind.partition("+")[0] in ("duckdb", "sqlite") else None


class QueriedLabels:
    """The rows of a query, in DuckDB."""

    def __init__(self, connection: Any, query: str) -> None:
        self._connection = connection
        # A comment at its end must not take the bracket.
        self._query = f"({query}\n) AS labels"

    def check(self, *columns: str) -> None:
        """Refuse columns that the query does not give."""
        known = list(self._read(f"SELECT * FROM {self._query} WHERE 1 = 0"))
        if lacking := [name for name in columns if name not in known]:
            raise DataFileError(
                f"the query gives no column {lacking[0]!r}, but {', '.join(map(str, known))}; name "
                "the column as the query does, or rename it there with AS"
            )

    def table(self, *columns: str) -> pd.DataFrame:
        """Return columns of the query, read in batches."""
        self.check(*columns)
        names = ", ".join(self._quoted(name) for name in dict.fromkeys(columns))
        return self._read(f"SELECT {names} FROM {self._query}")

    def counts(
        self, ids: pd.Series, parts: NDArray[np.integer], *, id_column: str, label_column: str
    ) -> pd.DataFrame:
        """Return how many rows have each label in each part, counted by the database.

        Args:
            ids: As `table` returned them [N].
            parts: Number of the part of each [N].
            id_column: Of the query.
            label_column: Likewise.

        Returns:
            Columns `part`, `label` and `count`.
        """
        own = self._quoted(id_column)
        self._lend(own, pd.DataFrame({"id": ids.to_numpy(), "part": parts}))
        return self._read(
            f"SELECT lent.part AS part, labels.{self._quoted(label_column)} AS label, "
            f"COUNT(*) AS count FROM {self._query} "
            f"JOIN labeldp_request AS lent ON labels.{own} = lent.id GROUP BY 1, 2"
        )

    def _quoted(self, name: str) -> str:
        doubled = name.replace('"', '""')
        return f'"{doubled}"'

    def _read(self, query: str) -> pd.DataFrame:
        found: pd.DataFrame = self._connection.sql(query).to_arrow_reader(_BATCH).read_pandas()
        return found

    def _lend(self, own: str, rows: pd.DataFrame) -> None:
        """Make the rows a temporary table, whose ids have the type of the query's column `own`."""
        self._connection.register("labeldp_request", rows)


class _BySqlAlchemy(QueriedLabels):
    def _quoted(self, name: str) -> str:
        return str(self._connection.dialect.identifier_preparer.quote_identifier(name))

    def _read(self, query: str) -> pd.DataFrame:
        result = self._connection.exec_driver_sql(query)
        names = list(result.keys())
        parts = [pd.DataFrame(columns=names)]
        for some in result.partitions(_BATCH):
            parts.append(pd.DataFrame(map(tuple, some), columns=names, dtype=object))
        return pd.concat(parts, ignore_index=True)

    def _lend(self, own: str, rows: pd.DataFrame) -> None:
        if self._connection.dialect.name != "postgresql":
            raise DataFileError(
                "only DuckDB and PostgreSQL count labels for a request; leave out --push-down"
            )
        # Only the temporary table is made in a transaction that may write.
        self._connection.rollback()
        driver = self._connection.connection.driver_connection
        driver.read_only = False
        with driver.cursor() as cursor:
            cursor.execute(
                "CREATE TEMPORARY TABLE labeldp_request AS "
                f"SELECT {own} AS id, 0 AS part FROM {self._query} WHERE 1 = 0"
            )
            with cursor.copy("COPY labeldp_request FROM STDIN") as copied:
                for row in rows.itertuples(index=False):
                    copied.write_row(row)
        driver.commit()
        driver.read_only = True


@contextmanager
def opened(address: str, query: str) -> Iterator[QueriedLabels]:
    """Open the rows of a query for reading.

    Args:
        address: `duckdb:FILE`, or one of SQLAlchemy without a password: that is in the environment
            (`LABELDP_DATABASE_PASSWORD`), in the file that `LABELDP_DATABASE_PASSWORD_FILE` names,
            or where the database's own library looks for it.
        query: One SELECT.

    Raises:
        DataFileError: Address or query are refused, by us or by the database.
    """
    if _SECRET.search(address) or _SECRET.search(query):
        raise DataFileError(
            "the address or the query has a password, which other users of this machine can see in "
            f"its list of processes; leave it out, and put it into {PASSWORD}, or into a file "
            f"that {PASSWORD_FILE} names"
        )
    plain = query.strip().removesuffix(";")
    if not _SELECT.match(plain) or ";" in plain:
        raise DataFileError(
            "--query must be one SELECT, without a semicolon: labels are only read, and a query "
            "that writes is refused"
        )
    file = file_of(address)
    if file is not None and not file.is_file():
        raise DataFileError(f"{file} does not exist, and no database is made; check the address")
    embedded = address.startswith(_DUCKDB)
    with _in_words(address):
        connection = _duckdb(file) if embedded else _by_sqlalchemy(address)
        with closing(connection):
            yield (QueriedLabels if embedded else _BySqlAlchemy)(connection, plain)


def _duckdb(file: Path | None) -> Any:
    import duckdb

    connection = duckdb.connect(str(file or ":memory:"), read_only=file is not None)
    connection.execute("BEGIN TRANSACTION")
    return connection


def _by_sqlalchemy(address: str) -> Any:
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.pool import NullPool

    url = make_url(address)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if PASSWORD_FILE in os.environ:
        url = url.set(password=read_bytes(os.environ[PASSWORD_FILE]).decode().rstrip("\n"))
    elif PASSWORD in os.environ:
        url = url.set(password=os.environ[PASSWORD])
    connection = create_engine(url, poolclass=NullPool, hide_parameters=True).connect()
    name = connection.dialect.name
    if name == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
    options: dict[str, Any] = {"stream_results": True, "no_parameters": True}
    if name == "postgresql":
        options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    return connection.execution_options(**options)


@contextmanager
def _in_words(where: str) -> Iterator[None]:
    """Turn errors of these libraries into one sentence, which quotes no value."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise DataFileError(
            f"{where} needs the package {error.name}, which is not installed: pip install duckdb "
            "sqlalchemy 'psycopg[binary]', or the driver of your database"
        ) from None
    except Exception as error:  # they have no base in common, and ours are of this block, too
        if type(error).__module__.partition(".")[0] not in _LIBRARIES:
            raise
        cause = getattr(error, "orig", None) or error
        kinds = {kind.__name__ for kind in type(cause).__mro__}
        quoting = kinds & _QUOTING or not kinds & _SAID
        said = "its words may quote a value" if quoting else first_line(cause)
        raise DataFileError(
            f"{where} refuses ({type(cause).__name__}: {said}); nothing was released. Check "
            "address, rights and query"
        ) from None

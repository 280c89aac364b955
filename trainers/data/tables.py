"""Tables: `.csv` files in any encoding, workbooks, Parquet files, and queries of databases.

pyarrow reads text and finds types over the whole file. No message of Arrow's or of a database is
passed on that may quote a value, for that may be a label; and no name of a column before it is sure
that the first line is no row.

Labels in a database are read by one query, in batches, and never written to. `duckdb:FILE` is read
by DuckDB, other addresses by SQLAlchemy. Connections or transactions are read-only where the engine
knows that. The query stands within another one, where one that writes is no query.
"""

import codecs
import io
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from csv import writer
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import MISSING, MISSING_WORDS, forms_in, number_in, values_in
from labeldp.trainers.data.files import (
    ANY_SIZE,
    DataFileError,
    check_archive,
    check_unpacked,
    first_line,
    open_regular,
    read_bytes,
    readable,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow

#: Types are found within a block; Arrow takes no larger ones.
_LARGEST_BLOCK = 1 << 30
MOST_COLUMNS = 20_000
#: Bytes of a workbook's cell in memory: its place in a row, and its text.
_PER_CELL = 16
#: Arrow's threads may outlive a read, and then abort a process that ends; its `read` needs
#: `use_threads=False`, too.
_ALONE = {"pre_buffer": False}
#: Arrow's messages that quote nothing of the file.
_WRONG_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_REASONS = ("Empty CSV file", "straddling object")


def csv_table(
    file: Path,
    *,
    text: Sequence[str] = (),
    as_written: Sequence[str] = (),
    encoding: str | None = None,
) -> "pyarrow.Table":
    """Return a `pyarrow.Table` of a `.csv` or `.xlsx`; columns `as_written` have no missing values.

    `true` and `false` stay text: two categories, written as the file has them.
    """
    from pyarrow import ArrowInvalid, compute, csv, float64, lib, types

    with open_regular(file) as opened:
        workbook = file.suffix.lower() == ".xlsx"
        content = _saved_as_csv(opened, file) if workbook else opened.read()
    content = _utf8(content, encoding, file)
    header = re.split(rb"[\r\n]", content, maxsplit=1)[0]
    delimiter = delimiter_of(header.decode())
    check_width(file, header.count(delimiter.encode()) + 1)
    try:
        table = csv.read_csv(
            io.BytesIO(content),
            # On one thread, which alone numbers the lines.
            csv.ReadOptions(use_threads=False, block_size=min(len(content) + 1, _LARGEST_BLOCK)),
            csv.ParseOptions(delimiter=delimiter),
            csv.ConvertOptions(
                column_types={name: lib.string() for name in (*text, *as_written)},
                null_values=MISSING,
                true_values=[],
                false_values=[],
            ),
        )
    except (lib.ArrowException, OSError, MemoryError) as error:
        # Not chained: Arrow's message quotes the line.
        raise DataFileError(_explained(file, len(content), error)) from None
    names = table.column_names
    _refuse_row_as_header(table, file, secret=as_written)
    refuse_twice(names, file, shown=bool({*text, *as_written} & {*names}))
    for place, name in enumerate(names):
        column = table.column(place)
        if types.is_string(column.type) and name not in as_written:
            plain = compute.utf8_trim_whitespace(column)
            # Text may be `-`: where it is a feature, that is found later.
            words = MISSING_WORDS if name in text else MISSING
            missing = compute.is_in(plain, value_set=lib.array(words))
            column = compute.if_else(missing, None, column)
            if name not in text:
                try:  # Arrow takes numbers beside blanks for text
                    column = compute.cast(compute.if_else(missing, None, plain), float64())
                except ArrowInvalid:
                    pass
            table = table.set_column(place, name, column)
    return table


def delimiter_of(header: str) -> str:
    """Return which of comma, semicolon and tab is most frequent in a line, outside of quotes."""
    return max(",;\t", key=re.sub('"[^"]*"', "", header).count)


def check_width(file: Path, columns: int) -> None:
    """Refuse a table of too many columns, each of which is read and checked by itself."""
    if columns > MOST_COLUMNS:
        raise DataFileError(
            f"{file} has {columns:,} columns, and a table may have {MOST_COLUMNS:,}; keep fewer, "
            "or save the numbers as an .npy"
        )


def refuse_twice(names: Sequence[str], file: Path | str, *, shown: bool = True) -> None:
    """Refuse two columns of one name; `shown` unless the names may be a row with a label."""
    first: dict[str, int] = {}
    for place, name in enumerate(names):
        if first.setdefault(name, place) != place:
            which = f" ({name!r})" if shown else ""
            raise DataFileError(
                f"{file} has two columns of one name{which}: columns {first[name] + 1} and "
                f"{place + 1}; give each column its own name"
            )


def _refuse_row_as_header(table: "pyarrow.Table", file: Path, *, secret: Sequence[str]) -> None:
    """Refuse a file whose first line is a row, as far as columns without `secret` names show.

    Then each column of numbers or dates is named by one, and columns of text by values of their
    own. Numbers that rise or fall alone may be names: years, or wavelengths.
    """
    from pyarrow import compute, types

    numbers = list[float]()
    found = list[bool]()
    for place, name in enumerate(table.column_names):
        if name in secret:
            continue
        if types.is_string(table.column(place).type):
            found.append(compute.index(table.column(place), name).as_py() >= 0)
        elif not (forms := forms_in([name])):
            return
        else:
            known = number_in(name)
            date = 0.0 if known else float(values_in([name], forms[0]).astype(np.int64)[0])
            numbers.append(known[0] if known else date)
    steps = np.sign(np.diff(numbers))
    named = (steps > 0).all() or (len(steps) > 1 and (steps < 0).all())
    if (any(found) or not named) if numbers else (found and all(found)):
        raise DataFileError(
            f"{file} seems to have no header: its first line is a row like the others; write a "
            "first line with the names of all columns"
        )


def _utf8(content: bytes, encoding: str | None, file: Path) -> bytes:
    marked = content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    name = encoding or ("utf-16" if marked else "utf-8")
    try:
        text = content.decode(name)
    except (LookupError, UnicodeError):
        text = "\0"
    if "\0" in text:
        likely = "utf-16-le" if b"\0" in content else "cp1252 (Latin-1, of Windows and Excel)"
        raise DataFileError(
            f"{file} is not {name} text; save it as UTF-8, or where there is data.encoding or "
            f"--encoding, name what it probably is: {likely}"
        )
    return content if name == "utf-8" else text.encode()


def _saved_as_csv(opened: BinaryIO, file: Path) -> bytes:
    """The first sheet of a workbook as a `.csv`, so that both are read alike."""
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise DataFileError(
            f"{file} is a workbook, and openpyxl is not installed: pip install openpyxl, "
            "or save the sheet as .csv"
        ) from None
    rows = list[Sequence[Any]]()
    width = 0
    with readable(file, ".xlsx", fix="save the sheet as .csv"):
        with zipfile.ZipFile(opened) as archive:
            check_archive(file, archive)
        sheet = load_workbook(opened, read_only=True, data_only=True).worksheets[0]
        sheet.reset_dimensions()  # those that it states may be of an earlier version
        for row in sheet.iter_rows(values_only=True):
            if set(row) - {None}:
                rows.append(row)
                check_width(file, width := max(width, len(row)))
                check_unpacked(file, len(rows) * width * _PER_CELL)
    text = io.StringIO()
    for row in rows:
        cells = ["" if cell is None else str(cell).replace("\n", " ") for cell in row]
        writer(text).writerow([*cells, *[""] * (width - len(cells))])
    return text.getvalue().encode()


def _explained(file: Path, size: int, error: Exception) -> str:
    said = str(error)
    if (found := _WRONG_WIDTH.search(said)) is not None:
        line, expected, actual = found.groups()
        return (
            f"{file} line {line} has {actual} fields, but the first line names {expected} "
            "columns; quote what holds the delimiter, or correct the line"
        )
    known = [reason for reason in _REASONS if reason in said]
    return (
        f"{file} ({size:,} bytes) can't be read as CSV ({(known or [type(error).__name__])[0]}); "
        "write it as UTF-8 text with a first line of names"
    )


def parquet_table(
    file: Path, *, columns: Sequence[str] | None = None, rows: range | None = None
) -> "pyarrow.Table":
    """Return a `pyarrow.Table`, unless the file's own table of contents exceeds the memory.

    With `columns` it has those of them that the file has, and with `rows` those of them: only the
    groups of rows that hold them are read. An index of pandas is a column if it has a name.
    """
    with _opened_parquet(file) as opened:
        footer = opened.metadata
        names = opened.schema_arrow.names
        refuse_twice(names, file)
        own = [name for name in names if not _UNNAMED_INDEX.fullmatch(name)]
        kept = [name for name in own if columns is None or name in columns]
        wanted = range(footer.num_rows) if rows is None else rows
        groups = [footer.row_group(place) for place in range(footer.num_row_groups)]
        ends = np.cumsum([0, *(group.num_rows for group in groups)])
        places = np.flatnonzero((ends[:-1] < wanted.stop) & (ends[1:] > wanted.start)).tolist()
        # A number takes 8 bytes when it is read, however few it takes in the file.
        widths = (opened.schema.column(place).length for place in range(footer.num_columns))
        count = sum(groups[place].num_rows for place in places)
        unpacked = sum(groups[place].total_byte_size for place in places)
        check_unpacked(file, max(count * sum(max(8, width) for width in widths), unpacked))
        table = opened.read_row_groups(places, kept, use_threads=False)
        start = ends[places[0]] if places else wanted.start
        table = _texts(table.slice(wanted.start - start, len(wanted)), file)
        return table.replace_schema_metadata(None)  # by which pandas would hide a named index


def parquet_count(file: Path) -> int:
    """Return the number of rows of a Parquet file."""
    with _opened_parquet(file) as opened:
        return int(opened.metadata.num_rows)


#: As pandas stores it.
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
#: Arrow's places in a text are of 32 bits.
_MOST_TEXT = 2**31 - 1


@contextmanager
def _opened_parquet(file: Path) -> Iterator[Any]:
    from pyarrow import parquet

    how = readable(file, "Parquet", fix="write it again")
    with how, open_regular(file, most_bytes=ANY_SIZE) as opened:
        stated = parquet.ParquetFile(opened, **_ALONE).schema
        check_width(file, len(stated))
        columns = (stated.column(place) for place in range(len(stated)))
        # A text of a megabyte in all rows takes a megabyte in the file, and so it does here.
        texts = [
            column.path
            for column in columns
            if column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"
        ]
        yield parquet.ParquetFile(opened, **_ALONE, read_dictionary=texts)


def _texts(table: "pyarrow.Table", file: Path) -> "pyarrow.Table":
    """Return a table without dictionaries, if its texts fit into memory."""
    from pyarrow import compute, types

    size = 0
    for place, held in enumerate(table.schema):
        if not types.is_dictionary(held.type):
            continue
        column = table.column(place)
        if not types.is_primitive(held.type.value_type):
            for chunk in column.chunks:
                lengths = compute.binary_length(chunk.dictionary).take(chunk.indices)
                size += (own := compute.sum(lengths).as_py() or 0)
                if own > _MOST_TEXT:
                    raise DataFileError(
                        f"{file}, column {held.name!r}, holds {own:,} bytes of text when unpacked, "
                        f"and a column may hold {_MOST_TEXT:,}; shorten its texts, or leave it out"
                    )
            check_unpacked(f"{file}, column {held.name!r},", size)
        table = table.set_column(place, held.name, column.cast(held.type.value_type))
    return table


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


def database_file(address: str) -> Path | None:
    """Return the file that an address names; None for a server, or DuckDB in memory."""
    kind, _, place = address.partition(":")
    file = place.removeprefix("///").partition("?")[0]
    return Path(file) if file and kind.partition("+")[0] in ("duckdb", "sqlite") else None


class QueriedLabels:
    """The rows of a query, in DuckDB."""

    def __init__(self, connection: Any, query: str) -> None:
        self._connection = connection
        self._plain = query
        # A comment at its end must not take the bracket.
        self._query = f"({query}\n) AS labels"

    def check(self, *columns: str) -> None:
        """Refuse columns that the query does not give, and two of one name."""
        known = self._names()
        # Some databases take `bought` for `BOUGHT`.
        refuse_twice([name.casefold() for name in known], "the query")
        if lacking := [name for name in columns if name not in known]:
            raise DataFileError(
                f"the query gives no column {lacking[0]!r}, but {', '.join(map(str, known))}; name "
                "the column as the query does, or rename it there with AS"
            )

    def table(self, *columns: str) -> "pd.DataFrame":
        """Return columns of the query, read in batches."""
        self.check(*columns)
        names = ", ".join(self._quoted(name) for name in dict.fromkeys(columns))
        return self._rows(f"SELECT {names} FROM {self._query}")

    def counts(
        self,
        ids: "pd.Series[Any]",
        parts: NDArray[np.integer],
        *,
        id_column: str,
        label_column: str,
    ) -> "pd.DataFrame":
        """Return how many rows have each label in each part: `part`, `label` and `count`.

        The database counts them. `ids` are as `table` returned them [N], each in one of the `parts`
        [N].
        """
        own = self._quoted(id_column)
        self._lend(own, ids.reset_index(drop=True).to_frame("id").assign(part=parts))
        return self._rows(
            f"SELECT lent.part AS part, labels.{self._quoted(label_column)} AS label, "
            f"COUNT(*) AS count FROM {self._query} "
            f"JOIN labeldp_request AS lent ON labels.{own} = lent.id GROUP BY 1, 2"
        )

    def _names(self) -> list[str]:
        """Return the names of the query's columns as it has them."""
        self._read(f"SELECT * FROM {self._query} WHERE 1 = 0")  # no query that writes stands there
        return list(self._connection.sql(self._plain).columns)  # which would rename the second one

    def _quoted(self, name: str) -> str:
        doubled = name.replace('"', '""')
        return f'"{doubled}"'

    def _rows(self, query: str) -> "pd.DataFrame":
        """Read labels: an error of any kind, Arrow's as well, may quote one from here on."""
        try:
            return self._read(query)
        except Exception as error:
            cause = getattr(error, "orig", None) or error
            raise DataFileError(
                f"the database refuses to give rows ({type(cause).__name__}: its words may quote a "
                "value); nothing was released. Check the query"
            ) from None

    def _read(self, query: str) -> "pd.DataFrame":
        rows = self._connection.sql(query).to_arrow_reader(_BATCH).read_all()
        found: pd.DataFrame = rows.to_pandas(integer_object_nulls=True)  # names stay exact
        return found

    def _lend(self, own: str, rows: "pd.DataFrame") -> None:
        """Make the rows a temporary table, whose ids have the type of the query's column `own`."""
        self._connection.register("labeldp_request", rows)


class _BySqlAlchemy(QueriedLabels):
    def _names(self) -> list[str]:
        names = self._read(f"SELECT * FROM {self._query} WHERE 1 = 0")
        return [str(name).removesuffix(":1") for name in names]  # of SQLite, the second one's

    def _quoted(self, name: str) -> str:
        return str(self._connection.dialect.identifier_preparer.quote_identifier(name))

    def _read(self, query: str) -> "pd.DataFrame":
        import pandas as pd

        result = self._connection.exec_driver_sql(query)
        names = list(result.keys())
        parts = [pd.DataFrame(columns=names)]
        for some in result.partitions(_BATCH):
            parts.append(pd.DataFrame(map(tuple, some), columns=names, dtype=object))
        return pd.concat(parts, ignore_index=True)

    def _lend(self, own: str, rows: "pd.DataFrame") -> None:
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
def opened_query(address: str, query: str) -> Iterator[QueriedLabels]:
    """Open the rows of a query, one SELECT, for reading.

    `address` is `duckdb:FILE`, or one of SQLAlchemy without a password: that is in the environment
    (`LABELDP_DATABASE_PASSWORD`), in the file that `LABELDP_DATABASE_PASSWORD_FILE` names, or where
    the database's own library looks for it.

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
    file = database_file(address)
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

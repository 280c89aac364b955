"""Tables of text: `.csv` files in any encoding, and workbooks, which are read as if saved as one.

pyarrow reads them and finds types over the whole file. No message of Arrow's is passed on, for it
quotes what it can't convert, and no name of a column before it is sure that the first line is no
row: a label would be in it.
"""

import codecs
import io
import re
import zipfile
from collections.abc import Sequence
from csv import writer
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from labeldp.trainers.data.files import (
    DataFileError,
    FileRefused,
    check_archive,
    check_unpacked,
    first_line,
    open_regular,
)
from labeldp.trainers.data.written import MISSING, MISSING_WORDS, forms_in, number_in

if TYPE_CHECKING:
    import pyarrow

#: Types are found within a block; Arrow takes no larger ones.
_LARGEST_BLOCK = 1 << 30
MOST_COLUMNS = 20_000
#: Bytes of a workbook's cell in memory: its place in a row, and its text.
_PER_CELL = 16
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
    header = content.partition(b"\n")[0]
    delimiter = max(",;\t", key=lambda mark: header.count(mark.encode()))
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


def check_width(file: Path, columns: int) -> None:
    """Refuse a table of too many columns, each of which is read and checked by itself."""
    if columns > MOST_COLUMNS:
        raise DataFileError(
            f"{file} has {columns:,} columns, and a table may have {MOST_COLUMNS:,}; keep fewer, "
            "or save the numbers as an .npy"
        )


def refuse_twice(names: Sequence[str], file: Path, *, shown: bool = True) -> None:
    """Refuse two columns of one name; `shown` unless the names may be a row with a label."""
    for place, name in enumerate(names):
        if name in names[:place]:
            which = f" ({name!r})" if shown else ""
            raise DataFileError(
                f"{file} has two columns of one name{which}: columns {names.index(name) + 1} and "
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
        elif not forms_in([name]):
            return
        else:
            numbers.append((number_in(name) or (0.0, ""))[0])
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
            f"{file} is not {name} text; name its encoding (data.encoding, or --encoding of "
            f"`labeldp data check`), probably {likely}, or save it as UTF-8"
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
    try:
        with zipfile.ZipFile(opened) as archive:
            check_archive(file, archive)
        sheet = load_workbook(opened, read_only=True, data_only=True).worksheets[0]
        sheet.reset_dimensions()  # those that it states may be of an earlier version
        rows = list[Sequence[Any]]()
        width = 0
        for row in sheet.iter_rows(values_only=True):
            if set(row) - {None}:
                rows.append(row)
                check_width(file, width := max(width, len(row)))
                check_unpacked(file, len(rows) * width * _PER_CELL)
    except FileRefused:
        raise
    except Exception as error:  # openpyxl raises many kinds on damaged files
        raise DataFileError(f"{file} can't be read as .xlsx ({first_line(error)})") from error
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

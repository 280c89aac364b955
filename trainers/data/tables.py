"""Tables of text: `.csv` files in any encoding, and workbooks, which are read as if saved as one.

pyarrow reads them and finds types over the whole file. No message of Arrow's is passed on, for it
quotes what it can't convert, and no name of a column before it is sure that the first line is no
row: a label would be in it.
"""

import codecs
import io
import itertools
import math
import re
import zipfile
from collections.abc import Sequence
from csv import writer
from pathlib import Path
from typing import Any

from labeldp.trainers.data.files import (
    DataFileError,
    FileRefused,
    check_unpacked,
    first_line,
    open_regular,
)
from labeldp.trainers.data.written import MISSING, MISSING_WORDS, forms_in, number_in

#: Types are found within a block; Arrow takes no larger ones.
_LARGEST_BLOCK = 1 << 30
#: A first line that is longer is not taken for names of columns.
_LONGEST_HEADER = 1 << 20
_BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: Arrow's messages that quote nothing of the file.
_WRONG_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_REASONS = ("Empty CSV file", "straddling object")


def csv_table(
    file: Path,
    *,
    text: Sequence[str] = (),
    as_written: Sequence[str] = (),
    encoding: str | None = None,
) -> Any:
    """Return a `pyarrow.Table` of a `.csv` or `.xlsx`; columns `as_written` have no missing values.

    `true` and `false` stay text: two categories, written as the file has them.
    """
    from pyarrow import ArrowInvalid, compute, csv, float64, lib, types

    with open_regular(file) as opened:
        source: Any = opened
        if file.suffix.lower() == ".xlsx":
            source = _saved_as_csv(opened, file)
        elif encoding or opened.read(2) in _BYTE_ORDER_MARKS:
            opened.seek(0)
            source = _as_utf8(opened.read(), encoding or "utf-16", file)
        size = source.seek(0, 2)
        source.seek(0)
        header = source.readline(_LONGEST_HEADER)
        source.seek(0)
        if b"\0" in header or not _is_utf8(header):
            raise _not_utf8(file)
        delimiter = max(",;\t", key=lambda mark: header.count(mark.encode()))
        try:
            table = csv.read_csv(
                source,
                # On one thread, which alone numbers the lines.
                csv.ReadOptions(use_threads=False, block_size=min(size + 1, _LARGEST_BLOCK)),
                csv.ParseOptions(delimiter=delimiter),
                csv.ConvertOptions(
                    column_types={name: lib.string() for name in (*text, *as_written)},
                    null_values=MISSING,
                    true_values=[],
                    false_values=[],
                ),
            )
        except (lib.ArrowException, OSError, MemoryError, UnicodeError) as error:
            if "invalid UTF8" in str(error):
                raise _not_utf8(file) from None
            # Not chained: Arrow's message quotes the line.
            raise DataFileError(_explained(file, size, error)) from None
    if any(types.is_binary(kind) for kind in table.schema.types):
        raise _not_utf8(file)
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
                try:  # blanks for missing numbers keep Arrow from seeing that they are numbers
                    column = compute.cast(compute.if_else(missing, None, plain), float64())
                except ArrowInvalid:
                    pass
            table = table.set_column(place, name, column)
    return table


def refuse_twice(names: Sequence[str], file: Path, *, shown: bool = True) -> None:
    """Refuse two columns of one name; `shown` unless the names may be a row with a label."""
    for place, name in enumerate(names):
        if name in names[:place]:
            which = f" ({name!r})" if shown else ""
            raise DataFileError(
                f"{file} has two columns of one name{which}: columns {names.index(name) + 1} and "
                f"{place + 1}; give each column its own name"
            )


def _refuse_row_as_header(table: Any, file: Path, *, secret: Sequence[str]) -> None:
    """Refuse a file whose first line is a row, as far as columns without `secret` names show.

    Then each column of numbers or dates is named by one, and columns of text by values of their
    own. Numbers that rise or fall alone may be names: years, or wavelengths.
    """
    from pyarrow import compute, types

    numbers, found = [], []
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if name in secret:
            continue
        if types.is_string(column.type):
            found.append(compute.index(column, name).as_py() >= 0)
        elif not forms_in([name]):
            return
        else:
            number = number_in(name)
            numbers.append(math.nan if number is None else number[0])
    rises = [later > former for former, later in itertools.pairwise(numbers)]
    falls = [later < former for former, later in itertools.pairwise(numbers)]
    named = all(rises) or (len(falls) > 1 and all(falls))
    if (any(found) or not named) if numbers else (found and all(found)):
        raise DataFileError(
            f"{file} seems to have no header: its first line is a row like the others; write a "
            "first line with the names of all columns"
        )


def _is_utf8(line: bytes) -> bool:
    try:
        # A long line may be cut off within a letter.
        codecs.getincrementaldecoder("utf-8")().decode(line)
    except UnicodeDecodeError:
        return False
    return True


def _not_utf8(file: Path) -> DataFileError:
    return DataFileError(
        f"{file} is not UTF-8 text; name its encoding (data.encoding, --encoding): mostly cp1252 "
        "(Latin-1) of Windows and Excel, or utf-16-le; or save it as UTF-8"
    )


def _as_utf8(content: bytes, encoding: str, file: Path) -> io.BytesIO:
    try:
        return io.BytesIO(content.decode(encoding).removeprefix("\ufeff").encode())
    except (LookupError, UnicodeError):
        raise DataFileError(
            f"{file} can't be read as {encoding}; check data.encoding (--encoding), an encoding as "
            "Python names it: utf-8, cp1252, utf-16"
        ) from None


def _saved_as_csv(opened: Any, file: Path) -> io.BytesIO:
    """The first sheet of a workbook as a `.csv`, so that both are read alike."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise DataFileError(
            f"{file} is a workbook, and openpyxl is not installed: pip install 'labeldp[excel]' "
            "(or openpyxl), or save the sheet as .csv"
        ) from None
    text = io.StringIO()
    try:
        with zipfile.ZipFile(opened) as archive:
            check_unpacked(file, sum(member.file_size for member in archive.infolist()))
        sheet = openpyxl.load_workbook(opened, read_only=True, data_only=True).worksheets[0]
        rows = [
            row
            for row in sheet.iter_rows(values_only=True)
            if any(each is not None for each in row)
        ]
        width = max(map(len, rows), default=0)
        for row in rows:
            cells = ["" if cell is None else str(cell).replace("\n", " ") for cell in row]
            writer(text).writerow([*cells, *[""] * (width - len(cells))])
    except FileRefused:
        raise
    except Exception as error:  # openpyxl raises many kinds on damaged files
        raise DataFileError(f"{file} can't be read as .xlsx ({first_line(error)})") from error
    return io.BytesIO(text.getvalue().encode())


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

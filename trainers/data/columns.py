"""Columns of a table: their types, and numbers, dates and names of classes as people write them.

A column of features is public: it is read where all of its values agree on one form, which the
model keeps. A label is secret: it is read by itself, whatever the others are.

>>> form_of(["$1,234.50", "(7)", "19"])
'1,234.5 $'
>>> form_of(["31/12/2026 8:30", "01/02/2027 23:59"])
'%d/%m/%Y %H:%M'
>>> form_of(["01/02/2026", "03/04/2026"])  # is the day or the month first?
''
>>> [class_name(label) for label in (1, 1.0, "1.0 ", True, "TRUE", "no")]
['1', '1', '1', 'true', 'true', 'no']
"""

import difflib
import math
import numbers
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms._validate import as_numpy
from labeldp.mechanisms.persons import normal_name
from labeldp.trainers.data.files import FileRefused, check_unpacked

#: Texts that pandas takes for a missing value, and with signs that people write for one.
MISSING_WORDS = (
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "None",
    "n/a",
    "nan",
    "null",
)
MISSING = (*MISSING_WORDS, "?", "-")
#: A longer text is no number and no date.
_LONGEST = 40
#: So many different texts show the forms that a column may have, of numbers and of dates.
_NUMBERS_TRIED = 100
_DATES_TRIED = 10
_UNIT = (
    r"%|[A-Z]{0,2}[$£¥¢\u20a0-\u20cf]|USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|AUD|CAD|NZD"
)
_BETWEEN = r"'\u2019\s"
_NUMBER = {
    mark: re.compile(
        rf"[-\u2212+(]?\s?(?P<before>{_UNIT})?\s?[-\u2212+(]?(?P<digits>(?=\{mark}?\d)"
        rf"(?:[1-9]\d{{0,2}}(?:[{other}{_BETWEEN}]\d{{2,3}})*[{other}{_BETWEEN}]\d{{3}}|\d*)"
        rf"(?:\{mark}\d*)?(?:[eE][-+]?\d+)?)\s?(?P<after>{_UNIT})?\)?"
    )
    for mark, other in (".,", ",.")
}
_DATES = (
    "%Y-%m-%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%d %B %Y",
)
_TIMES = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
#: As pandas calls it, with and without times and zones.
ISO = "ISO8601"
_DATE_FORMS = (
    *(f"{date} {time}".strip() for date in _DATES for time in ("", *_TIMES)),
    ISO,
    "%Y-%m-%d %H:%M:%S UTC",
    "%Hh%M",
    *_TIMES,
)
#: Scores of games (2:1) are no times of day.
_DATE_LIKE = re.compile(r"(?!.*[:h]\d(?!\d)).*\d.*")


def number_in(text: str, *, mark: str = ".") -> tuple[float, str] | None:
    """Return a number and its unit, "" without one; None if the text is no such number.

    Signs of currencies and % are units, which change nothing: 97% is 97. Numbers in brackets are
    negative. `mark` stands before decimals; the other one of point and comma, blanks and
    apostrophes may stand between thousands.
    """
    text = text.strip()
    found = _NUMBER[mark].fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or text.count("(") != text.count(")") or (found["before"] and found["after"]):
        return None
    plain = re.sub(rf"[{'.,'.replace(mark, '')}{_BETWEEN}]", "", found["digits"])
    size = float(plain.replace(mark, "."))
    negative = any(sign in text[: found.start("digits")] for sign in "-\u2212(")
    return -size if negative else size, found["before"] or found["after"] or ""


def forms_in(texts: Iterable[str]) -> list[str]:
    """Return forms of the first texts: `1,234.5 $` or `1.234,5`, and formats of `strptime`."""
    found = set()
    for place, text in enumerate(islice(dict.fromkeys(texts), _NUMBERS_TRIED)):
        for mark, form in ((".", "1,234.5"), (",", "1.234,5")):
            if (number := number_in(text, mark=mark)) is not None:
                found.add(f"{form} {number[1]}".rstrip())
        if place < _DATES_TRIED and len(text) <= _LONGEST and _DATE_LIKE.fullmatch(text):
            found |= {form for form in _DATE_FORMS if _is_date(text.strip(), form)}
    return sorted(found, key=lambda form: (form != ISO, form))


def of_dates(form: str) -> bool:
    """Whether it is a form of dates, and not of numbers."""
    return not form.startswith("1")


def _is_date(text: str, form: str) -> bool:
    try:
        _ = datetime.fromisoformat(text) if form == ISO else datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def form_of(texts: Sequence[str]) -> str:
    """Return the form of all texts; "" if they have none, or several with other values.

    Whole numbers as text are names (postcodes), unless others in the column show more.
    """
    distinct = list(dict.fromkeys(texts))
    if all(text.isdigit() for text in distinct):
        return ""
    read = {form: values_in(distinct, form) for form in forms_in(distinct)}
    fits = [form for form, values in read.items() if not (values != values).any()]
    dates = [read[form] for form in fits if of_dates(form)]
    agree = all((values == dates[0]).all() for values in dates)
    return fits[0] if fits and agree else ""


def values_in(texts: Sequence[str | None], form: str) -> NDArray[Any]:
    """Return texts as numbers, or as `datetime64` [N]; NaN or NaT for one of another form."""
    if of_dates(form):
        import pandas as pd

        plain = pd.Series([text and text.strip() for text in texts], dtype=object)
        dates = pd.to_datetime(plain, format=form, errors="coerce", utc=True)
        return np.asarray(dates.dt.tz_localize(None).to_numpy())
    # An amount may lack its sign, but .97 and 97% in one column are not what they seem.
    units = ("%",) if form.endswith("%") else ("", form[8:])
    known: dict[str | None, float] = {None: math.nan}
    for text in {*texts} - {None}:
        found = number_in(str(text), mark=form[5])
        known[text] = math.nan if found is None or found[1] not in units else found[0]
    return np.array([known[text] for text in texts], dtype=np.float64)


def example(form: str) -> str:
    """Return a value in this form."""
    day = datetime(2026, 12, 31)
    return day.strftime(form.replace(ISO, "%Y-%m-%d")) if of_dates(form) else form


def in_words(form: str) -> str:
    """Return what a column of this form holds."""
    kind = "dates" if of_dates(form) else "numbers"
    return kind if form == "1,234.5" else f"{kind} as {example(form)}"


def class_name(value: object) -> str:
    """Return the name of a label or a class: the same for one value in every kind of file."""
    text = normal_name(value)
    return text.lower() if text.lower() in ("true", "false") else text


def class_places(labels: Iterable[Any], classes: Iterable[Any]) -> NDArray[np.int64]:
    """Return the place of each label among the classes by name [N], -1 for none."""
    known = {class_name(name): place for place, name in enumerate(classes)}

    def place(label: object) -> int:
        found = known.get(str(label))  # nearly always, and in a tenth of the time
        return known.get(class_name(label), -1) if found is None else found

    return np.fromiter(map(place, labels), np.int64)


#: A column of more categories names single rows, and its one-hot encoding is a lookup table.
MOST_CATEGORIES = 1000
#: The longest string.
MOST_CHARACTERS = 1_000_000
#: A column of text with so many values holds sentences if more than this share of them differ and
#: have so many words on average.
_FEWEST_SENTENCES = 20
_DIFFERENT = 0.5
_FEWEST_WORDS = 3
_CHUNK_ROWS = 65_536
#: Kinds of NumPy's types that are numbers: truth values, whole and real ones.
_NUMBERS = "biuf"
_AS_IN_TRAINING = "turn it into numbers or text first, as for the training rows"
_DAY = np.timedelta64(1, "D")

#: Words for identifiers, at an end of a column's name.
_ID_WORDS = frozenset({"id", "ids", "uuid", "guid", "identifier", "rowid", "ssn"})


class RowsRefused(ValueError):
    """Rows of another kind than the training rows; the message names the difference."""


class ColumnsIgnored(UserWarning):
    """Columns that have no part in the features; the message names them."""


class TextColumns(StrEnum):
    """What becomes of columns of sentences: features of their words, nothing, or categories."""

    TFIDF = "tfidf"
    DROP = "drop"
    CATEGORY = "category"


# ------------------------------------------------------------------------------ types of columns


def column_values(name: str, column: Any) -> NDArray[Any]:
    """Return a column [N]: numbers, truth values, `datetime64`, or strings as objects.

    A missing value is NaN, NaT or None. Decimals become numbers.
    """
    if isinstance(column, list | tuple) and any(isinstance(each, str) for each in column):
        column = np.array(column, dtype=object)  # as a DataFrame has it, blanks and all
    if hasattr(column, "combine_chunks"):  # Arrow's
        column = column.to_pandas(date_as_object=False)
    array = array_of(column)
    if array.ndim != 1:
        raise RowsRefused(f"column {name!r} has shape {array.shape}; it must be one value per row")
    match array.dtype.kind:
        case "b" | "i" | "u" | "f" | "M":
            return array
        case "U":
            return array.astype(object)
        case "O":
            return _of_objects(name, array)
    raise RowsRefused(f"column {name!r} holds {array.dtype}; {_AS_IN_TRAINING}")


def learned_values(name: str, column: object) -> tuple[NDArray[Any], str]:
    """Return a column of training rows, and the form in which its text is read; "" for none.

    As `column_values`, and text that is all numbers or dates of one form as these.
    """
    values = column_values(name, column)
    text = values.dtype.kind == "O"
    form = form_of([each for each in values if each is not None]) if text else ""
    return (values_in(values.tolist(), form), form) if form else (values, "")


def is_missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values of a column (see `column_values`) are missing [N]."""
    if column.dtype.kind == "O":
        return np.array([value is None for value in column], dtype=bool)
    missing: NDArray[np.bool_] = column != column  # as NaN and NaT
    return missing


def _of_objects(name: str, array: NDArray[Any]) -> NDArray[Any]:
    import pandas as pd

    missing = pd.isna(array)
    present = array[~missing]
    kind = pd.api.types.infer_dtype(present, skipna=False)
    if kind == "string":
        longest = int(np.argmax([*map(len, present)]))
        if len(present[longest]) > MOST_CHARACTERS:
            raise FileRefused(
                f"row {np.flatnonzero(~missing)[longest]}, column {name!r} has "
                f"{len(present[longest]):,} characters; strings have {MOST_CHARACTERS:,} "
                f"characters at most: leave the column out (data.drop={name}), or shorten it"
            )
        if words := {text for text in set(present) if text.strip() in MISSING}:
            missing |= np.array([text in words for text in array.tolist()])
        return _with_none(array, missing)
    if kind == "boolean":
        if not missing.any():
            return array.astype(bool)
        return _with_none(np.where(missing, False, array).astype(bool).astype(str), missing)
    if kind in ("date", "datetime", "datetime64"):
        dates = pd.to_datetime(pd.Series(array, dtype=object), utc=True)
        return np.asarray(dates.dt.tz_localize(None).to_numpy())
    if kind == "time":
        present = np.array([at.hour + at.minute / 60 + at.second / 3600 for at in present])
    elif kind not in ("decimal", "empty"):
        for row, value in zip(np.flatnonzero(~missing), present, strict=True):
            if not isinstance(value, numbers.Real):
                raise RowsRefused(
                    f"row {row}, column {name!r} holds a {type(value).__name__}, which does not go "
                    f"with the others or is no number; {_AS_IN_TRAINING}, or leave the column out"
                )
    values = np.full(len(array), np.nan)
    values[~missing] = present
    return values


def _with_none(array: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Text as objects, None where it is missing."""
    text = array.astype(object)
    text[missing] = None
    return text


def days_of(dates: NDArray[Any]) -> NDArray[np.float64]:
    """Return dates as days since 1970, with fractions; NaT as NaN [N]."""
    return np.asarray((dates.astype("datetime64[us]") - np.datetime64(0, "us")) / _DAY)


def identifier(name: str, column: NDArray[Any]) -> str | None:
    """Return why a column seems to name single rows rather than describe them, or None."""
    column, _ = learned_values(name, column)
    missing = is_missing(column)
    present = column[~missing]
    if not len(present):
        return "it has no value in any training row"
    text = column.dtype.kind == "O"
    if len(present) < 5 or column.dtype.kind not in "iufO":
        return None
    if column.dtype.kind == "f" and not np.equal(np.floor(present), present).all():
        return None
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower())
    ends = {words[0], words[-1]} if words else set()
    distinct = len(set(present)) if text else np.unique(present).size
    share = distinct / len(present)
    said = f"it has {distinct:,} different values in {len(present):,} rows"
    if ends & _ID_WORDS and share > 0.5:
        return f"{said}, and its name looks like an identifier"
    if share <= (0.9 if text else 0.95):
        return None
    if text and len(present) >= 20:
        seems, places = slips(present)
        if not len(places):
            return f"{said}, {seems or 'all text'}"
    # In a table of some length, whole numbers without gaps number the rows.
    long = not text and len(present) >= 100
    if long and float(present.max()) - float(present.min()) < 2 * len(present):
        return f"{said}, without gaps, like row numbers"
    return None


#: Why columns of sentences are left out.
DROPPED = "sentences (data.text=drop)"


def why_left_out(name: str, column: NDArray[Any], *, text: TextColumns) -> str:
    """Return the reason to leave a column of training rows out; an empty text to keep it.

    The column is as `learned_values` returns it.
    """
    if text is not TextColumns.CATEGORY and is_sentences(column):
        return DROPPED if text is TextColumns.DROP else ""
    why = identifier(name, column)
    return "" if why is None else f"looks like an identifier: {why}"


def is_sentences(column: NDArray[Any]) -> bool:
    """Whether a column of training rows (see `learned_values`) holds sentences.

    Text does that mostly differs, has three words or more on average, and is neither numbers nor
    dates with some errors.
    """
    if column.dtype.kind != "O":
        return False
    present = column[~is_missing(column)].tolist()
    if len(present) < _FEWEST_SENTENCES or len(set(present)) <= _DIFFERENT * len(present):
        return False
    words = sum(len(text.split()) for text in present)
    return words >= _FEWEST_WORDS * len(present) and not slips(column)[0]


def slips(column: NDArray[Any]) -> tuple[str, NDArray[np.intp]]:
    """Return what text seems to be though it can't be read so, and the rows in the way.

    Nothing ("") for other text; no rows where no form is that of nine rows in ten.
    """
    present = np.flatnonzero(~is_missing(column)) if column.dtype.kind == "O" else np.arange(0)
    texts = column[present].tolist()
    read = {form: values_in(texts, form) for form in forms_in(texts)}
    fits = {form: values == values for form, values in read.items()}
    if not fits or np.logical_or.reduce([*fits.values()]).mean() < 0.9:
        return "", present[:0]
    form, *others = sorted(fits, key=lambda each: -fits[each].sum())
    share = fits[form].mean()
    if share < 0.9:
        several = " and ".join(map(in_words, [form, *others[:1]]))
        said = f"values of several forms, {several}: write all in one"
        return said, present[:0]
    if share == 1:
        said = "dates, and whether the day or the month is first is not clear: write 2026-12-31"
        return said if of_dates(form) else "", present[:0]
    return in_words(form), present[~fits[form]]


def is_number(text: Any) -> bool:
    """Whether `float` reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------------------------- rows


def by_name(rows: object) -> dict[str, Any] | None:
    """Return the columns of rows that have names; None for rows that have none."""
    if isinstance(rows, Mapping):
        return {str(name): column for name, column in rows.items()}
    if not hasattr(rows, "columns") or not hasattr(rows, "iloc"):
        return None
    names = [str(name) for name in rows.columns]
    if len(set(names)) < len(names):
        raise RowsRefused(f"rows have two columns of one name: {_listed(names)}")
    return {name: rows.iloc[:, place] for place, name in enumerate(names)}


def named_columns(rows: object, *, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return columns of rows in the order of `names`; others are ignored with a warning."""
    found = by_name(rows)
    if found is None:
        raise RowsRefused(
            f"rows are a {type(rows).__name__} without names of columns; the training rows had "
            f"columns {_listed(names)}: give a DataFrame, or a mapping of names to columns"
        )
    missing = [name for name in names if name not in found]
    if missing:
        close = difflib.get_close_matches(missing[0], found, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {_listed(list(found))}"
        raise RowsRefused(
            f"rows have no column {missing[0]!r}, which the training rows had; {hint}"
        )
    known = set(names)
    if further := [name for name in found if name not in known]:
        warnings.warn(
            f"ignored {len(further)} column(s) that the model does not use: {_listed(further)}",
            ColumnsIgnored,
            stacklevel=2,
        )
    columns = {name: column_values(name, found[name]) for name in names}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise RowsRefused(
            f"columns have {_listed(sorted(lengths))} rows; all must have the same number"
        )
    return columns


def matrix_of(rows: object, *, width: int, names: Sequence[str] | None = None) -> NDArray[Any]:
    """Return rows as a matrix of numbers [N, width], NaN where one is missing."""
    found = by_name(rows)
    if found is not None:
        columns = named_columns(rows, names=list(found) if names is None else names)
        matrix = _stacked(list(columns), list(columns.values()))
    else:
        matrix = array_of(rows)
        if matrix.dtype == object and matrix.ndim == 2:
            # As a DataFrame of several types makes one.
            places = range(matrix.shape[1])
            held = [column_values(str(place), matrix[:, place]) for place in places]
            matrix = _stacked(places, held)
    if matrix.dtype.kind not in _NUMBERS:
        raise RowsRefused(
            f"rows are {matrix.dtype}; they must be real numbers [N, {width}]: {_AS_IN_TRAINING}"
        )
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise RowsRefused(
            f"rows have shape {matrix.shape}; the training rows had {width} columns, so that they "
            f"must be [N, {width}]"
        )
    return matrix


def _stacked(names: Sequence[Any], columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind not in _NUMBERS:
            held = "dates" if column.dtype.kind == "M" else "text"
            raise RowsRefused(f"column {name!r} holds {held}; the training rows had numbers there")
    return np.column_stack(columns) if columns else np.empty((0, 0))


def array_of(values: Any, *, what: str = "rows") -> NDArray[Any]:
    """Return an array, a sparse matrix of SciPy's, a tensor or lists as an array."""
    if hasattr(values, "toarray"):
        rows, columns = values.shape
        check_unpacked(f"{what} (sparse, {rows:,} x {columns:,})", 12 * rows * columns)
        values = values.toarray()
    try:
        return as_numpy(values)
    except (TypeError, ValueError) as error:
        raise RowsRefused(
            f"{what} can't be read as an array ({error}); {_AS_IN_TRAINING}"
        ) from error


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:8])
    return f"{shown}, ... ({len(values)} in all)" if len(values) > 8 else shown or "none"


def chunks(matrix: NDArray[Any]) -> list[NDArray[Any]]:
    """Return blocks of rows that fit into memory once more."""
    return [matrix[i : i + _CHUNK_ROWS] for i in range(0, len(matrix), _CHUNK_ROWS)]


def refuse_infinite(
    matrix: NDArray[Any], *, what: str, names: Sequence[str] | None = None, missing: bool = True
) -> None:
    """Refuse infinity, and NaN unless numbers may be `missing`, by the first row and column."""
    if matrix.dtype.kind != "f":
        return
    for start, rows in enumerate(chunks(matrix)):
        bad = np.argwhere(np.isinf(rows) if missing else ~np.isfinite(rows))
        if len(bad):
            row, place = bad[0]
            half = ""
            if matrix.dtype == np.float16 and np.isinf(rows[row, place]):
                half = " (half precision ends at 65,504: make them in single precision)"
            raise ValueError(
                f"{what} row {start * _CHUNK_ROWS + row}, column {column_of(place, names)} "
                f"is {rows[row, place]}; features must be finite: drop such rows or fill them in"
                f"{half}"
            )


def column_of(place: np.integer[Any], names: Sequence[str] | None) -> str:
    """Return a column's name, or its place if it has none, for messages."""
    return str(place) if names is None else repr(names[int(place)])

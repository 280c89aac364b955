"""Numbers, dates and names of classes as people write them.

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

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.persons import normal_name

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

"""Several labels of one person, all of which may differ at once: what a release then costs.

Epsilon is meant for a whole person. Two rules bound what a person's labels can change together:

* **Sums** (`LabelMoments`, `AmountSums`): the rows of a person are shortened until all of them
  together move the sums by no more than one row of length 1 may (`shares_of_persons`).
* **All others** add up: k labels of a person cost k times as much as one. `kept_rows` bounds k.

Persons are public: who has which rows is protected no more than features are.

>>> persons, names = numbered([7, "7 ", "7.0", "anna"])
>>> persons.tolist(), names.tolist()
([0, 0, 0, 1], ['7', 'anna'])
>>> weights = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.6, 0.0]])
>>> shares = shares_of_persons(weights, persons)
>>> [round(float(share), 3) for share in shares]
[0.447, 0.447, 0.447, 1.0]
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import Event, GaussianEvent, PureEvent
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.amounts import AmountSums
from labeldp.mechanisms.label_moments import ROUNDING, LabelMoments
from labeldp.mechanisms.ledger import Priced
from labeldp.mechanisms.randomness import LATTICE

Persons = NDArray[np.intp]

#: A number, however it is written: 007 and 7.0 are the name 7. 1e3 may be a name of its own.
_NUMBER = re.compile(r"\+?(-?)0*(0|[1-9][0-9]*)(?:\.0*|(\.[0-9]*[1-9])0*)?")
#: Large floats, and numbers that a spreadsheet abridged, as text.
_ROUNDED = re.compile(r"\s*[+-]?(\d[eE]\+\d+|\d[.,]\d+[eE]\+?\d+|(9\d{15}|\d{17,})\.0*)\s*")
_MIDNIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]00:00(:00(\.0+)?)?(Z|\+00:00)?")
#: What is drawn as nothing, beside control and format characters.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)
#: Rows of a person up to which their directions are compared, pair by pair.
_COMPARED = 512
#: Numbers at a time.
_NUMBERS_AT_ONCE = 10_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """The payers of a release: single labels, or persons, who pay for all of their labels."""

    persons: Persons | None = None  # number of each row's person [N]; None where labels pay
    names: NDArray[np.str_] | None = None  # of the persons [P]
    kept: NDArray[np.intp] | None = None  # places of the rows whose labels are used [M]; None: all

    @classmethod
    def of(cls, groups: object, *, count: int, most: int | None) -> "Groups":
        """Return the persons of N rows, of whom `most` rows each are used, or all; or nobody."""
        if groups is None:
            if most not in (None, 1):
                raise ValueError(
                    f"max_labels_per_person is {most}, but nobody names persons (groups=, "
                    "person_column= or --person-column): epsilon would hold for each label only; "
                    "name them, or leave it out"
                )
            return cls()
        persons, names = numbered(groups)
        if len(persons) != count:
            raise ValueError(f"groups names {len(persons)} persons for {count} rows; one for each")
        if most is None:
            return cls(persons=persons, names=names)
        _validate.whole(max_labels_per_person=most, minimum=1)
        return cls(persons=persons, names=names, kept=kept_rows(persons, most=most, seed=0))

    @property
    def used(self) -> Persons | None:
        """Numbers of the persons of the rows that are used [M]; None without persons."""
        if self.persons is None or self.kept is None:
            return self.persons
        return self.persons[self.kept]

    @property
    def most(self) -> int:
        """The most labels of a person that share epsilon; sums take all for the price of one."""
        return 1 if self.used is None or self.kept is None else int(np.bincount(self.used).max())

    def rows_of(self, rows: Any) -> Any:
        """Return those of N rows that are used."""
        if self.kept is None:
            return rows
        return rows.iloc[self.kept] if hasattr(rows, "iloc") else rows[self.kept]


def numbered(names: object) -> tuple[Persons, NDArray[np.str_]]:
    """Return the number 0..P-1 of each row's person [N], and the names by number [P].

    Names are `normal_name`s: two persons that count as one are protected together, while one that
    counts as two is not.
    """
    given = names.to_numpy() if hasattr(names, "to_numpy") else names
    if not isinstance(given, np.ndarray):
        given = np.asarray(given, dtype=object)
    if given.ndim != 1:
        raise ValueError(f"groups has shape {given.shape}; it must name the person of each row [N]")
    refuse_rounded(names, what="groups")
    # Spellings of one name are joined: taken for two, a person would pay for a part only.
    # `tolist` makes whole numbers of dates in nanoseconds.
    values = list(given) if given.dtype.kind in "mM" else given.tolist()
    texts = [normal_name(value) for value in values]
    missing = [row for row, text in enumerate(texts) if not text]
    if missing:
        raise ValueError(
            f"row {missing[0]} (and {len(missing) - 1} more) names no person; leave it out, or "
            "name its person, by a new name only if the person has no other row"
        )
    found, numbers = np.unique(np.array(texts, dtype=str), return_inverse=True)
    return numbers.astype(np.intp), found


def refuse_rounded(names: Any, *, what: str) -> None:
    """Refuse ids or persons [N] that a program has rounded: they pay under several names."""
    given = names.to_numpy() if hasattr(names, "to_numpy") else names
    array = given if isinstance(given, np.ndarray) else np.asarray(given, dtype=object)
    if array.dtype.kind == "f":
        rounded = np.abs(array) >= 2.0 ** (np.finfo(array.dtype).nmant + 1)
    else:
        texts = () if array.dtype.kind in "iu" else map(_text_of, array.ravel().tolist())
        rounded = np.array([_ROUNDED.fullmatch(text) is not None for text in texts], dtype=bool)
    if rounded.any():
        raise ValueError(
            f"{what} has a name in row {rounded.argmax()} that may be another one, rounded: floats "
            "are exact below 2**53 only (float32 below 2**24), and a spreadsheet keeps 15 digits; "
            "write names as text or whole numbers (in pandas Int64, which may have gaps)"
        )


def _text_of(value: object) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def normal_name(value: object) -> str:
    """Return the name of an id or a person as all tables write it; "" where there is none.

    Names that differ in type, Unicode form, white space, invisible characters, digits of another
    script, zeros of a number or the time of midnight are one.

    >>> normal_name("e\u0301va\u00a0 B"), normal_name(7.0), normal_name(" 007\u200b")
    ('\u00e9va B', '7', '7')
    >>> normal_name("1.50"), normal_name("-0"), normal_name("2020-01-01 00:00:00")
    ('1.5', '0', '2020-01-01')
    """
    if type(value) is str and value.isascii() and value.isalnum() and not value.isdigit():
        return value  # most are, and there may be millions
    if type(value).__name__ in ("NoneType", "NAType", "NaTType") or value != value:
        return ""
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)  # a gap makes whole numbers floats in a file
    if isinstance(value, np.datetime64 | np.timedelta64 | timedelta):
        from pandas import Timedelta, Timestamp

        value = Timestamp(value) if isinstance(value, np.datetime64) else Timedelta(value)
    text = _text_of(value)
    if not (text.isascii() and text.isprintable()):
        seen = _UNSEEN.sub("", text).replace("\u2212", "-")
        text = "".join(
            str(unicodedata.decimal(sign, sign))
            for sign in seen
            if sign.isspace() or unicodedata.category(sign) not in ("Cc", "Cf")
        )
        text = unicodedata.normalize("NFKC", text)
    text = _MIDNIGHT.sub(r"\1", " ".join(text.split()))
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    minus, whole, decimals = number.groups(default="")
    return whole if whole == "0" and not decimals else f"{minus}{whole}{decimals}"


def kept_rows(persons: Persons, *, most: int, seed: int) -> Persons:
    """Return the places of at most `most` rows of each person, chosen by a public seed."""
    order = np.random.default_rng(seed).permutation(len(persons))
    # Stable, so that within a person the shuffled order decides which rows are kept.
    order = order[np.argsort(persons[order], kind="stable")]
    ordered = persons[order]
    place = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return np.sort(order[place < most])


def shares_of_persons(weights: NDArray[Any], persons: Persons) -> NDArray[np.float32]:
    """Return the factor of each row [N] that bounds its person's share in the sums.

    `weights` [N, M] have no row longer than 1. Labels that all differ change the sums as far as
    rows whose signs are chosen one by one, which is the root of the sum of |row . row'| at most.
    """
    lengths = _lengths(weights, persons)
    counts = np.bincount(persons)
    room = 1 - _rounded(counts, weights.shape[1])
    worst = int(room.argmin())
    if room[worst] < 0.5:
        raise ValueError(
            f"a person has {counts[worst]:,} rows, so many that rounding them is a large part of "
            "a share; keep fewer rows of each person"
        )
    shares = np.where(lengths > room, room / np.maximum(lengths, 1e-30), 1.0)
    # A person with one row is bounded by the row itself.
    shares[counts == 1] = 1.0
    return np.asarray(shares[persons], np.float32)


def _rounded(counts: NDArray[np.intp], width: int) -> NDArray[np.float64]:
    """How far rounding to the lattice may turn rows, together; a single row becomes shorter."""
    return np.where(counts > 1, counts * math.sqrt(width) / LATTICE, 0.0)


def _lengths(weights: NDArray[Any], persons: Persons) -> NDArray[np.float64]:
    """The most that each person [P] can move the sums, in lengths of rows."""
    order = np.argsort(persons, kind="stable")
    counts = np.bincount(persons)
    starts = np.cumsum(counts) - counts
    found = np.zeros(len(counts))
    for count in np.unique(counts[counts > 0]).tolist():
        # Persons with equally many rows, some at a time.
        alike = np.flatnonzero(counts == count)
        each = count * max(weights.shape[1], count)
        for part in _validate.blocks(len(alike), each, entries=_NUMBERS_AT_ONCE):
            whose = alike[part]
            rows = weights[order[starts[whose][:, None] + np.arange(count)]].astype(np.float64)
            # All pairs of rows give the tighter bound. For many rows the sum of lengths is quicker,
            # and never too small.
            if count <= _COMPARED:
                products = np.abs(rows @ rows.transpose(0, 2, 1)).sum((1, 2))
                found[whose] = np.sqrt(products)
            else:
                found[whose] = np.linalg.norm(rows, axis=2).sum(1)
    return found


def event_of_several(price: Priced, count: int) -> Event:
    """Return what a release costs `count` of its labels together, however it uses them.

    Group privacy: the labels change one after another. A release that reveals no more than a
    Gaussian one of multiplier m then reveals no more than one of m / `count` (Dong, Roth and Su,
    "Gaussian differential privacy", 2022, Theorem 2.14). Of others no bound is known.
    """
    event = price.event
    if count == 1:
        return event
    if isinstance(event, PureEvent) and not price.failure_probability:
        return PureEvent(epsilon=count * event.epsilon)
    if isinstance(event, GaussianEvent) and not price.failure_probability:
        return GaussianEvent(noise_multiplier=event.noise_multiplier / count)
    return PureEvent(epsilon=math.inf)


def event_of_persons(mechanism: Any, persons: Persons, public: Sequence[NDArray[Any]]) -> Event:
    """Return what a release costs each person, whose rows are those of `persons` [N].

    Sums whose rows are not shortened are refused, and mechanisms without a price for a person.
    """
    event: Event = mechanism.event
    counts = np.bincount(persons)
    most = int(counts.max())
    if most == 1:
        return event
    if isinstance(mechanism, LabelMoments | AmountSums):
        weights = public[0]
        longest = _lengths(weights, persons) + _rounded(counts, weights.shape[1])
        if not longest.max() <= 1 + ROUNDING:
            raise ValueError(
                f"a person's rows move the sums by {longest.max():.6g}, and the noise is made for "
                "1; shorten them by shares_of_persons before the release"
            )
        return event
    if isinstance(event, PureEvent) and not mechanism.failure_probability:
        return event_of_several(mechanism, most)
    # Independent changes add up in squares.
    if isinstance(mechanism, GaussianNoise):  # on each label by itself
        return GaussianEvent(noise_multiplier=event.noise_multiplier / math.sqrt(most))  # type: ignore[union-attr]
    raise ValueError(
        f"{type(mechanism).__name__} has no price for a person with {most} labels; keep one row of "
        "each person, or take sums"
    )

"""The ledger of an estimator: the lines of one fit, and the total of all fits of this process.

A row is known by the values of its features, so that the folds of one table add up label by label
and tables without a common row do not. Equal rows count as one person's in every fit: people with
equal features are charged too much, never too little. A fit pays once for equal rows. Rows that a
pipeline transformed can't be recognized; each is charged as if it were in every fit. This ledger
holds digests and prices, no label and no release.

>>> from labeldp.mechanisms.accounting import PureEvent
>>> how = {"mechanism": {"name": "LaplaceNoise"}, "failure_probability": 0.0, "indices": None}
>>> charges = [Charge(key=key, event=PureEvent(epsilon=1.0), **how) for key in ("9a", "9b", "9c")]
>>> folds = [People(rows=np.array(rows, dtype=np.uint64)) for rows in ([1, 2], [2, 3], [3, 1])]
>>> ledger = ProcessLedger()
>>> for charge, fold in zip(charges, folds):
...     ledger.add([charge], fold, source=None)
>>> ledger.total(folds[0], delta=1e-5).epsilon
2.0
"""

import hashlib
import math
import multiprocessing
import os
import secrets
import threading
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import PrivacyLedger, Total, total_of_prices
from labeldp.mechanisms.persons import Persons, event_of_several, normal_name
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_store import Charge
from labeldp.platform.report.wording import price, what_of

Digests = NDArray[np.uint64]

#: Spreads the bits of a name's digest before a row's is mixed in.
_WITH_NAME = np.uint64(0x9E3779B97F4A7C15)
#: Of splitmix64, which spreads the bits of a number.
_MIXING = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class PrivacyAddsUp(UserWarning):
    """Earlier fits used these labels: the total is larger than this fit's epsilon."""


class PrivacyNotCounted(UserWarning):
    """The total omits a cost: of splits or scores by the labels, or of fits elsewhere."""


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """The people whose labels a fit reads.

    Attributes:
        rows: Digests of the features of each row [N].
        names: Digest of the name of each row's person [N]; None where the fit has none.
        scope: Where names mean the same people: the vault of tokens, or empty for a user's names.
        unknown: Whether the features were transformed, so that their digests identify nobody.
        persons: Place among the names of each row's person [N], where persons pay for all of their
            rows; None where each row is a label that pays.
    """

    rows: Digests
    names: Digests | None = None
    scope: str = ""
    unknown: bool = False
    persons: Persons | None = None

    @classmethod
    def of(
        cls,
        rows: object,
        names: NDArray[Any] | None,
        *,
        transformed: bool,
        scope: str,
        persons: Persons | None = None,
    ) -> "People":
        """Return the people of a fit's X; `transformed` if a pipeline made X from other rows."""
        named = None if names is None else text_digests(normal_name(name) for name in names)
        if named is not None and persons is not None:
            named = named[persons]
        return cls(
            rows=row_digests(rows),
            names=named,
            scope=scope,
            unknown=transformed or _centered(rows),
            persons=persons,
        )

    @property
    def pairs(self) -> Digests:
        """Digests of each row with its person [N]."""
        assert self.names is not None
        return self.rows ^ (self.names * _WITH_NAME)

    @property
    def key(self) -> bytes:
        """A digest of all: fits on the same rows of the same people have the same."""
        parts = (self.rows, self.names, self.persons)
        every = (b"" if part is None else part.tobytes() for part in parts)
        scope = f"{self.unknown} {self.scope}".encode()
        return hashlib.blake2b(b"|".join([*every, scope])).digest()

    def only(self, payers: NDArray[np.intp] | None) -> "People":
        """Return these rows, or the rows of these persons; all for None."""
        if payers is None:
            return self
        places = payers if self.persons is None else np.isin(self.persons, payers)
        return replace(
            self,
            rows=self.rows[places],
            names=None if self.names is None else self.names[places],
            persons=None if self.persons is None else self.persons[places],
        )

    def times_in(self, fit: "People") -> NDArray[np.int64]:
        """Return how often each of these labels, or persons, may have been in a fit [N or P].

        A label was in it if its row or its name was. A person was in it once under its own name,
        and once with each row that was there under another one, or without a name.
        """
        both = False
        named = np.zeros(len(self.rows), dtype=bool)
        if self.names is not None and fit.names is not None and self.scope == fit.scope:
            both = True
            named = np.isin(self.names, fit.names)
        # Rows that can't be recognized may be any rows, unless names tell.
        unknown = (self.unknown or fit.unknown) and not both
        found = np.full(len(self.rows), True) if unknown else np.isin(self.rows, fit.rows)
        if self.persons is None:
            return (found | named).astype(np.int64)
        if both and fit.persons is not None:
            found &= ~np.isin(self.pairs, fit.pairs)
        under_own_name = np.bincount(self.persons, weights=named) > 0
        return np.bincount(self.persons, weights=found).astype(np.int64) + under_own_name


class ProcessLedger:
    """Charges of all fits of this process, with the people who paid them.

    Attributes:
        sent: Whether an estimator that counts here was pickled for a worker.
        of_vaults: Price of all fits with a vault, by its name, when a fit here last read it.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.sent = False
        self.of_vaults: dict[str, Total] = {}
        self._token = secrets.token_hex(8)
        #: By their key: people, and their charges with the vault that has these lines too.
        self._fits: dict[bytes, tuple[People, list[tuple[Charge, str | None]]]] = {}
        self._lock = threading.RLock()

    def add(self, charges: Iterable[Charge], people: People, *, source: str | None) -> None:
        """Charge the people of a fit, once a release; the vault `source` has these lines too."""
        with self._lock:
            known = {(vault, line.key) for _, lines in self._fits.values() for line, vault in lines}
            new = {each.key: each for each in charges if (source, each.key) not in known}
            for charge in new.values():
                paying = people.only(charge.indices)
                self._fits.setdefault(paying.key, (paying, []))[1].append((charge, source))

    def total(self, people: People, *, delta: float, without: str | None = None) -> Total:
        """Return the largest price among these people, over all fits of this process.

        Lines of the vault `without` are left out; `delta` is for charges that are not pure. A fit
        that took a person's labels one by one is charged for all of them together.
        """
        payers = len(people.rows) if people.persons is None else people.persons.max() + 1
        ledger = PrivacyLedger(num_labels=int(payers))
        seeded = False
        with self._lock:
            # Copied under the lock, and priced without it: other threads fit meanwhile.
            fits = [(paying, list(lines)) for paying, lines in self._fits.values()]
        for paying, lines in fits:
            charges = [line for line, source in lines if source is None or source != without]
            times = people.times_in(paying)
            if not charges or not times.any():
                continue
            seeded |= any(charge.noise is NoiseKind.SEEDED for charge in charges)
            ledger.add_failures(charges)
            for count in np.unique(times[times > 0]).tolist():
                paid = None if (times == count).all() else np.flatnonzero(times == count)
                for charge in charges:
                    ledger.charge(event_of_several(charge, count), indices=paid)
        epsilon, at = ledger.total(delta=delta)
        return Total(epsilon=epsilon, delta=at, seeded=seeded)

    @property
    def identity(self) -> str:
        """Distinguishes this ledger from those of other processes, forks too."""
        return f"{self._token}-{os.getpid()}"

    @property
    def partial(self) -> bool:
        """Whether fits in other processes may have paid too: workers, or this is one, or a fork."""
        in_worker = os.getpid() != self.process or multiprocessing.parent_process() is not None
        return self.sent or in_worker


#: Of this process. Fits add to it, with a vault and without.
LEDGER = ProcessLedger()


def all_numbers(table: pd.DataFrame) -> bool:
    """Whether every column of a DataFrame holds numbers, so that it may be checked as an array."""
    return all(getattr(dtype, "kind", "O") in "iuf" for dtype in table.dtypes)


def row_digests(rows: Any) -> Digests:
    """Return a digest of each row's features [N], by the values alone.

    Types, names and the order of columns make no difference, since they change from table to
    table; numbers count in single precision. Rows with the same values in other columns count as
    one person's.
    """
    if hasattr(rows, "tocsr"):  # a zero adds nothing
        # By value: a sparse row and a dense one with the same numbers are one person's.
        cells = rows.tocsr().tocoo()
        cells.sum_duplicates()
        found = np.zeros(rows.shape[0], dtype=np.uint64)
        np.add.at(found, cells.row, _of_numbers(cells.data))
        return found
    if not hasattr(rows, "iloc"):
        rows = pd.DataFrame(np.asarray(rows).reshape(len(rows), -1))
    found = np.zeros(len(rows), dtype=np.uint64)
    for place in range(rows.shape[1]):
        # A sum, so that the order of columns makes no difference.
        found += _of_column(rows.iloc[:, place])
    return found


def _of_column(column: "pd.Series[Any]") -> Digests:
    """A digest of each value of a column [N]."""
    if pd.api.types.is_numeric_dtype(column.dtype):  # truth values too
        return _of_numbers(column.to_numpy(dtype=float, na_value=np.nan))
    places, values = pd.factorize(column)  # a missing value has place -1
    known = [_spelled(value) for value in values] + [math.nan]
    texts = np.array([isinstance(value, str) for value in known])
    found = _of_numbers([math.nan if isinstance(value, str) else value for value in known])
    found[texts] = text_digests(value for value in known if isinstance(value, str))
    return np.asarray(found[places])


def _of_numbers(numbers: object) -> Digests:
    """A digest of each number [N], 0 for 0; the bits of NaN and the sign of 0 do not count."""
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.asarray(numbers).astype(np.float32) + np.float32(0)
    bits = np.where(np.isnan(plain), np.float32(np.nan), plain).view(np.uint32)
    # Mixed, since sums of plain bits of different rows would often agree.
    mixed = bits.astype(np.uint64)
    for factor in _MIXING:
        mixed = (mixed ^ (mixed >> np.uint64(30))) * factor
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _spelled(value: object) -> str | float:
    """A value as it counts: a number also where it is text, and text in one spelling."""
    if isinstance(value, np.datetime64):  # in a column of objects
        value = pd.Timestamp(value)
    text = unicodedata.normalize("NFKC", " ".join(str(value).split())).removesuffix(" 00:00:00")
    try:
        number = {"true": True, "false": False}.get(text.lower(), text)
        return float(value if isinstance(value, Real | Decimal | np.bool_) else number)
    except ValueError:
        return text


def text_digests(texts: Iterable[str]) -> Digests:
    """Return a digest of each text [N]."""
    joined = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(joined, dtype=np.uint64)


def _centered(rows: Any) -> bool:
    """Whether every column has mean 0: then X was standardized on itself, on each fold otherwise.

    A fold of a table that had been centered as a whole is not centered.
    """
    if hasattr(rows, "iloc"):
        if not all_numbers(rows):
            return False
        rows = rows.to_numpy(dtype=float)
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind != "f":
        return False
    known = rows
    if np.isnan(rows).any():  # scalers leave missing numbers out
        known = np.ma.masked_invalid(rows, copy=False)
    spread, middle = (np.ma.filled(each, 0) for each in (known.std(0), known.mean(0)))
    moving = spread > 0
    return bool(moving.any() and (np.abs(middle) <= 1e-6 * spread)[moving].all())


@dataclass(frozen=True, kw_only=True)
class PaidRelease:
    """One release, and its price for each label that it touches.

    Attributes:
        key: Of the release.
        delta: At which it holds; 0 where it is pure.
        labels: Number of labels, or of persons: what pays is a `unit`.
        seeded: Whether a seed, or an unknown source, made its noise, so that it can be removed.
        new: Whether this fit paid for it; otherwise an earlier one did, and it was read for free.
    """

    key: str
    mechanism: str
    labels: int
    epsilon: float
    delta: float
    seeded: bool
    new: bool
    unit: str = "label"

    def __str__(self) -> str:
        paid = "paid now" if self.new else "paid by an earlier fit and read again"
        cost = price(self.epsilon, self.delta)
        told = f"{what_of(self.mechanism)}: {cost} for each of {self.labels:,} {self.unit}s, {paid}"
        seeded = "; noise from a seed: no guarantee against anyone who knows it"
        return told + seeded if self.seeded else told


def line_of(
    charge: Charge, *, num_labels: int, delta: float, new: bool = True, unit: str = "label"
) -> PaidRelease:
    """Return a charge of the ledger as a line.

    `num_labels`: N, or the number of persons, where `indices` is None. `delta`: at which it is
    stated where it is not pure.
    """
    epsilon, at = total_of_prices([charge], delta=delta)
    return PaidRelease(
        key=charge.key,
        mechanism=str(charge.mechanism.get("name", "unknown")),
        labels=num_labels if charge.indices is None else len(charge.indices),
        epsilon=epsilon,
        delta=at,
        seeded=charge.noise is NoiseKind.SEEDED,
        new=new,
        unit=unit,
    )

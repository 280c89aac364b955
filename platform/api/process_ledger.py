"""The ledger of an estimator: the lines of one fit, and the total of all fits of this process.

A row is known by the values of its features, so that the folds of one table add up label by label
and tables without a common row do not. Equal rows count as one person's in every fit: people with
equal features are charged too much, never too little. A fit pays once for equal rows. Rows that a
pipeline transformed can't be recognized; each is charged as if it were in every fit. This ledger
holds digests and prices, no label and no release.

>>> from labeldp.mechanisms.accounting import PureEvent
>>> charge = Charge(key="9a", event=PureEvent(epsilon=1.0), indices=None,
...                 mechanism={"name": "LaplaceNoise"}, failure_probability=0.0)
>>> folds = [People(rows=np.array(rows, dtype=np.uint64)) for rows in ([1, 2], [2, 3], [3, 1])]
>>> ledger = ProcessLedger()
>>> for fold in folds:
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

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.ledger import Total, epsilon_of_prices, least_total, total_of_prices
from labeldp.mechanisms.persons import Persons
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_store import Charge
from labeldp.platform.report.wording import price, what_of

Digests = NDArray[np.uint64]

#: One registry holds three kinds of names: of unnamed rows, of rows with names, and names.
_NAMED_ROW, _NAME = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
#: Of splitmix64, which spreads the bits of a number.
_MIXING = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
#: Numbers digested at a time.
_NUMBERS_AT_ONCE = 4_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """The people whose labels a fit reads.

    Attributes:
        rows: Digests of their features [N].
        names: Digests of their names [N]; None where the fit has none.
        unknown: Whether the features were transformed, so that their digests identify nobody.
        persons: Place among the names of each row's person [N], where persons pay for all of their
            rows; None where each row is a label that pays.
    """

    rows: Digests
    names: Digests | None = None
    unknown: bool = False
    persons: Persons | None = None

    @classmethod
    def of(
        cls,
        rows: Any,
        names: NDArray[Any] | None,
        *,
        transformed: bool,
        persons: Persons | None = None,
    ) -> "People":
        """Return the people of a fit's X; `transformed` if a pipeline made X from other rows."""
        named = None if names is None else text_digests(str(name) for name in names)
        return cls(
            rows=row_digests(rows),
            names=named,
            unknown=named is None and (transformed or _centered(rows)),
            persons=persons,
        )

    def pairs(self) -> Digests:
        """Digests of each row with its person [N]."""
        assert self.names is not None and self.persons is not None
        return self.rows ^ (self.names * _NAMED_ROW)[self.persons]


class ProcessLedger:
    """Prices of releases by row, over all fits of this process.

    Attributes:
        sent: Whether an estimator that counts here was pickled for a worker.
    """

    def __init__(self) -> None:
        self.process, self.sent = os.getpid(), False
        self._token = secrets.token_hex(8)
        #: Charges: a row for each key, a column for each of `_kinds`.
        self._times = pd.DataFrame(index=pd.Index([], dtype=np.uint64))
        #: Charges that count for all keys, by kind [E].
        self._of_all: list[int] = []
        #: The kinds of charges, and the vault that made each.
        self._kinds: list[tuple[Charge, str | None]] = []
        self._named = False
        self._lock = threading.RLock()

    def add(self, charges: Iterable[Charge], people: People, *, source: str | None) -> None:
        """Charge the people of a fit; `source` is the vault that has these lines too."""
        with self._lock:
            for charge in charges:
                column = self._column(charge, source)
                touched: Any = slice(None) if charge.indices is None else charge.indices
                if people.unknown:
                    self._of_all[column] += 1
                    continue
                if people.names is None:
                    self._count(people.rows[touched], column)
                else:
                    self._named = True
                    rows = touched
                    if people.persons is not None:
                        paying = np.zeros(len(people.names), dtype=bool)
                        paying[touched] = True
                        rows = paying[people.persons]
                        self._count(people.pairs()[rows], column)
                    self._count(people.rows[rows] ^ _NAMED_ROW, column)
                    self._count(people.names[touched] ^ _NAME, column)

    def total(self, people: People, *, delta: float, without: str | None = None) -> Total:
        """Return the largest price among these people, over all fits of this process.

        Lines of the vault `without` are left out; `delta` is for charges that are not pure.
        """
        with self._lock:
            times = self._times_of(people)
            kept = [
                place
                for place, (_, source) in enumerate(self._kinds)
                if times[:, place].any() and (source is None or source != without)
            ]
            kinds = [self._kinds[place][0] for place in kept]
        if not kept:
            return Total()
        if (times[:, kept] < 0).any():
            return Total(epsilon=math.inf, delta=delta)
        histories = _largest(np.unique(times[:, kept], axis=0))

        def prices(history: NDArray[np.int32]) -> list[Charge]:
            return [kind for kind, count in zip(kinds, history, strict=True) for _ in range(count)]

        every = [prices(history) for history in histories]

        def dearest(*, delta: float) -> float:
            return max(epsilon_of_prices(paid, delta=delta) for paid in every)

        worst, at = least_total(dearest, prices(histories.max(0)), delta=delta)
        seeded = any(kind.noise is NoiseKind.SEEDED for kind in kinds)
        return Total(epsilon=worst, delta=at, seeded=seeded)

    @property
    def identity(self) -> str:
        """Distinguishes this ledger from those of other processes, forks too."""
        return f"{self._token}-{os.getpid()}"

    @property
    def partial(self) -> bool:
        """Whether fits in other processes may have paid too: workers, or this is one, or a fork."""
        in_worker = os.getpid() != self.process or multiprocessing.parent_process() is not None
        return self.sent or in_worker

    def _column(self, charge: Charge, source: str | None) -> int:
        def facts(kind: Charge, of: str | None) -> tuple[Any, ...]:
            return kind.event, kind.failure_probability, kind.noise, of

        for place, known in enumerate(self._kinds):
            if facts(*known) == facts(charge, source):
                return place
        self._kinds.append((replace(charge, key="", indices=None), source))
        self._of_all.append(0)
        self._times[len(self._kinds) - 1] = np.int32(0)
        return len(self._kinds) - 1

    def _count(self, keys: Digests, column: int) -> None:
        keys = np.unique(keys)
        self._times = self._times.reindex(self._times.index.union(keys), fill_value=np.int32(0))
        self._times.loc[keys, column] += 1

    def _of(self, keys: Digests) -> NDArray[np.int32]:
        """Charges of each key [N, E]."""
        return np.asarray(self._times.reindex(keys, fill_value=np.int32(0)), dtype=np.int32)

    def _times_of(self, people: People) -> NDArray[np.int32]:
        """Charges that each of these people may have had [N or 1, E]."""
        if people.persons is not None:
            return self._times_of_persons(people)
        if people.unknown:  # each of them may have any key
            times = self._times.to_numpy(dtype=np.int32)
            if self._named or not len(times):  # one person has several keys, or none
                times = times.max(0, keepdims=True, initial=0)
        else:
            named = self._of(people.rows ^ _NAMED_ROW)
            if people.names is not None:
                named = np.maximum(named, self._of(people.names ^ _NAME))
            times = self._of(people.rows) + named
        return np.asarray(times + np.array(self._of_all, dtype=np.int32), dtype=np.int32)

    def _times_of_persons(self, people: People) -> NDArray[np.int32]:
        """Charges of these persons [P, E]; below 0 where nothing bounds what they come to.

        What other fits took of single labels, or under other names, adds up over the rows of a
        person. That holds for pure releases; of others more than one may reveal any multiple.
        """
        assert people.names is not None and people.persons is not None
        others = self._of(people.rows) + self._of(people.rows ^ _NAMED_ROW)
        others += np.array(self._of_all, dtype=np.int32) - self._of(people.pairs())
        found = np.zeros((len(people.names), others.shape[1]), dtype=np.int32)
        np.add.at(found, people.persons, others)
        pure = np.array([isinstance(kind.event, PureEvent) for kind, _ in self._kinds], dtype=bool)
        unbounded = (found > 1) & ~pure
        return np.where(unbounded, -1, found + self._of(people.names ^ _NAME))


#: Of this process. Fits add to it, with a vault and without.
LEDGER = ProcessLedger()


def all_numbers(table: Any) -> bool:
    """Whether every column of a DataFrame holds numbers, so that it may be checked as an array."""
    return all(getattr(dtype, "kind", "O") in "iuf" for dtype in table.dtypes)


def row_digests(rows: Any) -> Digests:
    """Return a digest of each row's features [N], by the values alone.

    Types, names and the order of columns make no difference, since they change from table to
    table; numbers count in single precision. Rows with the same values in other columns count as
    one person's.
    """
    if hasattr(rows, "tocsr"):  # a zero adds nothing
        cells = rows.tocsr().tocoo()
        found = np.zeros(rows.shape[0], dtype=np.uint64)
        np.add.at(found, cells.row, _of_numbers(cells.data))
        return found
    if hasattr(rows, "iloc"):
        found = np.zeros(len(rows), dtype=np.uint64)
        for place in range(rows.shape[1]):
            found += _of_column(rows.iloc[:, place])
        return found
    flat = np.asarray(rows).reshape(len(rows), -1)
    if flat.dtype.kind not in "biuf":
        return row_digests(pd.DataFrame(flat))
    size = max(1, _NUMBERS_AT_ONCE // max(1, flat.shape[1]))
    blocks = [_of_numbers(flat[at : at + size]).sum(1) for at in range(0, len(flat), size)]
    return np.concatenate(blocks)


def _of_column(column: Any) -> Digests:
    """A digest of each value of a column [N]."""
    if pd.api.types.is_numeric_dtype(column.dtype):  # truth values too
        return _of_numbers(column.to_numpy(dtype=float, na_value=np.nan))
    places, values = pd.factorize(column)  # a missing value has place -1
    known = [_spelled(value) for value in values] + [math.nan]
    texts = np.array([isinstance(value, str) for value in known])
    found = _of_numbers([math.nan if isinstance(value, str) else value for value in known])
    found[texts] = text_digests(value for value in known if isinstance(value, str))
    digests: Digests = found[places]
    return digests


def _of_numbers(numbers: Any) -> Digests:
    """A digest of each number [N], 0 for 0; the bits of NaN and the sign of 0 do not count."""
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.asarray(numbers).astype(np.float32) + np.float32(0)
    bits = np.where(np.isnan(plain), np.float32(np.nan), plain).view(np.uint32)
    mixed = bits.astype(np.uint64)
    for factor in _MIXING:
        mixed = (mixed ^ (mixed >> np.uint64(30))) * factor
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _spelled(value: Any) -> str | float:
    """A value as it counts: a number also where it is text, and text in one spelling."""
    text = unicodedata.normalize("NFKC", " ".join(str(value).split())).removesuffix(" 00:00:00")
    try:
        return float(value if isinstance(value, Real | Decimal | np.bool_) else text)
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
    spread = rows.std(0)
    return bool(spread.any() and (np.abs(rows.mean(0)) <= 1e-6 * spread)[spread > 0].all())


def _largest(histories: NDArray[np.int32]) -> NDArray[np.int32]:
    """Leave out histories that another one exceeds; of many, keep each kind's largest count."""
    if len(histories) > 500:
        return np.asarray(histories.max(0, keepdims=True), dtype=np.int32)
    beaten = (histories[None] >= histories[:, None]).all(2).sum(1) > 1
    kept: NDArray[np.int32] = histories[~beaten]
    return kept


@dataclass(frozen=True, kw_only=True)
class PaidRelease:
    """One release, and its price for each label that it touches.

    Attributes:
        key: Of the release; empty for labels that were published without one.
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
        seeded = (
            "; noise from a seed: no guarantee against anyone who knows it" if self.seeded else ""
        )
        what = what_of(self.mechanism) if self.key else self.mechanism
        cost = price(self.epsilon, self.delta)
        return f"{what}: {cost} for each of {self.labels:,} {self.unit}s, {paid}{seeded}"


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

"""What all fits of this process cost the labels of a row: the ledger of fits without a vault.

A row is known by a digest of its features, so that the folds of one table add up label by label
and tables without a common row do not. Equal rows count as one person's in every fit: duplicates
are charged too much, never too little. Rows that a pipeline transformed can't be recognized; each
may be any other fit's, and is charged so. Digests and prices are kept here, no label and no
release.

>>> from labeldp.mechanisms.accounting import PureEvent
>>> charge = Charge(key="9a", event=PureEvent(epsilon=1.0), indices=None, mechanism={},
...                 failure_probability=0.0)
>>> folds = [People(rows=np.array(rows, dtype=np.uint64)) for rows in ([1, 2], [2, 3], [3, 1])]
>>> ledger = ProcessLedger()
>>> for fold in folds:
...     ledger.add([charge], fold, source=None)
>>> ledger.total(folds[0], delta=1e-5)
Total(epsilon=2.0, delta=0.0, summed=2.0, seeded=True)
"""

import hashlib
import math
import multiprocessing
import os
import secrets
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_store import Charge
from labeldp.platform.api.fit_rows import all_numbers

Digests = NDArray[np.uint64]

#: One registry holds three kinds of names: of unnamed rows, of rows with names, and names.
_NAMED_ROW, _NAME = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
#: Estimators of these hand on rows that are not those of the table: columns fewer or transformed.
_TRANSFORMING = ("sklearn.pipeline", "sklearn.feature_selection", "sklearn.ensemble._bagging")
#: They pickle what goes to workers.
_SENDING = ("joblib.externals.loky", "joblib.pool", "multiprocessing", "concurrent", "distributed")
#: Rows made dense at a time.
_ROWS_AT_ONCE = 4096


class Total(NamedTuple):
    """What the label that paid most has paid.

    Attributes:
        epsilon: Of everything together, composed.
        delta: At which it holds.
        summed: Of everything, the epsilons added up: no less than `epsilon`, and easier to follow.
        seeded: Whether a seed made any of the noise.
    """

    epsilon: float
    delta: float
    summed: float
    seeded: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """The people whose labels a fit reads.

    Attributes:
        rows: Digests of their features [N].
        names: Digests of their names [N]; None where the fit has none.
        unknown: Whether the features were transformed, so that their digests identify nobody.
    """

    rows: Digests
    names: Digests | None = None
    unknown: bool = False

    @classmethod
    def of(cls, rows: Any, names: NDArray[Any] | None, *, transformed: bool) -> "People":
        """Return the people of X.

        Args:
            rows: X as it was given to the fit.
            names: Which label each row is [N], as `PublicSide` has it.
            transformed: Whether a pipeline made X of other rows.
        """
        named = None if names is None else _digests(str(name).encode() for name in names)
        return cls(
            rows=row_digests(rows),
            names=named,
            unknown=named is None and (transformed or _centered(rows)),
        )


@dataclass(kw_only=True)
class ProcessLedger:
    """Prices of releases by row, over all fits of this process.

    Attributes:
        process: Its process.
        sent: Whether an estimator that counts here was pickled unfitted, as workers get it.
    """

    process: int = field(default_factory=os.getpid)
    sent: bool = False
    _token: str = field(default_factory=lambda: secrets.token_hex(8), repr=False)
    _keys: Digests = field(default_factory=lambda: np.empty(0, dtype=np.uint64), repr=False)
    #: How often each key was charged with each of `_kinds` [M, E]; the last line is for everybody.
    _times: NDArray[np.int32] = field(
        default_factory=lambda: np.zeros((1, 0), dtype=np.int32), repr=False
    )
    #: Every kind of charge, and the vault that made it.
    _kinds: list[tuple[Charge, str | None]] = field(default_factory=list, repr=False)
    _named: bool = field(default=False, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def add(self, charges: Iterable[Charge], people: People, *, source: str | None) -> None:
        """Charge people for releases.

        Args:
            charges: Lines of a fit's ledger, over its rows.
            people: Of the fit.
            source: The vault that has these lines too; None if there is none.
        """
        with self._lock:
            for charge in charges:
                column = self._column(charge, source)
                touched: Any = slice(None) if charge.indices is None else charge.indices
                if people.unknown:
                    self._times[-1, column] += 1
                    continue
                if people.names is None:
                    self._count(people.rows[touched], column)
                else:
                    self._named = True
                    self._count(people.rows[touched] ^ _NAMED_ROW, column)
                    self._count(people.names[touched] ^ _NAME, column)

    def total(self, people: People, *, delta: float, without: str | None = None) -> Total:
        """Return what the worst-off of these people have paid in all fits of this process.

        Args:
            people: Whose labels.
            delta: At which it is stated where a charge is not pure.
            without: A vault whose own lines are left out.
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
            return Total(0.0, 0.0, 0.0, False)
        histories = _largest(np.unique(times[:, kept], axis=0))

        def prices(history: NDArray[np.int32]) -> list[Charge]:
            return [kind for kind, count in zip(kinds, history, strict=True) for _ in range(count)]

        at = max(delta_of_total(prices(history), delta=delta) for history in histories)
        worst = max(epsilon_of_prices(prices(history), delta=at) for history in histories)
        each = [
            epsilon_of_prices([kind], delta=delta_of_total([kind], delta=delta)) for kind in kinds
        ]
        summed = max(
            math.fsum(count * one for count, one in zip(history, each, strict=True) if count)
            for history in histories
        )
        return Total(worst, at, summed, any(kind.noise is NoiseKind.SEEDED for kind in kinds))

    @property
    def identity(self) -> str:
        """Tells this ledger from those of other processes, forks of this one too."""
        return f"{self._token}-{os.getpid()}"

    @property
    def partial(self) -> bool:
        """Whether fits of other processes belong to this one's, which knows nothing of them."""
        return self.sent or self.in_worker

    @property
    def in_worker(self) -> bool:
        """Whether this process works for another one: joblib's, or a fork."""
        return os.getpid() != self.process or multiprocessing.parent_process() is not None

    def _column(self, charge: Charge, source: str | None) -> int:
        kind = replace(charge, key="", indices=None)
        for place, (known, of) in enumerate(self._kinds):
            if (known.event, known.failure_probability, known.noise, of) == (
                kind.event,
                kind.failure_probability,
                kind.noise,
                source,
            ):
                return place
        self._kinds.append((kind, source))
        self._times = np.pad(self._times, ((0, 0), (0, 1)))
        return len(self._kinds) - 1

    def _count(self, keys: Digests, column: int) -> None:
        keys = np.unique(keys)
        places = np.searchsorted(self._keys, keys)
        known = np.append(self._keys, np.uint64(0))[places] == keys
        known &= places < len(self._keys)
        new = keys[~known]
        if len(new):
            self._times = np.insert(self._times, places[~known], 0, axis=0)
            self._keys = np.insert(self._keys, places[~known], new)
            places = np.searchsorted(self._keys, keys)
        self._times[places, column] += 1

    def _of(self, keys: Digests) -> NDArray[np.int32]:
        """How often each key was charged [N, E]."""
        places = np.searchsorted(self._keys, keys)
        known = np.append(self._keys, np.uint64(0))[places] == keys
        known &= places < len(self._keys)
        return np.asarray(np.where(known[:, None], self._times[places], 0))

    def _times_of(self, people: People) -> NDArray[np.int32]:
        """How often each of these people may have been charged [N or 1, E]."""
        if people.unknown:  # each of them may be anybody
            times = self._times[:-1]
            if self._named or not len(times):  # one person has several keys, or nobody has one
                times = times.max(0, keepdims=True, initial=0)
        else:
            named = self._of(people.rows ^ _NAMED_ROW)
            if people.names is not None:
                named = np.maximum(named, self._of(people.names ^ _NAME))
            times = self._of(people.rows) + named
        found: NDArray[np.int32] = self._times[-1] + times
        return found


#: Of this process. Fits add to it, with a vault and without.
LEDGER = ProcessLedger()


def row_digests(rows: Any) -> Digests:
    """Return a digest of each row's features [N], numbers in single precision.

    Then a table of another number type has the same; rows that differ less count as one person's.
    """
    if hasattr(rows, "iloc") and not all_numbers(rows):
        import pandas as pd

        plain = rows.assign(
            **{
                name: column.astype(np.float32)
                for name, column in rows.items()
                if getattr(column.dtype, "kind", "O") in "iuf"
            }
        )
        return np.asarray(pd.util.hash_pandas_object(plain, index=False), dtype=np.uint64)
    return _digests(_row_bytes(rows))


def _row_bytes(rows: Any) -> Iterator[bytes]:
    for start in range(0, rows.shape[0], _ROWS_AT_ONCE):
        some = rows.iloc if hasattr(rows, "iloc") else rows
        some = some[start : start + _ROWS_AT_ONCE]
        some = some.toarray() if hasattr(some, "toarray") else np.asarray(some)
        with np.errstate(over="ignore"):
            # 0.0 and -0.0 are equal numbers of different bytes.
            plain = some.reshape(len(some), -1).astype(np.float32) + np.float32(0)
        yield from (row.tobytes() for row in plain)


def _digests(texts: Iterable[bytes]) -> Digests:
    joined = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
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
    """Leave out histories that cost no more than another one, where there are few to compare."""
    if len(histories) > 500:
        return np.asarray(histories.max(0, keepdims=True), dtype=np.int32)
    beaten = (histories[None] >= histories[:, None]).all(2).sum(1) > 1
    kept: NDArray[np.int32] = histories[~beaten]
    return kept


@dataclass(frozen=True, kw_only=True)
class Callers:
    """What the functions that called a fit do with rows: public facts, read off the call stack.

    scikit-learn tells an estimator neither that it is part of a search nor how folds were made.

    Attributes:
        transforming: Whether X comes out of a pipeline.
        stratified: Name of the splitter that divided rows by their labels; None if none did.
    """

    transforming: bool
    stratified: str | None


def callers() -> Callers:
    """Look at who called, up to the main program."""
    transforming, stratified = False, None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("sklearn."):
            transforming |= module.startswith(_TRANSFORMING)
            found = [*frame.f_locals.values()]
            found += getattr(frame.f_locals.get("self"), "__dict__", {}).values()
            for value in found:
                kind = type(value)
                if kind.__module__ == "sklearn.model_selection._split" and (
                    "Stratified" in kind.__name__
                ):
                    stratified = kind.__name__
        else:
            transforming |= module.startswith("imblearn.")
        frame = frame.f_back
    return Callers(transforming=transforming, stratified=stratified)


def leaves_process() -> bool:
    """Whether the caller is being pickled for another process, by joblib or multiprocessing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(_SENDING):
            return True
        frame = frame.f_back
    return False


def added(one: tuple[float, float], *others: tuple[float, float]) -> tuple[float, float]:
    """Return epsilon and delta of everything together, as if one label paid for all of it."""
    every = (one, *others)
    return math.fsum(epsilon for epsilon, _ in every), math.fsum(delta for _, delta in every)

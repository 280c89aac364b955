"""The privacy ledger: which events touched which label, and what the worst label has paid.

Each label is accounted for by itself. Stages over disjoint labels therefore cost the larger of
their epsilons and not the sum (adaptive parallel composition), with no special case; a label that
is released twice pays twice.

The budget's rule stands here: what charges cost together, at which delta, with the probability that
one of them fails taken off it first. `PrivacyLedger.include` joins ledgers of several fits.

>>> ledger = PrivacyLedger(num_labels=4)
>>> ledger.charge(PureEvent(epsilon=1.0), indices=np.array([0, 1]))
>>> ledger.charge(PureEvent(epsilon=2.0), indices=np.array([2, 3]))
>>> ledger.epsilon(delta=0.0)
2.0
>>> ledger.charge(PureEvent(epsilon=0.5))
>>> ledger.epsilon_per_label(delta=0.0)
array([1.5, 1.5, 2.5, 2.5])
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import (
    ORDERS,
    Event,
    PureEvent,
    conversion_offsets,
    epsilon_of,
    renyi_curve,
)
from labeldp.mechanisms.release_store import Charge

#: Sums of the same epsilons in another order differ in the last bits; a budget that is meant to be
#: met exactly is not refused for those.
_LAST_BITS = 1e-12
#: In the place of infinity, which times 0 is not a number.
_HUGE = 1e200


class Priced(Protocol):
    """A thing with a price: a charge, a planned one, a mechanism."""

    @property
    def event(self) -> Event:
        """The event of a label."""

    @property
    def failure_probability(self) -> float:
        """The probability that something else is done, a part of delta."""


def all_pure(events: Iterable[Event]) -> bool:
    """Whether every event is pure, so that delta may be 0; true of none at all."""
    return all(isinstance(event, PureEvent) for event in events)


def total_of_prices(prices: Collection[Priced], *, delta: float) -> tuple[float, float]:
    """Return the epsilon of a label that pays all of `prices`, and the delta at which it holds."""
    return least_total(partial(epsilon_of_prices, prices), prices, delta=delta)


@_validate.plain_numbers
def least_total(
    epsilon: Callable[..., float], prices: Collection[Priced], *, delta: float
) -> tuple[float, float]:
    """Return the smaller of the totals that `epsilon(delta=)` of `prices` has, and its delta.

    One is at `delta`, or at twice what may fail, so that as much is left for the rest. Where every
    price is pure, the other is the sum: at delta 0, or twice what may fail. The smaller one never
    falls when a price is added, of whatever kind.
    """
    least = 2 * failure_of(prices)
    # Both are proven, so the smaller one holds.
    deltas = {max(delta, least)}
    if all_pure(price.event for price in prices):
        deltas.add(least)
    return min((epsilon(delta=at), at) for at in deltas)


def epsilon_of_prices(prices: Collection[Priced], *, delta: float) -> float:
    """Epsilon of a label that pays all of `prices`; infinite where none holds at this delta."""
    return epsilon_or_infinity([price.event for price in prices], delta=delta - failure_of(prices))


def epsilon_or_infinity(events: Collection[Event], *, delta: float) -> float:
    """Epsilon of a label that pays `events`; infinite where none holds at this delta."""
    holds = delta > 0 or (delta == 0 and all_pure(events))
    return epsilon_of(events, delta=delta) if holds else math.inf


def stated(epsilon: float) -> float:
    """Return an epsilon as records and totals state it: without a tail, never less than it is.

    Noise that is calibrated to epsilon .5 costs 0.4999999999999921, which is stated as 0.5.
    """
    short = float(f"{epsilon:.12g}")
    return short if epsilon <= short <= epsilon * (1 + _LAST_BITS) else epsilon


def shown(epsilon: float, digits: int = 4) -> str:
    """Return an epsilon or a delta in so many digits, rounded up: what is stated holds."""
    if not math.isfinite(epsilon):
        return f"{epsilon:g}"
    upwards = Context(prec=digits, rounding=ROUND_CEILING)
    least = epsilon * (1 - _LAST_BITS)
    return f"{float(upwards.create_decimal_from_float(least)):.{digits}g}"


def failure_of(prices: Iterable[Priced]) -> float:
    """Probability that any of `prices` fails, by the union bound: a part of their total's delta."""
    return sum(price.failure_probability for price in prices)


@dataclass(frozen=True, kw_only=True)
class Total:
    """The largest spending of a label, at `delta`: 0 where it is a sum of pure epsilons."""

    epsilon: float = 0.0
    delta: float = 0.0
    epsilon_private: float = 0.0  # without the lines that handed labels out as they are
    releases: int = 0
    handed_out: int = 0  # how many lines handed labels out
    seeded: bool = False  # whether a seed made some of the noise

    def at_least(self, *others: "Total") -> "Total":
        """Return the largest of each number: the dearest total need not be so in each."""
        names = [each.name for each in fields(Total)]
        every = (self, *others)
        return Total(**{name: max(getattr(each, name) for each in every) for name in names})


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that any one label may ever pay."""

    epsilon: float  # above 0; `inf` for no limit
    delta: float = 0.0  # in [0, 1); 0 allows pure events only

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.positive(**{"the limit of epsilon": self.epsilon}, infinity=True)
        _validate.delta(self.delta)

    def allows(self, epsilon: float) -> bool:
        """Whether a label may pay `epsilon`, at this budget's delta."""
        return epsilon <= self.epsilon * (1 + _LAST_BITS)


class BudgetExceeded(ValueError):
    """A request that would take some label over the budget; nothing was released or charged.

    `spent` is the epsilon of the worst label so far at the budget's delta, `requested` what it
    would be if the request were granted.
    """

    def __init__(
        self, *, budget: Budget, spent: float, requested: float, request: str, fix: str = ""
    ) -> None:
        self.budget = budget
        self.spent = spent
        self.requested = requested
        fix = fix or "request a smaller epsilon, reuse a stored release, or raise the budget"
        super().__init__(
            f"{request} is refused: the budget is epsilon {budget.epsilon:g} at delta "
            f"{budget.delta:g}, {shown(spent, 6)} is spent and this would make it "
            f"{shown(requested, 6)}; {fix}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive the way from an actor to its caller: keyword-only arguments do not by default."""
        return BudgetExceeded.__new__, (BudgetExceeded, str(self)), vars(self)


class PrivacyLedger:
    """The spending of every label, kept as groups of labels that share a history."""

    def __init__(self, *, num_labels: int) -> None:
        _validate.whole(num_labels=num_labels, minimum=1)
        # These three are replaced and never changed, so that a shallow copy has its own.
        self._group_of: NDArray[np.intp] = np.zeros(num_labels, dtype=np.intp)
        #: The column of each event in `_times`: how often the labels of each group paid it [G, E].
        self._columns: dict[Event, int] = {}
        self._times: NDArray[np.int32] = np.zeros((1, 0), dtype=np.int32)
        self._prices: list[Priced] = []

    @property
    def histories(self) -> list[Counter[Event]]:
        """The events that the labels of each group have paid [G]."""
        every = self._times.tolist()
        return [+Counter(dict(zip(self._columns, times, strict=True))) for times in every]

    @property
    def failure_probability(self) -> float:
        """That of any charge failing, a part of delta, whichever labels it touched."""
        return failure_of(self._prices)

    def copy(self) -> "PrivacyLedger":
        """Return an independent ledger in the same state, to try a charge on."""
        found = copy(self)
        found._prices = [*self._prices]
        return found

    def add(self, charge: Charge) -> None:
        """Charge a line of a ledger to the labels that it names."""
        self.charge(charge.event, indices=charge.indices)
        self.add_failures([charge])

    def add_failures(self, prices: Iterable[Priced]) -> None:
        """Charge the failures of `prices`, whose events are charged some other way."""
        self._prices.extend(prices)

    def charge(self, event: Event, *, indices: NDArray[np.integer[Any]] | None = None) -> None:
        """Charge `event` to the labels at `indices`, or to every label."""
        column = self._columns.get(event, len(self._columns))
        times = np.pad(self._times, ((0, 0), (0, int(column == len(self._columns)))))
        if indices is None:
            times[:, column] += 1
        else:
            # Group g falls into 2g, which pays nothing, and 2g + 1. Those that have labels are
            # numbered anew without sorting: there may be millions of labels.
            part = 2 * self._group_of
            part[check_indices(indices, len(part))] += 1
            there = np.bincount(part) > 0
            parts = np.flatnonzero(there)
            times = times[parts // 2]
            times[parts % 2 == 1, column] += 1
            # Groups that have paid the same are one. As bytes: `axis=0` takes ten times as long.
            rows = times.view(np.dtype((np.void, times[0].nbytes))).ravel()
            _, first, places = np.unique(rows, return_index=True, return_inverse=True)
            times = times[first]
            self._group_of = places[(np.cumsum(there) - 1)[part]]
        self._columns = {**self._columns, event: column}
        self._times = times

    def include(self, charges: Sequence[Charge], *, num_labels: int) -> None:
        """Charge the lines of another ledger over labels 0..n-1, which nobody knows here.

        Any label here may have been in it at the dearest place: every label is charged so.
        """
        self.add_failures(charges)
        found = ledger_of(charges, num_labels=num_labels)
        for event, column in found._columns.items():
            for _ in range(found._times[:, column].max()):
                self.charge(event)

    def epsilon(self, *, delta: float) -> float:
        """Epsilon of the label that has paid most, at `delta`."""
        return self._dearest(epsilon_of, self._left(delta))

    def epsilon_or_infinity(self, *, delta: float) -> float:
        """As `epsilon`; infinite where no epsilon holds at so small a delta."""
        return self._dearest(epsilon_or_infinity, delta - self.failure_probability)

    def total(self, *, delta: float) -> tuple[float, float]:
        """Return the epsilon of the label that has paid most, and the delta at which it holds."""
        return least_total(self.epsilon_or_infinity, self._prices, delta=delta)

    def epsilon_per_label(self, *, delta: float) -> NDArray[np.float64]:
        """Epsilon of every label [N], at `delta`."""
        left = self._left(delta)
        each = [epsilon_of(history.elements(), delta=left) for history in self.histories]
        return np.array(each)[self._group_of]

    def _left(self, delta: float) -> float:
        """Return delta less the probability that a release fails; ValueError if none is left."""
        failing = self.failure_probability
        if failing and delta <= failing:
            raise ValueError(
                f"delta is {delta:g}, but {failing:g} of it goes to releases that fail with that "
                f"probability; state a delta above {failing:g}"
            )
        return delta - failing

    def _dearest(self, price: Callable[..., float], delta: float) -> float:
        """Return the largest `price` of a group; few groups of many are priced one by one."""
        times = self._times
        most = self._at_most(delta)
        # Every event was paid by some label, and an event more never makes it cheaper.
        found = max((x.epsilon for x in self._columns if isinstance(x, PureEvent)), default=0.0)
        while len(times):
            first = int(most.argmax())
            paid = Counter(dict(zip(self._columns, times[first].tolist(), strict=True)))
            found = max(found, price(list(paid.elements()), delta=delta))
            dearer = (most > found) & (times > times[first]).any(1)
            times = times[dearer]
            most = most[dearer]
        return found

    def _at_most(self, delta: float) -> NDArray[np.float64]:
        """Return no less than the epsilon of each group [G], by sums and by Renyi curves."""
        pure = [getattr(each, "epsilon", math.inf) for each in self._columns]
        found = np.asarray(self._times @ np.minimum(pure, _HUGE), dtype=float)
        if len(found) > 1 and 0 < delta < 1:
            curves = (renyi_curve([each]) for each in self._columns)
            # A curve on another grid bounds nothing here.
            rdp = [rdp if np.array_equal(at, ORDERS) else ORDERS * _HUGE for at, rdp in curves]
            offsets = conversion_offsets(ORDERS, delta)
            for part in _validate.blocks(len(found), len(ORDERS), entries=10_000_000):
                least = (self._times[part] @ np.minimum(rdp, _HUGE) + offsets).min(1)
                found[part] = np.minimum(found[part], least)
        found *= 1 + 1e-9  # rounding is far less
        return found


def ledger_of(charges: Iterable[Charge], *, num_labels: int) -> PrivacyLedger:
    """Return what N labels have paid after `charges`."""
    ledger = PrivacyLedger(num_labels=num_labels)
    for charge in charges:
        ledger.add(charge)
    return ledger


def check_indices(indices: NDArray[np.integer[Any]], num_labels: int) -> NDArray[np.intp]:
    """Return positions of labels as [M], each at most once, or name the wrong one.

    They are a read-only copy: by them the ledger names the labels that paid.
    """
    array = np.asarray(indices)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"indices has shape {array.shape} and type {array.dtype}; it must be a non-empty list "
            "of whole numbers"
        )
    outside = array[(array < 0) | (array >= num_labels)]
    if outside.size:
        raise ValueError(f"index {outside[0]} is outside 0..{num_labels - 1}")
    values, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"label {values[counts > 1][0]} is requested more than once in one request; each "
            "answer about it is charged, so send separate requests"
        )
    checked = array.astype(np.intp)
    checked.setflags(write=False)
    return checked

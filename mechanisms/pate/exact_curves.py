"""Exact costs as curves that add up like the published ones: computed once for all that ask.

`query_costs` sums curves of many queries. A published curve is a formula (`renyi_bounds`); an exact
one is a row of a table over the orders, which `exact_costs` fills when it is first asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.pate.decision_bounds import decision_rdp_gnmax
from labeldp.mechanisms.pate.exact_costs import check_rows, exact_rows
from labeldp.mechanisms.pate.renyi_bounds import Floats

Index = NDArray[np.intp] | NDArray[np.bool_]


class Curves(Protocol):
    """Renyi curves of U kinds of query."""

    def __len__(self) -> int:
        """U."""

    def take(self, index: Index) -> "Curves":
        """Return the curves at `index`."""

    def rows(self, orders: Floats) -> Floats:
        """Return every curve at ascending `orders` [U, A]."""

    def weighted_sums(self, weights: Floats, orders: Floats) -> Floats:
        """Return weights [M, U] times curves [U, A] at ascending `orders`: [M, A]."""


class _Table:
    """Rows at the orders that were asked for last."""

    def __init__(self, compute: Callable[[Floats], Floats]) -> None:
        self._compute = compute
        self._orders: Floats | None = None
        self._rows: Floats | None = None

    def rows(self, orders: Floats) -> Floats:
        """All rows [U, A]."""
        if self._rows is None or not np.array_equal(self._orders, orders):  # type: ignore[arg-type]
            self._orders, self._rows = orders.copy(), self._compute(orders)
        return self._rows


@dataclass(frozen=True, kw_only=True, eq=False)
class TabulatedCurves:
    """Curves of U kinds of query, by a table that its parts share.

    Attributes:
        table: Of all kinds.
        index: Which of its rows these are [U].
    """

    table: _Table = field(repr=False)
    index: NDArray[np.intp]

    def __len__(self) -> int:
        """U."""
        return len(self.index)

    def take(self, index: Index) -> "TabulatedCurves":
        """Return the curves at `index`."""
        return replace(self, index=self.index[index])

    def rows(self, orders: Floats) -> Floats:
        """Return every curve at ascending `orders` [U, A]."""
        return self.table.rows(orders)[self.index]

    def weighted_sums(self, weights: Floats, orders: Floats) -> Floats:
        """Return weights [M, U] times curves [U, A] at ascending `orders`: [M, A]."""
        result: Floats = weights @ self.rows(orders)
        return result


def exact_answers(
    votes: NDArray[np.int64], noise_std: float
) -> tuple[TabulatedCurves, NDArray[np.intp]]:
    """Curves of GNMax's answers to different histograms, and which one each query has [N]."""
    histograms, index = np.unique(-np.sort(-votes, axis=1), axis=0, return_inverse=True)
    table = _Table(lambda orders: exact_rows(histograms, noise_std, orders))
    return TabulatedCurves(table=table, index=np.arange(len(histograms))), index.reshape(-1)


def exact_checks(
    peaks: Floats, threshold: float, sigma1: float
) -> tuple[TabulatedCurves, NDArray[np.intp]]:
    """Curves of checks of different largest counts, and which one each query has [N]."""
    values, index = np.unique(peaks, return_inverse=True)
    x = (values - threshold) / sigma1
    table = _Table(lambda orders: check_rows(x, 1 / sigma1, orders))
    return TabulatedCurves(table=table, index=np.arange(len(values))), index


def checks_per_class(queries: int, sigma1: float) -> tuple[TabulatedCurves, NDArray[np.intp]]:
    """The one curve of checks with noise on every class, for any votes; it is everybody's [N]."""
    table = _Table(lambda orders: decision_rdp_gnmax(sigma1, orders)[None])
    curves = TabulatedCurves(table=table, index=np.zeros(1, dtype=np.intp))
    return curves, np.zeros(queries, dtype=np.intp)

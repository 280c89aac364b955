"""Costs of queries that add up: of all of them, of the first n, expected or realised.

Each query has a Renyi curve for its check and one for its answer. Equal curves are held, and
computed, once; totals are a product of multiplicities and curves, and the costs after each query a
running sum over chunks (`expected_prefixes`, `realised_prefixes`), so that memory does not grow
with queries times orders. `accounting` says where the curves come from.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    conversion_offsets,
    epsilon_from_rdp,
)
from labeldp.mechanisms.pate.exact_curves import Curves
from labeldp.mechanisms.pate.renyi_bounds import Floats, checked_orders

#: Entries of a chunk of queries times orders: half a megabyte, so that it stays in the cache.
_CHUNK_ENTRIES = 2**16
#: Where the different curves fit into this many entries they are tabulated once.
_TABLE_ENTRIES = 2**20


@dataclass(frozen=True, kw_only=True)
class PateCost:
    """What a run costs.

    Attributes:
        epsilon: At the delta that was asked for.
        order: The Renyi order that gave it.
        answered: Queries answered: a count if realised, an expectation if expected.
    """

    epsilon: float
    order: float
    answered: float

    def __repr__(self) -> str:
        """Show four digits: more say nothing to a reader."""
        return (
            f"PateCost(epsilon={self.epsilon:.4g}, order={self.order:.4g}, "
            f"answered={self.answered:.4g})"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PatePrefixCosts:
    """What a run costs after each of its queries; entry n is the cost of the first n + 1.

    Attributes:
        epsilon: [N].
        order: [N].
        answered: [N].
    """

    epsilon: Floats
    order: Floats
    answered: Floats

    def __len__(self) -> int:
        """N."""
        return len(self.epsilon)

    def __getitem__(self, index: int) -> PateCost:
        """The cost of the first index + 1 queries."""
        return PateCost(
            epsilon=float(self.epsilon[index]),
            order=float(self.order[index]),
            answered=float(self.answered[index]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class StepCosts:
    """One step of every query: U different curves, and which one is whose.

    Attributes:
        curves: U curves.
        index: Which curve each query has [N].
    """

    curves: Curves
    index: NDArray[np.intp]

    def total(self, weights: Floats, orders: Floats) -> Floats:
        """Sum of weight times curve over the queries [A]; weights [N]."""
        per_curve = np.bincount(self.index, weights, len(self.curves)).astype(np.float64)
        used = per_curve > 0
        curves = self.curves if used.all() else self.curves.take(used)
        total: Floats = curves.weighted_sums(per_curve[None, used], orders)[0]
        return total

    def rows(self, queries: NDArray[np.intp], orders: Floats) -> Floats:
        """Curves of the queries at these positions [len(queries), A]."""
        kinds, place = np.unique(self.index[queries], return_inverse=True)
        return self.curves.take(kinds).rows(orders)[place]

    def head(self, queries: int) -> "StepCosts":
        """The first `queries` queries."""
        return StepCosts(curves=self.curves, index=self.index[:queries])


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryCosts:
    """Costs of N queries: of checking each, of answering each, and how likely it is answered.

    Attributes:
        check: Cost of the check; None for aggregators that answer everything.
        answer: Cost of the answer, where it is given.
        log_probability: Log probability that a query is answered [N].
    """

    check: StepCosts | None
    answer: StepCosts
    log_probability: Floats

    def __len__(self) -> int:
        """N."""
        return len(self.log_probability)

    def head(self, queries: int) -> "QueryCosts":
        """Costs of the first `queries` queries, from 1 to N.

        Raises:
            ValueError: More queries than there are, or none.
        """
        if not 1 <= queries <= len(self):
            raise ValueError(
                f"queries is {queries}; costs of 1 to {len(self)} queries are known here"
            )
        return QueryCosts(
            check=self.check and self.check.head(queries),
            answer=self.answer.head(queries),
            log_probability=self.log_probability[:queries],
        )

    def _answered(self, answered: ArrayLike) -> Floats:
        mask = np.asarray(answered)
        if mask.dtype != np.bool_ or mask.shape != (len(self),):
            raise ValueError(
                f"answered is of type {mask.dtype} and shape {mask.shape}; it must be bool "
                f"[{len(self)}], True where a query was answered"
            )
        return mask.astype(np.float64)

    def _rdp(self, weights: Floats, orders: ArrayLike) -> Floats:
        checked = checked_orders(orders)
        ascending, back = np.unique(checked, return_inverse=True)
        total = self.answer.total(weights, ascending)
        if self.check is not None:
            total += self.check.total(np.ones(len(self)), ascending)
        return total[back]

    def expected_rdp(self, orders: ArrayLike = ORDERS) -> Floats:
        """Renyi curve of the expected cost [A]."""
        return self._rdp(np.exp(self.log_probability), orders)

    def realised_rdp(self, answered: ArrayLike, orders: ArrayLike = ORDERS) -> Floats:
        """Renyi curve of checking every query and answering those in `answered` bool [N]: [A]."""
        return self._rdp(self._answered(answered), orders)

    def expected(
        self,
        *,
        delta: float,
        conversion: Conversion = Conversion.IMPROVED,
        orders: ArrayLike = ORDERS,
    ) -> PateCost:
        """The papers' cost: each answer weighted with its probability. Not a guarantee.

        Args:
            delta: In (0, 1).
            conversion: From Renyi curves; the PATE papers used `Conversion.MIRONOV`.
            orders: Renyi orders [A], above 1.

        Raises:
            ValueError: delta or orders out of range.
        """
        return self._cost(np.exp(self.log_probability), delta, conversion, orders)

    def realised(
        self,
        answered: ArrayLike,
        *,
        delta: float,
        conversion: Conversion = Conversion.IMPROVED,
        orders: ArrayLike = ORDERS,
    ) -> PateCost:
        """The cost of what was done: a check for every query, an answer where one was given.

        Args:
            answered: bool [N].
            delta: In (0, 1).
            conversion: From Renyi curves.
            orders: Renyi orders [A], above 1.

        Raises:
            ValueError: A mask of the wrong kind; delta or orders out of range.
        """
        return self._cost(self._answered(answered), delta, conversion, orders)

    def _cost(
        self, weights: Floats, delta: float, conversion: Conversion, orders: ArrayLike
    ) -> PateCost:
        checked = checked_orders(orders)
        epsilon, order = epsilon_from_rdp(checked, self._rdp(weights, checked), delta, conversion)
        return PateCost(epsilon=epsilon, order=order, answered=float(weights.sum()))

    def expected_prefixes(
        self,
        *,
        delta: float,
        conversion: Conversion = Conversion.IMPROVED,
        orders: ArrayLike = ORDERS,
    ) -> PatePrefixCosts:
        """`expected` after each query; arguments and errors as there."""
        return self._prefixes(np.exp(self.log_probability), delta, conversion, orders)

    def realised_prefixes(
        self,
        answered: ArrayLike,
        *,
        delta: float,
        conversion: Conversion = Conversion.IMPROVED,
        orders: ArrayLike = ORDERS,
    ) -> PatePrefixCosts:
        """`realised` after each query; arguments and errors as there."""
        return self._prefixes(self._answered(answered), delta, conversion, orders)

    def _prefixes(
        self, weights: Floats, delta: float, conversion: Conversion, orders: ArrayLike
    ) -> PatePrefixCosts:
        ascending = np.unique(checked_orders(orders))
        offsets = conversion_offsets(ascending, delta, conversion)
        epsilon, order = np.empty(len(self)), np.empty(len(self))
        running = offsets.copy()
        for start, costs in self._weighted_rows(weights, ascending):
            for row in costs:  # faster than cumsum, which strides down each column
                row += running
                running = row
            running = running.copy()
            best = costs.argmin(axis=1)
            stop = start + len(costs)
            epsilon[start:stop] = costs[np.arange(len(costs)), best]
            order[start:stop] = ascending[best]
        return PatePrefixCosts(
            epsilon=np.maximum(epsilon, 0.0), order=order, answered=np.cumsum(weights)
        )

    def _weighted_rows(self, weights: Floats, orders: Floats) -> Iterator[tuple[int, Floats]]:
        """Yield (first query, cost of each query of a chunk [rows, A])."""
        steps = [(self.answer, weights)]
        if self.check is not None:
            steps.append((self.check, np.ones(len(self))))
        height = max(1, _CHUNK_ENTRIES // len(orders))
        tables = [
            step.curves.rows(orders) if len(step.curves) * len(orders) <= _TABLE_ENTRIES else None
            for step, _ in steps
        ]
        for start in range(0, len(self), height):
            queries = np.arange(start, min(start + height, len(self)))
            costs = np.zeros((len(queries), len(orders)))
            for (step, step_weights), table in zip(steps, tables, strict=True):
                part = step_weights[queries]
                due = np.flatnonzero(part)
                if due.size == 0:
                    continue
                if table is not None:
                    rows = table[step.index[queries[due]]]
                else:
                    rows = step.rows(queries[due], orders)
                rows *= part[due, None]
                if due.size == len(queries):
                    costs += rows
                else:
                    costs[due] += rows
            yield start, costs

"""What PATE's answers cost, query by query, as data-dependent Renyi curves that add up.

Papernot et al., "Scalable Private Learning with PATE", ICLR 2018 (arXiv:1802.08908). Two totals:

- *expected*, the papers' number: the cost of an answer times the probability that it is given. An
  average over the aggregator's noise, not a guarantee.
- *realised*: every query that was checked pays for its check, every answer that was given pays in
  full. Renyi costs of adaptively chosen queries add as long as the budget is fixed beforehand.

Either is a function of the votes, so it is private itself: log it as such, and publish a sanitized
value (`smooth_sensitivity`) or the price that holds for any votes (`aggregators`, `events`).

>>> costs = confident_gnmax_costs(
...     [[240, 10], [130, 120], [250, 0]], threshold=200.0, sigma1=150.0, sigma2=40.0)
>>> costs.expected(delta=1e-5)
PateCost(epsilon=0.1246, order=68.5, answered=1.556)
>>> costs.realised([True, False, True], delta=1e-5).answered
2.0
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    conversion_offsets,
    epsilon_from_rdp,
)
from labeldp.mechanisms.pate_probabilities import (
    log_probability_answered,
    log_probability_answered_per_class,
    log_q_gaussian,
    log_q_gaussian_exact,
    log_q_laplace,
)
from labeldp.mechanisms.renyi_bounds import (
    Floats,
    RenyiCurves,
    checked_orders,
    constant_curves,
    distinct,
    gaussian_curves,
    laplace_curves,
    log_surprise,
    rdp_gnmax,
    rdp_lnmax,
    rdp_threshold,
)
from labeldp.mechanisms.votes import checked_votes

__all__ = [
    "PateCost",
    "PatePrefixCosts",
    "QueryCosts",
    "confident_gnmax_costs",
    "gnmax_costs",
    "lnmax_costs",
    "log_probability_answered",
    "log_probability_answered_per_class",
    "log_q_gaussian",
    "log_q_gaussian_exact",
    "log_q_laplace",
    "rdp_gnmax",
    "rdp_lnmax",
    "rdp_threshold",
]

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

    curves: RenyiCurves
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


def gnmax_costs(votes: Any, *, noise_std: float, exact: bool = False) -> QueryCosts:
    """Costs of GNMax, which answers every query.

    Args:
        votes: Counts [N, K], one vote per teacher.
        noise_std: Standard deviation of the noise on every count.
        exact: Compute the probability of a surprise by quadrature instead of bounding it.

    Raises:
        ValueError: Votes that are none (the row is named), noise out of range.
    """
    log_q = log_q_gaussian_exact if exact else log_q_gaussian
    values, index = distinct(log_q(votes, noise_std))
    answer = StepCosts(curves=gaussian_curves(values, noise_std), index=index)
    return QueryCosts(check=None, answer=answer, log_probability=np.zeros(len(index)))


def lnmax_costs(votes: Any, *, scale: float) -> QueryCosts:
    """Costs of LNMax, which answers every query with Laplace noise on every count.

    Args:
        votes: Counts [N, K], one vote per teacher.
        scale: The Laplace distribution's scale b; one answer is 2/b-DP.

    Raises:
        ValueError: Votes that are none (the row is named), scale out of range.
    """
    values, index = distinct(log_q_laplace(votes, scale))
    answer = StepCosts(curves=laplace_curves(values, scale), index=index)
    return QueryCosts(check=None, answer=answer, log_probability=np.zeros(len(index)))


def confident_gnmax_costs(
    votes: Any,
    *,
    threshold: float,
    sigma1: float,
    sigma2: float,
    check_counts: Any = None,
    per_class_noise: bool = False,
    exact: bool = False,
) -> QueryCosts:
    """Costs of Confident-GNMax and, with `check_counts`, of Interactive-GNMax.

    Args:
        votes: Counts [N, K], one vote per teacher.
        threshold: What the largest count plus noise must reach, 0 or above.
        sigma1: Standard deviation of the noise of the check.
        sigma2: Standard deviation of the noise on every count of the answer.
        check_counts: What the check sees instead of the votes [N, K], floats.
        per_class_noise: The check noises every count and takes the largest (the published code of
            "Antipodes of Label DP"). Priced as the release of all noisy counts: order / sigma1^2
            for any votes, twice the price of one noise, and no data-dependent saving.
        exact: Compute the probability of a surprising answer by quadrature instead of bounding it.

    Raises:
        ValueError: Votes that are none (the row is named), noise or threshold out of range.
    """
    checked = checked_votes(votes)
    compared = checked if check_counts is None else check_counts
    probability = (
        log_probability_answered_per_class if per_class_noise else log_probability_answered
    )
    log_p = probability(compared, threshold, sigma1)
    if len(log_p) != len(checked):
        raise ValueError(
            f"check_counts has {len(log_p)} rows, votes {len(checked)}; they are the same queries"
        )
    if per_class_noise:
        check = StepCosts(
            curves=constant_curves(sigma1**-2.0), index=np.zeros(len(log_p), dtype=np.intp)
        )
    else:
        values, index = distinct(log_surprise(log_p))
        check = StepCosts(curves=gaussian_curves(values, math.sqrt(2) * sigma1), index=index)
    answer = gnmax_costs(checked, noise_std=sigma2, exact=exact).answer
    return QueryCosts(check=check, answer=answer, log_probability=log_p)

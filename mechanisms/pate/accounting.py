"""Costs of PATE's answers with the votes that were cast, as Renyi curves that add up.

Papernot et al., "Scalable Private Learning with PATE", ICLR 2018 (arXiv:1802.08908). Two totals:

- *expected*, the papers' number: the cost of an answer times the probability that it is given. An
  average over the aggregator's noise, not a guarantee.
- *realised*: every query that was checked pays for its check, every answer that was given pays in
  full. Renyi costs of adaptively chosen queries add as long as the budget is fixed beforehand.

Both are functions of the votes, and so private: publish a sanitized value (`release_epsilon`) or
the price for any votes (`events` of the aggregators). Equal curves are held, and computed, once.

>>> costs = confident_gnmax_costs(
...     [[240, 10], [130, 120], [250, 0]], threshold=200.0, sigma1=150.0, sigma2=40.0)
>>> costs.expected(delta=1e-5)
PateCost(epsilon=0.1246..., order=68.5, answered=1.556...)
>>> costs.realised([True, False, True], delta=1e-5).answered
2.0
>>> cheap, correct = expected_of_settings([[240, 10]], [[150.0, 40.0, 200.0]], delta=1e-5)
>>> cheap.epsilon.round(4), cheap.answered.round(3), correct.round(3)
(array([0.0958]), array([0.605]), array([0.605]))
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    conversion_offsets,
    epsilon_from_rdp,
)
from labeldp.mechanisms.pate.decisions import Accounting, decision_rdp_gnmax
from labeldp.mechanisms.pate.exact_costs import TabulatedCurves, exact_answers, exact_checks
from labeldp.mechanisms.pate.published_bounds import (
    RenyiCurves,
    checked_noise,
    checked_orders,
    distinct,
    gaussian_curves,
    gaussian_tail,
    laplace_curves,
    log_probability_answered,
    log_probability_answered_per_class,
    log_q_gaussian,
    log_q_gaussian_exact,
    log_q_laplace,
    log_surprise,
    sorted_gaps,
    union_bound,
)
from labeldp.mechanisms.pate.votes import Floats, checked_counts, checked_votes

#: Entries of a chunk of queries times orders: half a megabyte, so that it stays in the cache.
_CHUNK_ENTRIES = 2**16
#: Where the different curves fit into this many entries they are tabulated once.
_TABLE_ENTRIES = 2**20
#: Settings that share one pass over the curves of their answers.
_SETTINGS_AT_ONCE = 64

Number = TypeVar("Number", float, Floats)


class CheckNoise(StrEnum):
    """What the check of Confident-GNMax adds its noise to.

    ON_MAXIMUM: one noise on the largest count, which one vote moves by 1 (PATE 2018).
    PER_CLASS: a noise on every count, then the largest, as in the published code of "Antipodes of
        Label DP" (arXiv:2106.03408). Priced for any votes: as an answer with this noise, or by the
        counts, of which one vote moves two. It also passes far more often.
    """

    ON_MAXIMUM = "on_maximum"
    PER_CLASS = "per_class"


@dataclass(frozen=True, kw_only=True)
class PateCost(Generic[Number]):
    """Cost of one run, or of many runs with an array in each field.

    Attributes:
        epsilon: At the delta that was requested.
        order: The Renyi order that gave it.
        answered: Queries answered: a count if realised, an expectation if expected.
    """

    epsilon: Number
    order: Number
    answered: Number


@dataclass(frozen=True, kw_only=True, eq=False)
class _StepCosts:
    """One step of every query: U different curves, and which of them each query has [N]."""

    curves: RenyiCurves | TabulatedCurves
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

    def head(self, queries: int) -> "_StepCosts":
        """Return the first `queries` queries."""
        return _StepCosts(curves=self.curves, index=self.index[:queries])


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryCosts:
    """Costs of N queries: of checking each, of answering each, and how likely it is answered.

    Attributes:
        check: Cost of the check; None for aggregators that answer everything.
        answer: Cost of the answer, where it is given.
        log_probability: Log probability that a query is answered [N].
    """

    check: _StepCosts | None
    answer: _StepCosts
    log_probability: Floats

    def __len__(self) -> int:
        """N."""
        return len(self.log_probability)

    def head(self, queries: int) -> "QueryCosts":
        """Costs of the first `queries` queries, from 1 to N."""
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
    ) -> PateCost[float]:
        """The papers' cost: each answer weighted with its probability. Not a guarantee.

        The PATE papers used `Conversion.MIRONOV`.
        """
        return self._cost(np.exp(self.log_probability), delta, conversion, orders)

    def realised(
        self,
        answered: ArrayLike,
        *,
        delta: float,
        conversion: Conversion = Conversion.IMPROVED,
        orders: ArrayLike = ORDERS,
    ) -> PateCost[float]:
        """The cost of checking every query and answering those in `answered`, bool [N]."""
        return self._cost(self._answered(answered), delta, conversion, orders)

    def _cost(
        self, weights: Floats, delta: float, conversion: Conversion, orders: ArrayLike
    ) -> PateCost[float]:
        checked = checked_orders(orders)
        epsilon, order = epsilon_from_rdp(checked, self._rdp(weights, checked), delta, conversion)
        return PateCost(epsilon=epsilon, order=order, answered=float(weights.sum()))

    def prefixes(
        self,
        answered: ArrayLike | None = None,
        *,
        delta: float,
        conversion: Conversion = Conversion.IMPROVED,
        orders: ArrayLike = ORDERS,
    ) -> PateCost[Floats]:
        """Cost of the first query, the first two, ...: expected, or realised by `answered` [N]."""
        weights = np.exp(self.log_probability) if answered is None else self._answered(answered)
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
        return PateCost(epsilon=np.maximum(epsilon, 0.0), order=order, answered=np.cumsum(weights))

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


def gnmax_costs(
    votes: Any,
    *,
    noise_std: float,
    exact: bool = False,
    accounting: Accounting = Accounting.COUNTS,
) -> QueryCosts:
    """Costs of GNMax, which answers every query.

    With `exact` the probability of a surprise is computed by quadrature instead of bounded; exact
    divergences, `Accounting.DECISION`, need no such probability.
    """
    if accounting is Accounting.DECISION:
        checked_noise(noise_std=noise_std)
        return _always_answered(*exact_answers(checked_votes(votes), noise_std))
    log_q = log_q_gaussian_exact if exact else log_q_gaussian
    values, index = distinct(log_q(votes, noise_std))
    return _always_answered(gaussian_curves(values, noise_std), index)


def lnmax_costs(votes: Any, *, scale: float) -> QueryCosts:
    """Costs of LNMax, which answers every query with Laplace noise on every count."""
    values, index = distinct(log_q_laplace(votes, scale))
    return _always_answered(laplace_curves(values, scale), index)


def _always_answered(curves: RenyiCurves | TabulatedCurves, index: NDArray[np.intp]) -> QueryCosts:
    answer = _StepCosts(curves=curves, index=index)
    return QueryCosts(check=None, answer=answer, log_probability=np.zeros(len(index)))


def confident_gnmax_costs(
    votes: Any,
    *,
    threshold: float,
    sigma1: float,
    sigma2: float,
    check_counts: Any = None,
    check_noise: CheckNoise = CheckNoise.ON_MAXIMUM,
    accounting: Accounting = Accounting.COUNTS,
) -> QueryCosts:
    """Costs of Confident-GNMax and, with `check_counts`, of Interactive-GNMax.

    The check sees `check_counts`, floats [N, K], instead of the votes.
    """
    checked = checked_votes(votes)
    compared = checked if check_counts is None else check_counts
    if check_noise is CheckNoise.PER_CLASS:
        log_p = log_probability_answered_per_class(compared, threshold, sigma1)
    else:
        log_p = log_probability_answered(compared, threshold, sigma1)
    if len(log_p) != len(checked):
        raise ValueError(
            f"check_counts has {len(log_p)} rows, votes {len(checked)}; they are the same queries"
        )
    answer = gnmax_costs(checked, noise_std=sigma2, accounting=accounting).answer
    curves: RenyiCurves | TabulatedCurves
    match check_noise, accounting:
        case CheckNoise.PER_CLASS, Accounting.COUNTS:
            curves = TabulatedCurves.of(1, lambda orders: (sigma1**-2.0 * orders)[None])
            index = np.zeros(len(log_p), dtype=np.intp)
        case CheckNoise.PER_CLASS, _:
            curves = TabulatedCurves.of(1, lambda orders: decision_rdp_gnmax(sigma1, orders)[None])
            index = np.zeros(len(log_p), dtype=np.intp)
        case _, Accounting.COUNTS:
            values, index = distinct(log_surprise(log_p))
            curves = gaussian_curves(values, math.sqrt(2) * sigma1)
        case _:
            curves, index = exact_checks(checked_counts(compared), threshold, sigma1)
    check = _StepCosts(curves=curves, index=index)
    return QueryCosts(check=check, answer=answer, log_probability=log_p)


def expected_of_settings(
    votes: Any,
    settings: ArrayLike,
    *,
    delta: float,
    max_answers: int | None = None,
    conversion: Conversion = Conversion.IMPROVED,
    orders: ArrayLike = ORDERS,
) -> tuple[PateCost[Floats], Floats]:
    """Expected cost of Confident-GNMax over all queries [S], and correct answers [S].

    The same numbers as `confident_gnmax_costs(...).expected(...)` for each row (sigma1, sigma2,
    threshold) of `settings` [S, 3]. Where more answers are expected than `max_answers`, the share
    of the queries that yields so many is priced, as if the queries came in random order. An answer
    counts as correct if it is the teachers' plurality; the number is a lower bound.
    """
    checked = _checked_settings(settings)
    ascending = np.unique(checked_orders(orders))
    offsets = conversion_offsets(ascending, delta, conversion)
    merged = _MergedVotes.of(checked_votes(votes))
    answered, correct = np.empty(len(checked)), np.empty(len(checked))
    rdp = np.empty((len(checked), len(ascending)))
    for sigma2 in np.unique(checked[:, 1]):
        values, curve_of = distinct(union_bound(merged.gaps, gaussian_tail(float(sigma2))))
        curves = gaussian_curves(values, float(sigma2))
        sharing = np.flatnonzero(checked[:, 1] == sigma2)
        for start in range(0, len(sharing), _SETTINGS_AT_ONCE):
            part = sharing[start : start + _SETTINGS_AT_ONCE]
            weights = np.empty((len(part), len(values)))
            for row, s in enumerate(part):
                sigma1, _, threshold = checked[s].tolist()
                rdp[s], given = merged.checks(threshold, sigma1, ascending)
                weights[row] = np.bincount(curve_of, weights=given, minlength=len(values))
            rdp[part] += curves.weighted_sums(weights, ascending)
            answered[part] = weights.sum(axis=1)
            correct[part] = weights @ -np.expm1(values)
    if max_answers is not None:
        _validate.whole(minimum=1, max_answers=max_answers)
        share = np.minimum(1.0, max_answers / np.maximum(answered, 1e-300))
        rdp, answered, correct = rdp * share[:, None], answered * share, correct * share
    costs = rdp + offsets
    best = costs.argmin(axis=1)
    epsilon = np.maximum(costs[np.arange(len(costs)), best], 0.0)
    return PateCost(epsilon=epsilon, order=ascending[best], answered=answered), correct


def _checked_settings(settings: ArrayLike) -> Floats:
    array = np.asarray(settings, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 3 or len(array) == 0:
        raise ValueError(
            f"settings has shape {array.shape}; it must be [S, 3], rows (sigma1, sigma2, threshold)"
        )
    for s, (sigma1, sigma2, threshold) in enumerate(array.tolist()):
        try:
            checked_noise(sigma1=sigma1, sigma2=sigma2)
            _validate.non_negative(threshold=threshold)
        except ValueError as error:
            raise ValueError(f"settings row {s}: {error}") from None
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class _MergedVotes:
    """Votes with equal histograms merged into H, and these by their P largest counts.

    gaps are [H, K - 1], `times` how often each histogram occurs [H], `peak_of` which of `peaks` [P]
    it has [H], `peak_times` how many votes have each of them [P].
    """

    gaps: NDArray[np.int64]
    times: NDArray[np.intp]
    peaks: NDArray[Any]
    peak_of: NDArray[np.intp]
    peak_times: NDArray[Any]

    @classmethod
    def of(cls, votes: NDArray[Any]) -> "_MergedVotes":
        histograms, times = np.unique(np.sort(votes, axis=1), axis=0, return_counts=True)
        peaks, peak_of = np.unique(histograms[:, -1], return_inverse=True)
        return cls(
            gaps=sorted_gaps(histograms),
            times=times,
            peaks=peaks,
            peak_of=peak_of,
            peak_times=np.bincount(peak_of, weights=times),
        )

    def checks(self, threshold: float, sigma1: float, orders: Floats) -> tuple[Floats, Floats]:
        """Renyi costs of all checks [A], and how many of each histogram pass on average [H]."""
        log_p = log_ndtr((self.peaks - threshold) / sigma1)
        surprise, kind = distinct(log_surprise(log_p))
        multiplicity = np.bincount(kind, weights=self.peak_times).astype(np.float64)
        check = gaussian_curves(surprise, math.sqrt(2) * sigma1)
        rdp = check.weighted_sums(multiplicity[None], orders)[0]
        return rdp, np.exp(log_p)[self.peak_of] * self.times

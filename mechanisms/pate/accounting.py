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
>>> costs.cost(delta=1e-5)
PateCost(epsilon=0.1246..., order=68.5, answered=1.556...)
>>> costs.cost(answered=[True, False, True], delta=1e-5).answered
2.0
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import checked_counts, checked_mask, checked_votes
from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    epsilon_from_rdp,
)
from labeldp.mechanisms.pate.decisions import (
    Accounting,
    TabulatedCurves,
    decision_rdp_gnmax,
    exact_answers,
    exact_checks,
)
from labeldp.mechanisms.pate.published_bounds import (
    Floats,
    RenyiCurves,
    checked_noise,
    checked_orders,
    gaussian_curves,
    laplace_curves,
    log_probability_answered,
    log_probability_answered_per_class,
    log_q_gaussian,
    log_q_laplace,
    log_surprise,
)


class CheckNoise(StrEnum):
    """The counts to which the check of Confident-GNMax adds noise.

    ON_MAXIMUM: one noise on the largest count, which one vote moves by 1 (PATE 2018).
    PER_CLASS: a noise on every count, then the largest, as in the published code of "Antipodes of
        Label DP" (arXiv:2106.03408). Priced for any votes: as an answer with this noise, or by the
        counts, of which one vote moves two. It also passes far more often.
    """

    ON_MAXIMUM = "on_maximum"
    PER_CLASS = "per_class"


@dataclass(frozen=True, kw_only=True)
class PateCost:
    """Cost of one run.

    `order` is the Renyi order that gave epsilon; `answered` counts the queries answered, by their
    probability if the cost is the expected one.
    """

    epsilon: float
    order: float
    answered: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Step:
    """One step of every query: U different curves, and which of them each query has [N]."""

    curves: RenyiCurves | TabulatedCurves
    index: NDArray[np.intp]

    def total(self, weights: Floats, orders: Floats) -> Floats:
        """Sum of weight times curve over the queries [A]; weights [N]."""
        per_curve = np.bincount(self.index, weights, len(self.curves)).astype(np.float64)
        used = per_curve > 0
        curves = self.curves if used.all() else self.curves.take(used)
        return curves.weighted_sum(per_curve[used], orders)


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryCosts:
    """Costs of N queries: of checking each, of answering each, and how likely it is answered.

    `check` is None for aggregators that answer everything; `log_probability` is that of an answer
    [N]. The PATE papers convert to epsilon with `Conversion.MIRONOV`.
    """

    check: _Step | None
    answer: _Step
    log_probability: Floats

    def __len__(self) -> int:
        return len(self.log_probability)

    def head(self, queries: int) -> "QueryCosts":
        """Costs of the first `queries` queries, from 1 to N."""
        if not 1 <= queries <= len(self):
            raise ValueError(
                f"queries is {queries}; costs of 1 to {len(self)} queries are known here"
            )
        return QueryCosts(
            check=self.check and replace(self.check, index=self.check.index[:queries]),
            answer=replace(self.answer, index=self.answer.index[:queries]),
            log_probability=self.log_probability[:queries],
        )

    def _paid(self, answered: ArrayLike | None) -> Floats:
        """How much of each answer is paid [N]: its probability, or all where it was given."""
        if answered is None:
            return np.asarray(np.exp(self.log_probability))
        return checked_mask(answered, len(self)).astype(np.float64)

    def rdp(self, orders: ArrayLike = ORDERS, *, answered: ArrayLike | None = None) -> Floats:
        """Renyi curve of checking every query and of the answers [A]; see `cost`."""
        ascending, back = np.unique(checked_orders(orders), return_inverse=True)
        total = self.answer.total(self._paid(answered), ascending)
        if self.check is not None:
            total += self.check.total(np.ones(len(self)), ascending)
        return total[back]

    def cost(
        self,
        *,
        delta: float,
        answered: ArrayLike | None = None,
        conversion: Conversion = Conversion.IMPROVED,
        orders: ArrayLike = ORDERS,
    ) -> PateCost:
        """The cost of checking every query and answering those in `answered`, bool [N].

        If not given, that of the papers: each answer weighted with its probability, which is not a
        guarantee.
        """
        curve = self.rdp(orders, answered=answered)
        epsilon, order = epsilon_from_rdp(orders, curve, delta, conversion)
        return PateCost(epsilon=epsilon, order=order, answered=float(self._paid(answered).sum()))

    def until(self, max_answers: int | None) -> "QueryCosts":
        """Costs of the first queries of which so many answers are expected; all if of none."""
        if max_answers is None:
            return self
        _validate.enough_queries(max_answers, len(self))
        stop = int(np.searchsorted(np.cumsum(self._paid(None)), max_answers))
        return self.head(min(stop + 1, len(self)))


def gnmax_costs(
    votes: ArrayLike, *, noise_std: float, accounting: Accounting = Accounting.COUNTS
) -> QueryCosts:
    """Costs of GNMax, which answers every query."""
    if accounting is Accounting.DECISION:
        checked_noise(noise_std=noise_std)
        return _always_answered(*exact_answers(checked_votes(votes), noise_std))
    values, index = np.unique(log_q_gaussian(votes, noise_std), return_inverse=True)
    return _always_answered(gaussian_curves(values, noise_std), index)


def lnmax_costs(votes: ArrayLike, *, scale: float) -> QueryCosts:
    """Costs of LNMax, which answers every query with Laplace noise on every count."""
    values, index = np.unique(log_q_laplace(votes, scale), return_inverse=True)
    return _always_answered(laplace_curves(values, scale), index)


def _always_answered(curves: RenyiCurves | TabulatedCurves, index: NDArray[np.intp]) -> QueryCosts:
    answer = _Step(curves=curves, index=index)
    return QueryCosts(check=None, answer=answer, log_probability=np.zeros(len(index)))


def confident_gnmax_costs(
    votes: ArrayLike,
    *,
    threshold: float,
    sigma1: float,
    sigma2: float,
    check_counts: ArrayLike | None = None,
    check_noise: CheckNoise = CheckNoise.ON_MAXIMUM,
    accounting: Accounting = Accounting.COUNTS,
) -> QueryCosts:
    """Costs of Confident-GNMax and, with `check_counts`, of Interactive-GNMax.

    Args:
        votes: Number of teachers for each class, integers [N, K].
        threshold: A query is answered if its largest count, with noise, is larger.
        sigma1: Standard deviation of the check's noise.
        sigma2: Standard deviation of the answer's noise.
        check_counts: Floats [N, K] that the check sees instead of the votes.
        check_noise: Whether the check adds noise to the largest count, or to each class.
        accounting: Whether the cost depends on the votes.
    """
    checked = checked_votes(votes)
    compared = checked if check_counts is None else check_counts
    if check_noise is CheckNoise.PER_CLASS:
        log_p = log_probability_answered_per_class(compared, threshold, sigma1)
    else:
        log_p = log_probability_answered(compared, threshold, sigma1)
    _validate.same_length(check_counts=len(log_p), votes=len(checked))
    answer = gnmax_costs(checked, noise_std=sigma2, accounting=accounting).answer
    curves: RenyiCurves | TabulatedCurves
    index = np.zeros(len(log_p), dtype=np.intp)
    match check_noise, accounting:
        case CheckNoise.PER_CLASS, Accounting.COUNTS:
            curves = TabulatedCurves(1, lambda orders: (sigma1**-2.0 * orders)[None])
        case CheckNoise.PER_CLASS, _:
            curves = TabulatedCurves(1, lambda orders: decision_rdp_gnmax(sigma1, orders)[None])
        case _, Accounting.COUNTS:
            values, index = np.unique(log_surprise(log_p), return_inverse=True)
            curves = gaussian_curves(values, math.sqrt(2) * sigma1)
        case _:
            curves, index = exact_checks(checked_counts(compared), threshold, sigma1)
    check = _Step(curves=curves, index=index)
    return QueryCosts(check=check, answer=answer, log_probability=log_p)

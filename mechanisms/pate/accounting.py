"""Costs of PATE's answers with the votes that were cast, as Renyi curves that add up.

Papernot et al., "Scalable Private Learning with PATE", ICLR 2018 (arXiv:1802.08908). Two totals:

- *expected*, the papers' number: the cost of an answer times the probability that it is given. An
  average over the aggregator's noise, not a guarantee.
- *realised*: every query that was checked pays for its check, every answer that was given pays in
  full. Renyi costs of adaptively chosen queries add as long as the budget is fixed beforehand.

Both are functions of the votes, and so private: publish a sanitized value (`release_epsilon`) or
the price for any votes (`events` of the aggregators). Equal curves are held, and computed, once.

**The published bounds.** An almost certain answer reveals little about any single vote. log q
bounds the log probability of any answer but the most likely one (PATE 2018, Proposition 7; Laplace
noise: ICLR 2017, arXiv:1610.05755, Lemma 4), and gives a curve

    rdp(order) = min(ceiling(order), log(exp(a + t A) + exp(b + t B)) / t),   t = order - 1,

whose ceiling holds for any votes: PATE 2018, Theorem 6 with the parameters of Proposition 10;
Laplace noise: PATE 2017, Theorem 3, with its condition as in 2018. Everything is in logs: with
5,000 unanimous teachers q underflows.

>>> log_q = log_q_gaussian([[240, 10], [130, 120]], noise_std=40.0)
>>> log_q.round(3), rdp_gnmax(log_q, noise_std=40.0, orders=[2.0, 100.0]).round(6)
(array([-10.64 ,  -0.844]), array([[8.0000e-06, 5.6283e-02],
       [1.2500e-03, 6.2500e-02]]))
>>> costs = confident_gnmax_costs(
...     [[240, 10], [130, 120], [250, 0]], threshold=200.0, sigma1=150.0, sigma2=40.0)
>>> costs.cost(delta=1e-5)
PateCost(epsilon=0.1246..., order=68.5, answered=1.556...)
>>> costs.cost(answered=[True, False, True], delta=1e-5).answered
2.0
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import (
    Floats,
    checked_counts,
    checked_mask,
    checked_noise,
    checked_orders,
    checked_votes,
    whole_maximum,
)
from labeldp.mechanisms.accounting import ORDERS, Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate.decisions import (
    MOST_OUTCOMES,
    Accounting,
    Curves,
    decision_rdp_gnmax,
    exact_answers,
    exact_checks,
)

#: exp() of more than this overflows; such blocks take the slower way.
_LARGE_EXPONENT = 700.0
#: A probability below this is charged as this much: dearer, and finite.
_TINY = 1e-300
#: Rows are taken in chunks of about this many counts, so that memory does not grow with N.
_CHUNK_ENTRIES = 2**21
#: Sums of probabilities below this are taken in logs.
_SMALL_SUM = 1e-280


def log1mexp(x: Floats) -> Floats:
    """log(1 - exp(x)) for x <= 0, accurate at both ends; -inf at 0."""
    with np.errstate(divide="ignore"):
        near = np.log(-np.expm1(np.maximum(x, -1.0)))
        result: Floats = np.where(x > -math.log(2), near, np.log1p(-np.exp(x)))
    return result


def union_bound(gaps: NDArray[np.int64], log_tail: Callable[[Floats], Floats]) -> Floats:
    """Log of the sum over classes of exp(log_tail(gap)) [N], at most that of a uniform guess."""
    num_classes = gaps.shape[1] + 1
    widest = int(gaps.max())
    if widest < max(gaps.size, 4096):  # gaps are whole numbers: look their tails up
        table = log_tail(np.arange(widest + 1, dtype=np.float64))
        sums = np.exp(table)[gaps].sum(axis=1)
    else:
        table = None
        sums = np.exp(log_tail(gaps.astype(np.float64))).sum(axis=1)
    small = sums < _SMALL_SUM
    result = np.log(np.where(small, 1.0, sums))
    if small.any():
        far = gaps[small]
        logs = log_tail(far.astype(np.float64)) if table is None else table[far]
        with np.errstate(divide="ignore", invalid="ignore"):
            result[small] = logsumexp(logs, axis=1)
    # A leader is at least as likely as any other class: no answer but it has above 1 - 1/K.
    return np.minimum(result, math.log1p(-1 / num_classes))


def _log_q(votes: ArrayLike, log_tail: Callable[[Floats], Floats]) -> Floats:
    """Union bound [N], by the log probability that the noise of two counts makes up for a gap."""
    checked = checked_votes(votes)
    result = np.empty(len(checked))
    for rows in _validate.blocks(*checked.shape, entries=_CHUNK_ENTRIES):
        # Sorting makes equal histograms equal to the last bit, so that they are priced once.
        ascending = np.sort(checked[rows], axis=1).astype(np.int64)
        result[rows] = union_bound(ascending[:, -1:] - ascending[:, :-1], log_tail)
    return result


def log_q_gaussian(votes: ArrayLike, noise_std: float) -> Floats:
    """Log of a bound on the probability that GNMax does not answer with the plurality [N].

    The sum over the other classes of the probability that each overtakes the leader, at most 1 -
    1/K (PATE 2018, Proposition 7).
    """
    checked_noise(noise_std=noise_std)
    factor = -1 / (math.sqrt(2) * noise_std)
    return _log_q(votes, lambda gap: np.asarray(log_ndtr(factor * gap), dtype=np.float64))


def log_q_laplace(votes: ArrayLike, scale: float) -> Floats:
    """The same for LNMax with Laplace noise of `scale` (PATE 2017, Lemma 4) [N]."""
    checked_noise(scale=scale)
    return _log_q(votes, lambda gap: np.log((2 + gap / scale) / 4) - gap / scale)


def log_probability_answered(votes: ArrayLike, threshold: float, sigma1: float) -> Floats:
    """Log probability that the largest count plus Gaussian noise reaches the threshold [N].

    votes are [N, K]; for Interactive-GNMax floats, less the student's guess. The largest count is
    rounded to a whole number, as in the mechanism.
    """
    checked_noise(sigma1=sigma1)
    _validate.non_negative(threshold=threshold)
    peak = whole_maximum(checked_counts(votes))
    return np.asarray(log_ndtr((peak - threshold) / sigma1), dtype=np.float64)


def log_probability_answered_per_class(votes: ArrayLike, threshold: float, sigma1: float) -> Floats:
    """Log probability that any count plus its own Gaussian noise reaches the threshold [N]."""
    checked_noise(sigma1=sigma1)
    _validate.non_negative(threshold=threshold)
    counts = checked_counts(votes)
    result = np.empty(len(counts))
    for rows in _validate.blocks(*counts.shape, entries=_CHUNK_ENTRIES):
        below = log_ndtr((threshold - counts[rows]) / sigma1).sum(axis=1)
        result[rows] = log1mexp(np.minimum(below, 0.0))
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class _Formula:
    """Renyi curves of U kinds of query, each by the numbers of the module's formula.

    `head` is a, `head_slope` A, `tail` b, `tail_slope` B, all [U]. From the orders `reach` [U] on
    the ceiling holds instead of the formula: min(ceiling_slope * order, ceiling_cap).
    """

    head: Floats
    head_slope: Floats
    tail: Floats
    tail_slope: Floats
    reach: Floats
    ceiling_slope: float
    ceiling_cap: float = math.inf

    def __call__(self, kinds: NDArray[np.intp], orders: Floats) -> Floats:
        """Return the curves of some kinds [M] at ascending orders [M, A]."""
        ceiling = np.minimum(self.ceiling_slope * orders, self.ceiling_cap)
        below = np.searchsorted(orders, self.reach[kinds])
        # Kinds are sorted, so that those of a block reach about as far: all beyond is ceiling.
        widest = int(below.max())
        narrowest = int(below.min())
        steps = orders[:widest] - 1
        head = self.head[kinds, None]
        head_slope = self.head_slope[kinds, None]
        result = np.empty((len(kinds), len(orders)))
        values = result[:, :widest]
        np.multiply(self.tail_slope[kinds, None] - head_slope, steps, out=values)
        values += self.tail[kinds, None] - head
        # log(e^u + e^v) = u + log1p(e^(v - u)); `values` is v - u
        if widest and values.max() > _LARGE_EXPONENT:
            values[:] = np.logaddexp(0.0, values)
        else:
            np.exp(values, out=values)
            np.log1p(values, out=values)
        values += head
        values /= steps
        values += head_slope
        np.maximum(values, 0.0, out=values)
        np.minimum(values, ceiling[:widest], out=values)  # twenty times faster than np.clip
        outside = np.arange(narrowest, len(orders)) >= below[:, None]
        np.copyto(result[:, narrowest:], ceiling[narrowest:], where=outside)
        return result


def gaussian_curves(log_q: Floats, noise_std: float) -> Curves:
    """Curves of an argmax over counts with Gaussian noise of `noise_std` on each, at log q [N]."""
    log_q, index = np.unique(log_q, return_inverse=True)
    precision = noise_std**-2.0
    certain = np.isneginf(log_q)
    finite = np.where(certain, -1.0, log_q)
    # Proposition 10: mu2 = s sqrt(log 1/q), mu1 = mu2 + 1, eps_i = mu_i / s^2
    mu2 = noise_std * np.sqrt(-finite)
    # Both need mu2 > 1: Theorem 6 itself, and log 1/q > eps2 (they coincide for these parameters).
    usable = mu2 > 1
    mu2_safe = np.where(usable, mu2, 2.0)
    log_bound = (mu2_safe - 1) * mu2_safe * precision - mu2_safe * np.log1p(2 / (mu2_safe - 1))
    usable &= finite <= log_bound
    head = np.where(usable, np.log1p(-np.exp(finite)) if usable.any() else 0.0, 0.0)
    exponent = np.where(usable, (finite + mu2_safe * precision) * (1 - 1 / mu2_safe), -1.0)
    head_slope = np.where(usable, head - log1mexp(exponent), 0.0)
    formula = _Formula(
        head=np.where(certain, 0.0, head),
        head_slope=np.where(certain, 0.0, head_slope),
        tail=np.where(certain, -np.inf, finite),
        tail_slope=np.where(usable & ~certain, (2 * mu2_safe + 1) * precision, 0.0),
        reach=np.where(certain, np.inf, np.where(usable, mu2 + 1, 0.0)),
        ceiling_slope=precision,
    )
    return Curves(index=index, kinds=len(log_q), compute=formula)


def laplace_curves(log_q: Floats, scale: float) -> Curves:
    """Curves of an argmax over counts with Laplace noise of `scale` on each, at log q [N]."""
    log_q, index = np.unique(log_q, return_inverse=True)
    epsilon = 2 / scale
    usable = log_q <= -np.logaddexp(0.0, epsilon)
    safe = np.where(usable, log_q, -1.0 - np.logaddexp(0.0, epsilon))
    head = np.log1p(-np.exp(safe))
    head_slope = head - log1mexp(safe + epsilon)
    formula = _Formula(
        head=np.where(usable, head, 0.0),
        head_slope=np.where(usable, head_slope, 0.0),
        tail=safe,
        tail_slope=np.full(log_q.shape, epsilon),
        reach=np.where(usable, np.inf, 0.0),
        ceiling_slope=epsilon**2 / 2,
        ceiling_cap=epsilon,
    )
    return Curves(index=index, kinds=len(log_q), compute=formula)


def log_surprise(log_p: Floats) -> Floats:
    """Log probability of the rarer outcome of a check that passes with log probability log p."""
    rarer = np.maximum(-np.expm1(log_p), _TINY)
    return np.minimum(log_p, np.log(rarer))


def _log_probability(values: ArrayLike, name: str) -> Floats:
    return _validate.row_of(
        values, name, lambda each: each <= 0, "the log of a probability is 0 or below"
    )


def rdp_gnmax(log_q: ArrayLike, noise_std: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of GNMax's answers [N, A] (PATE 2018, Theorem 6 and Propositions 8, 10).

    log_q [N] are bounds from `log_q_gaussian`.
    """
    checked_noise(noise_std=noise_std)
    return gaussian_curves(_log_probability(log_q, "log_q"), noise_std).rows(orders)


def rdp_threshold(log_p: ArrayLike, sigma1: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of Confident-GNMax's check of the largest count [N, A] (PATE 2018, 3.2).

    The check has two outcomes and sensitivity 1: it is GNMax over two classes whose noise is
    sqrt(2) times `sigma1`, and the surprise is its rarer outcome. log_p [N] is from
    `log_probability_answered`.
    """
    checked_noise(sigma1=sigma1)
    surprise = log_surprise(_log_probability(log_p, "log_p"))
    return gaussian_curves(surprise, math.sqrt(2) * sigma1).rows(orders)


def rdp_lnmax(log_q: ArrayLike, scale: float, orders: ArrayLike) -> Floats:
    """Renyi divergence of LNMax's answers [N, A] (PATE 2017, Theorem 3).

    log_q [N] are bounds from `log_q_laplace`; one answer is 2/scale-DP.
    """
    checked_noise(scale=scale)
    return laplace_curves(_log_probability(log_q, "log_q"), scale).rows(orders)


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
class QueryCosts:
    """Costs of N queries: of checking each, of answering each, and how likely it is answered.

    `check` is None for aggregators that answer everything; `log_probability` is that of an answer
    [N]. The PATE papers convert to epsilon with `Conversion.MIRONOV`.
    """

    check: Curves | None
    answer: Curves
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
        exact = exact_answers(checked_votes(votes), noise_std, most=MOST_OUTCOMES)
        return _always_answered(exact)
    return _always_answered(gaussian_curves(log_q_gaussian(votes, noise_std), noise_std))


def lnmax_costs(votes: ArrayLike, *, scale: float) -> QueryCosts:
    """Costs of LNMax, which answers every query with Laplace noise on every count."""
    return _always_answered(laplace_curves(log_q_laplace(votes, scale), scale))


def _always_answered(answer: Curves) -> QueryCosts:
    return QueryCosts(check=None, answer=answer, log_probability=np.zeros(len(answer.index)))


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
    match check_noise, accounting:
        case CheckNoise.PER_CLASS, _:
            counts = accounting is Accounting.COUNTS
            check = Curves.tabulated(
                np.zeros(len(log_p), dtype=np.intp),
                1,
                lambda o: (sigma1**-2.0 * o if counts else decision_rdp_gnmax(sigma1, o))[None],
            )
        case _, Accounting.COUNTS:
            check = gaussian_curves(log_surprise(log_p), math.sqrt(2) * sigma1)
        case _:
            check = exact_checks(checked_counts(compared), threshold, sigma1)
    return QueryCosts(check=check, answer=answer, log_probability=log_p)

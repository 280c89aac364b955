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
from enum import StrEnum
from typing import Any

import numpy as np

from labeldp.mechanisms.pate.decision_bounds import decision_rdp_gnmax, decision_rdp_threshold
from labeldp.mechanisms.pate.decision_events import Accounting
from labeldp.mechanisms.pate.exact_costs import exact_rdp_gnmax, exact_rdp_threshold
from labeldp.mechanisms.pate.exact_curves import checks_per_class, exact_answers, exact_checks
from labeldp.mechanisms.pate.probabilities import (
    log_probability_answered,
    log_probability_answered_per_class,
    log_q_gaussian,
    log_q_gaussian_exact,
    log_q_laplace,
    whole_maximum,
)
from labeldp.mechanisms.pate.query_costs import PateCost, PatePrefixCosts, QueryCosts, StepCosts
from labeldp.mechanisms.pate.renyi_bounds import (
    checked_noise,
    constant_curves,
    distinct,
    gaussian_curves,
    laplace_curves,
    log_surprise,
    rdp_gnmax,
    rdp_lnmax,
    rdp_threshold,
)
from labeldp.mechanisms.pate.votes import checked_counts, checked_votes

__all__ = [
    "Accounting",
    "CheckNoise",
    "PateCost",
    "PatePrefixCosts",
    "QueryCosts",
    "confident_gnmax_costs",
    "decision_rdp_gnmax",
    "decision_rdp_threshold",
    "exact_rdp_gnmax",
    "exact_rdp_threshold",
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


class CheckNoise(StrEnum):
    """What the check of Confident-GNMax adds its noise to.

    ON_MAXIMUM: one noise on the largest count, which one vote moves by 1: order / (2 sigma1^2), or
        less where the outcome is almost certain. The mechanism of PATE 2018.
    PER_CLASS: a noise on every count, then the largest, as in the published code of "Antipodes of
        Label DP" (arXiv:2106.03408). Priced for any votes: as an answer with this noise, or by
        the counts, of which one vote moves two, order / sigma1^2. It also passes far more often.
    """

    ON_MAXIMUM = "on_maximum"
    PER_CLASS = "per_class"


def gnmax_costs(
    votes: Any,
    *,
    noise_std: float,
    exact: bool = False,
    accounting: Accounting = Accounting.COUNTS,
) -> QueryCosts:
    """Costs of GNMax, which answers every query.

    Args:
        votes: Counts [N, K], one vote per teacher.
        noise_std: Standard deviation of the noise on every count.
        exact: Compute the probability of a surprise by quadrature instead of bounding it.
        accounting: The published bound, or the exact divergence, which needs no such probability.

    Raises:
        ValueError: Not vote counts (the row is named), noise out of range.
    """
    if accounting is Accounting.DECISION:
        checked_noise(noise_std=noise_std)
        curves, which = exact_answers(checked_votes(votes).astype(np.int64), noise_std)
        answer = StepCosts(curves=curves, index=which)
        return QueryCosts(check=None, answer=answer, log_probability=np.zeros(len(which)))
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
        ValueError: Not vote counts (the row is named), scale out of range.
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
    check_noise: CheckNoise = CheckNoise.ON_MAXIMUM,
    accounting: Accounting = Accounting.COUNTS,
) -> QueryCosts:
    """Costs of Confident-GNMax and, with `check_counts`, of Interactive-GNMax.

    Args:
        votes: Counts [N, K], one vote per teacher.
        threshold: What the largest count plus noise must reach, 0 or above.
        sigma1: Standard deviation of the noise of the check.
        sigma2: Standard deviation of the noise on every count of the answer.
        check_counts: What the check sees instead of the votes [N, K], floats.
        check_noise: What the check adds noise to; `CheckNoise` has the prices.
        accounting: The published bounds, or exact divergences.

    Raises:
        ValueError: Not vote counts (the row is named), noise or threshold out of range.
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
    check: StepCosts
    match check_noise, accounting:
        case CheckNoise.PER_CLASS, Accounting.COUNTS:
            once = np.zeros(len(log_p), dtype=np.intp)
            check = StepCosts(curves=constant_curves(sigma1**-2.0), index=once)
        case CheckNoise.PER_CLASS, _:
            curves, index = checks_per_class(len(log_p), sigma1)
            check = StepCosts(curves=curves, index=index)
        case _, Accounting.COUNTS:
            values, index = distinct(log_surprise(log_p))
            check = StepCosts(curves=gaussian_curves(values, math.sqrt(2) * sigma1), index=index)
        case _:
            peaks = whole_maximum(checked_counts(compared))
            curves, index = exact_checks(peaks, threshold, sigma1)
            check = StepCosts(curves=curves, index=index)
    return QueryCosts(check=check, answer=answer, log_probability=log_p)

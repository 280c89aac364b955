"""Gaussian noise scaled by smooth sensitivity: PATE 2018's own release of its cost, reproduced.

Papernot et al., ICLR 2018 (arXiv:1802.08908), Appendix B, Theorem 23. These are the numbers of the
paper's tables, and every one of them is secret: noise parameters are chosen with a full view of the
votes, the cost is an expectation over the check, its probabilities are taken for constants, and the
noise's scale would reveal the smooth sensitivity. To publish, use
`labeldp.mechanisms.pate.release_epsilon`.

>>> gnss_rdp(beta=0.0, noise_multiplier=5.0, order=2.0)
0.08
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate.published_bounds import (
    checked_orders,
    log_probability_answered,
    log_q_gaussian,
    rdp_threshold,
)
from labeldp.mechanisms.pate.published_cost import (
    AnswerPrice,
    local_sensitivity_gnmax,
    local_sensitivity_threshold,
    smooth_sensitivity,
)
from labeldp.mechanisms.pate.votes import checked_votes


def gnss_rdp(*, beta: float, noise_multiplier: float, order: float) -> float:
    """Renyi cost of a value plus N(0, noise_multiplier^2) times its beta-smooth sensitivity."""
    _validate.non_negative(beta=beta)
    _validate.positive(noise_multiplier=noise_multiplier)
    checked_orders([order])
    if 2 * order * beta >= 1:
        raise ValueError(
            f"order is {order:g}; with beta {beta:g} it must be below 1 / (2 beta) = "
            f"{1 / (2 * beta):g}"
        )
    spread = -0.5 * math.log1p(-2 * order * beta) + beta * order
    return order * math.exp(2 * beta) / noise_multiplier**2 + spread / (order - 1)


@dataclass(frozen=True, kw_only=True)
class PaperRelease:
    """The release that the paper would make; secret, all of it."""

    expected_answered: float
    rdp: float  # expected Renyi cost of the answers
    epsilon_before: float  # without the release, by Mironov's conversion
    epsilon_after: float
    beta: float  # best smoothing parameter
    smooth_sensitivity: float  # of the expected cost
    noise_multiplier: float  # best noise in units of the smooth sensitivity
    rdp_release: float
    noise_std: float  # of the published value


def paper_release(
    votes: Any, *, threshold: float, sigma1: float, sigma2: float, order: float, delta: float
) -> PaperRelease:
    """Reproduce the release of Confident-GNMax's expected cost, with the paper's search."""
    counts = checked_votes(votes)
    num_teachers = int(counts[0].sum())
    price = AnswerPrice(noise_std=sigma2, num_classes=counts.shape[1], order=order)
    log_p = log_probability_answered(counts, threshold, sigma1)
    answered = np.exp(log_p)
    rdp = float(rdp_threshold(log_p, sigma1, [order]).sum())
    rdp += float(answered @ price.price(log_q_gaussian(counts, sigma2)))
    sensitivity = local_sensitivity_threshold(counts, num_teachers, threshold, sigma1, order).sum(0)
    if not price.is_constant(num_teachers=num_teachers):
        price.require_conditions(num_teachers=num_teachers)
        sensitivity += answered @ local_sensitivity_gnmax(counts, num_teachers, sigma2, order)

    def with_beta(beta: float) -> tuple[float, float, float, float]:
        smooth = smooth_sensitivity(sensitivity, beta)
        multiplier = (order * math.exp(2 * beta) / smooth) ** (1 / 3)
        release = gnss_rdp(beta=beta, noise_multiplier=multiplier, order=order)
        return beta, smooth, multiplier, release

    tried = [with_beta(float(beta) / order) for beta in np.arange(0.3, 0.495, 0.01)]
    best = min(tried, key=lambda found: found[3] + 2 * found[1] * found[2])
    beta, smooth, multiplier, release = best
    before = epsilon_from_rdp([order], [rdp], delta, Conversion.MIRONOV)[0]
    return PaperRelease(
        expected_answered=float(answered.sum()),
        rdp=rdp,
        epsilon_before=before,
        epsilon_after=before + release,
        beta=beta,
        smooth_sensitivity=smooth,
        noise_multiplier=multiplier,
        rdp_release=release,
        noise_std=smooth * multiplier,
    )

"""Publishing what PATE cost: an epsilon that is safe to show, with the price of showing it.

The data-dependent epsilon of PATE is computed from secret votes, so printing it leaks. This module
publishes an upper bound on it instead, with noise scaled to its smooth sensitivity (Nissim,
Raskhodnikova and Smith 2007; Papernot et al., ICLR 2018, arXiv:1802.08908, Appendix B).

**Why not as in the paper.** The paper publishes D + SS * N(0, s^2), D the Renyi cost and SS its
smooth sensitivity. That one number is private, but nobody can read a bound from it: the bound
D + SS * s * (noise + z) needs SS, which is secret too (tests repeat the paper's numbers). Its
parameters are chosen with a full view of the votes, and its cost is an expectation over the check
whose probabilities are taken for constants. Here instead:

1. One changed label moves log SS by at most beta. So log SS is published with Gaussian noise of
   beta * `sensitivity_multiplier` and raised by z standard deviations: a public U, above SS but for
   a probability of tail/2. Renyi cost: order / (2 sensitivity_multiplier^2).
2. D is published with Gaussian noise of U * `cost_multiplier`, which is public now. Where U covers
   SS, the change that one label makes to D is at most U, and the Renyi cost is
   order / (2 cost_multiplier^2). Where U falls short, privacy is given up: tail/2, part of delta.
3. Raised by z standard deviations again, the noisy cost is a bound but for a probability of tail/2,
   part of delta too.
4. D is what was *realised*: every check, and the answers that were given. Which queries were
   answered is public, so given that, D depends on the votes through the prices alone.

**What the number is.** It is known when the answers are given, it is random, and other votes or
other noise show another one. So it is no guarantee, which is a promise about all outcomes, made
beforehand: it is an upper bound, after the fact, on what this run cost. As that it is sound with
the order fixed beforehand: but for a probability of `tail` it is at least the sum of the run's
Renyi costs at that order, its own price included, which is what a Renyi filter of that order
(Feldman and Zrnic 2021) compares with a budget. An order chosen by the outcome is not covered.
A guarantee takes a budget fixed beforehand and answers that stop at it; or a charge for all checks
and answers that were asked for, whatever the votes, as the ledger has it.

With two classes D is exact, and holds for both directions of a change (`two_class_costs`). With
more it is the sum of the bounds of Theorem 6 of PATE 2018, which speaks of one direction, from
these votes to changed ones; so what is published then is a bound in that direction
(docs/epsilon.md).

Everything in `SanitizedEpsilon` may be published, and nothing else: not the cost itself, not the
price of a query, not SS, not the probability of passing a check. Order, noise and tail must be
fixed before the votes are seen; `public_order` and `ReleaseNoise.public` are rules that need no
votes. A second release of the same votes costs again.

>>> votes = np.tile([[248, 2], [235, 15]], (500, 1))
>>> released = release_epsilon(votes, noise_std=40.0, threshold=200.0, sigma1=150.0,
...     delta=1e-5, order=8.0, generator=np.random.default_rng(0))
>>> round(released.epsilon, 2), round(released.epsilon_data_independent, 2)
(2.34, 4.54)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._arrays import as_numpy
from labeldp.mechanisms.accounting import Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate.answer_price import AnswerPrice, ConditionsFailed, checked_order
from labeldp.mechanisms.pate.local_sensitivity import (
    local_sensitivity_gnmax,
    local_sensitivity_threshold,
)
from labeldp.mechanisms.pate.publishing_noise import (
    GUESS_SHARE,
    TAIL_SHARE,
    ReleaseNoise,
    public_order,
    tail_deviations,
)
from labeldp.mechanisms.pate.secret_cost import SecretCost, cost_of_answers, cost_of_checks
from labeldp.mechanisms.pate.two_class_costs import ExactTables
from labeldp.mechanisms.pate.votes import checked_counts, checked_votes
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    NoiseGenerator,
    SecureGenerator,
    as_noise_generator,
)
from labeldp.mechanisms.secure_noise import rounded_sum

__all__ = [
    "AnswerPrice",
    "ConditionsFailed",
    "ReleaseNoise",
    "SanitizedEpsilon",
    "local_sensitivity_gnmax",
    "local_sensitivity_threshold",
    "public_order",
    "release_epsilon",
    "smooth_sensitivity",
]

#: Costs of up to 100 are computed to 1e-10 or better, and so is what one label moves them by: less
#: than this share of a sensitivity that the least noise is made for, at multipliers of up to 100.
_ROUNDING = 1e-5
_LEAST_NOISE = 1e-3


def log_smooth_sensitivity(ls_by_distance: Any, beta: float) -> float:
    """Log of `smooth_sensitivity`: it may be too small for a float; -inf where nothing moves."""
    _validate.non_negative(beta=beta)
    array = np.asarray(as_numpy(ls_by_distance), dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"ls_by_distance has shape {array.shape}; it must be [D], an entry per distance"
        )
    bad = np.flatnonzero(~((array >= 0) & np.isfinite(array)))
    if bad.size:
        raise ValueError(
            f"ls_by_distance[{bad[0]}] is {array[bad[0]]}; a sensitivity is finite, 0 or above"
        )
    with np.errstate(divide="ignore"):
        return float((np.log(array) - beta * np.arange(array.size)).max())


def smooth_sensitivity(ls_by_distance: Any, beta: float) -> float:
    """Largest local sensitivity, discounted by exp(-beta) per label of distance.

    It bounds the local sensitivity, and one changed label changes it by at most a factor of
    exp(beta).

    Args:
        ls_by_distance: Local sensitivity at distances 0, 1, ... [D].
        beta: 0 or above.

    Raises:
        ValueError: An entry that is no sensitivity, beta out of range.
    """
    return math.exp(log_smooth_sensitivity(ls_by_distance, beta))


@dataclass(frozen=True, kw_only=True)
class SanitizedEpsilon:
    """What may be published about the cost of answering; every field of it.

    Attributes:
        epsilon: An upper bound, after the fact, on what the answers and this release cost at
            `delta`: a random number, no (epsilon, delta)-DP of a mechanism (see the module's text),
            and with more than two classes a bound in one direction only, that of Theorem 6 of PATE
            2018, on which it rests: from these votes to changed ones (docs/epsilon.md).
        delta: At which costs are stated, tail included.
        tail: Part of delta: the probability that noise broke the bound or fell short of its scale.
        order: The Renyi order, fixed beforehand.
        rdp: The published upper bound on the Renyi cost of the answers.
        rdp_release: The Renyi cost of publishing it, contained in epsilon.
        beta: Of the smooth sensitivity.
        sensitivity_bound: The published upper bound on the smooth sensitivity.
        noise_std: Standard deviation of the noise in `rdp`; 0 where nothing was secret.
        epsilon_data_independent: What the answers cost whatever the votes (no release needed), at
            the same order and delta. Where it is the smaller, sanitizing was not worth it.
    """

    epsilon: float
    delta: float
    tail: float
    order: float
    rdp: float
    rdp_release: float
    beta: float
    sensitivity_bound: float
    noise_std: float
    epsilon_data_independent: float


def _widened(noise: float, generator: NoiseGenerator) -> float:
    """Secure noise that covers rounding as well: what a label moves is computed in floats."""
    if isinstance(generator, SecureGenerator):
        return max(noise, _LEAST_NOISE) * (1 + _ROUNDING)
    return noise


def _raised(
    value: float, *, deviations: float, parts: tuple[float, float], generator: NoiseGenerator
) -> float:
    """The value plus so many standard deviations, parts[0] * parts[1] each, plus one of noise."""
    if isinstance(generator, SecureGenerator):
        noise_std = parts[0] * parts[1]
        return rounded_sum(value + deviations * noise_std, noise_std, generator=generator)
    draw = deviations + float(generator.standard_normal())
    return value + draw * parts[0] * parts[1]


def _checked_answered(answered: Any, num_queries: int) -> NDArray[np.bool_]:
    if answered is None:
        return np.ones(num_queries, dtype=np.bool_)
    array = as_numpy(answered)
    if array.dtype != np.bool_ or array.shape != (num_queries,):
        raise ValueError(
            f"answered has shape {array.shape} and type {array.dtype}; it must be a boolean per "
            f"query, [{num_queries}] (labels != -1, where -1 means no answer)"
        )
    return array


# Twelve parameters: a promised signature, with both releases' settings and this one's noise.
def release_epsilon(
    votes: Any,
    *,
    noise_std: float,
    threshold: float | None = None,
    sigma1: float | None = None,
    answered: Any = None,
    check_counts: Any = None,
    delta: float,
    order: float,
    tail: float | None = None,
    noise: ReleaseNoise | None = None,
    conversion: Conversion | str = Conversion.IMPROVED,
    generator: AnyGenerator,
) -> SanitizedEpsilon:
    """Publish a bound on what GNMax, Confident-GNMax or Interactive-GNMax answers cost.

    Args:
        votes: Counts [N, K] of every query that was checked, one vote per teacher.
        noise_std: Standard deviation of the noise on every count of an answer (sigma2).
        threshold: Of Confident-GNMax's check; without it, nothing was checked.
        sigma1: Standard deviation of the check's one noise, with `threshold`.
        answered: Which queries were answered, boolean [N]: the mechanism's own public record.
            Without it all are charged.
        check_counts: What was compared with the threshold [N, K], if not the votes: for
            Interactive-GNMax the votes less the student's (public) guess.
        delta: In (0, 1), for everything together.
        order: The Renyi order, fixed before the votes were seen (`public_order`).
        tail: The part of delta for the noise of the release; a hundredth unless given.
        noise: Fixed before the votes were seen; `ReleaseNoise.public` with a tenth of the largest
            sensitivity that any votes could have unless given.
        conversion: How the Renyi cost becomes epsilon.
        generator: Of the noise.

    Raises:
        ConditionsFailed: Smooth sensitivity is not proven for these public parameters.
        ValueError: Bad votes (the row is named) or an argument out of range.
    """
    array = checked_votes(votes)
    checked_order(order)
    tail = _checked_tail(tail, delta=delta)
    cost = _cost_of_run(
        array,
        noise_std=noise_std,
        threshold=threshold,
        sigma1=sigma1,
        answered=answered,
        check_counts=check_counts,
        order=order,
    )
    return _published(
        cost,
        delta=delta,
        tail=tail,
        order=order,
        noise=noise,
        conversion=conversion,
        generator=generator,
    )


def _checked_tail(tail: float | None, *, delta: float) -> float:
    _validate.between(0, 1, delta=delta)
    tail = TAIL_SHARE * delta if tail is None else tail
    _validate.between(0, delta, tail=tail)
    return tail


def _cost_of_run(
    votes: NDArray[Any],
    *,
    noise_std: float,
    threshold: float | None,
    sigma1: float | None,
    answered: Any,
    check_counts: Any,
    order: float,
) -> SecretCost:
    """What checks and answers cost, by the arguments of `release_epsilon`."""
    if (threshold is None) != (sigma1 is None):
        raise ValueError(
            f"threshold is {threshold} and sigma1 is {sigma1}; a check needs both, and plain GNMax "
            "neither"
        )
    mask = _checked_answered(answered, len(votes))
    if threshold is None and answered is not None and not mask.all():
        raise ValueError("answered leaves queries out, but without a threshold all are answered")
    if votes.shape[1] == 2 and check_counts is None:
        tables = ExactTables(
            num_teachers=int(votes[0].sum()),
            noise_std=noise_std,
            order=order,
            threshold=threshold,
            sigma1=sigma1,
        )
        return tables.cost(votes, answered=mask)
    price = AnswerPrice(noise_std=noise_std, num_classes=votes.shape[1], order=order)
    cost = cost_of_answers(votes, price=price, answered=mask)
    if threshold is not None and sigma1 is not None:
        counts = checked_counts(votes if check_counts is None else check_counts)
        if counts.shape != votes.shape:
            raise ValueError(
                f"check_counts has shape {counts.shape} and votes {votes.shape}; they must agree"
            )
        teachers = int(votes[0].sum())
        cost += cost_of_checks(
            counts, num_teachers=teachers, threshold=threshold, sigma1=sigma1, order=order
        )
    return cost


def _published(
    cost: SecretCost,
    *,
    delta: float,
    tail: float,
    order: float,
    noise: ReleaseNoise | None,
    conversion: Conversion | str,
    generator: AnyGenerator,
) -> SanitizedEpsilon:
    """A bound on the cost with noise, drawn in the order of the module's text: SS, then D."""

    def epsilon(rdp: float) -> float:
        return epsilon_from_rdp([order], [rdp], delta - tail, conversion)[0]

    rdp, rdp_release, beta, bound, noise_of_cost = cost.rdp_flat, 0.0, 0.0, 0.0, 0.0
    if cost.sensitivity.any():  # otherwise all votes cost the same: nothing to hide
        noise = noise or ReleaseNoise.public(
            order=order, tail=tail, sensitivity_guess=GUESS_SHARE * cost.largest_sensitivity
        )
        beta, deviations = noise.beta, tail_deviations(tail)
        rng = as_noise_generator(generator)
        log_bound = _raised(
            log_smooth_sensitivity(cost.sensitivity, beta),
            deviations=deviations,
            parts=(beta, _widened(noise.sensitivity_multiplier, rng)),
            generator=rng,
        )
        bound = math.exp(min(log_bound, 700.0))
        noise_of_cost = _widened(bound * noise.cost_multiplier, rng)
        raised = _raised(cost.rdp, deviations=deviations, parts=(noise_of_cost, 1.0), generator=rng)
        rdp = min(max(raised, 0.0), cost.rdp_flat)  # both limits are public
        rdp_release = noise.rdp(order)
    return SanitizedEpsilon(
        epsilon=epsilon(rdp + rdp_release),
        delta=delta,
        tail=tail,
        order=order,
        rdp=rdp,
        rdp_release=rdp_release,
        beta=beta,
        sensitivity_bound=bound,
        noise_std=noise_of_cost,
        epsilon_data_independent=epsilon_from_rdp([order], [cost.rdp_flat], delta, conversion)[0],
    )

"""Publishing what PATE cost: an epsilon that is safe to show, with the price of showing it.

The data-dependent epsilon of PATE is computed from secret votes, so printing it leaks. This module
publishes an upper bound on it instead, with noise scaled to its smooth sensitivity (Nissim,
Raskhodnikova and Smith 2007; Papernot et al., ICLR 2018, arXiv:1802.08908, Appendix B).

**Why not as in the paper.** The paper publishes D + SS * N(0, s^2), D the Renyi cost and SS its
smooth sensitivity. That number is private, but a bound on D read from it needs SS, which is secret
too. Its parameters are chosen with a full view of the votes, and its cost is an expectation over
the check whose probabilities are taken for constants. Here instead:

1. One changed label moves log SS by at most beta. So log SS is published with Gaussian noise of
   beta * `sensitivity_multiplier` and raised by z standard deviations: a public U, above SS but for
   a probability of tail/2. Renyi cost: order / (2 sensitivity_multiplier^2).
2. D is published with Gaussian noise of U * `cost_multiplier`. Where U covers SS, the change that
   one label makes to D is at most U, and the Renyi cost is order / (2 cost_multiplier^2). Where U
   falls short, privacy is given up: tail/2, part of delta.
3. Raised by z standard deviations again, the noisy cost is a bound but for a probability of tail/2,
   part of delta too.
4. D is what was *realised*: every check, and the answers that were given. Which queries were
   answered is public, so given that, D depends on the votes through the prices alone.

**What the number is.** It is random and known only after the answers, so it is not a guarantee but
an upper bound, after the fact, on what this run cost: but for a probability of `tail` it is at
least the sum of the run's Renyi costs at its order, its own price included, which is what a Renyi
filter of that order (Feldman and Zrnic 2021) compares with a budget. A guarantee takes a budget
fixed beforehand, or the charge for all checks and answers whatever the votes, as in the ledger.

With two classes D is exact, and holds for both directions of a change. With more it is the sum of
the bounds of Theorem 6 of PATE 2018: a bound in one direction, from these votes to changed ones
(docs/epsilon.md).

Everything in `SanitizedEpsilon` may be published, and nothing else. Order, noise and tail must be
fixed before the votes are seen, from queries, teachers, classes and the noise of the answers alone:
`public_order` and `ReleaseNoise.public` are such rules. A second release of the same votes costs
again.

>>> votes = np.tile([[248, 2], [235, 15]], (500, 1))
>>> released = release_epsilon(votes, noise_std=40.0, threshold=200.0, sigma1=150.0,
...     delta=1e-5, order=8.0, generator=np.random.default_rng(0))
>>> round(released.epsilon, 2), round(released.epsilon_data_independent, 2)
(2.34, 4.54)
>>> public_order(num_queries=1500, num_answers=500, noise_std=40.0, sigma1=200.0, delta=1e-5)
8.5
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import as_numpy
from labeldp.mechanisms.accounting import Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate.published_bounds import checked_noise
from labeldp.mechanisms.pate.sensitivity import (
    BoundedPrices,
    ExactPrices,
    RunPrices,
    checked_order,
)
from labeldp.mechanisms.pate.votes import checked_counts, checked_votes
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    NoiseGenerator,
    SecureGenerator,
    as_noise_generator,
)
from labeldp.mechanisms.secure_noise import rounded_sum

#: Part of delta that a published bound may fail with: one policy for sweeps and the command line.
TAIL_SHARE = 0.01
#: Guess of the smooth sensitivity, as a share of the most that it could be with any votes.
GUESS_SHARE = 0.1
#: The same for exact costs of two classes, which are smaller, and vary more for their size. Chosen
#: on the published votes of 250 forests on UCI Adult, and on no other votes.
EXACT_GUESS_SHARE = 0.3
#: Costs of up to 100 are computed to 1e-10 or better, and so is what one label moves them by: less
#: than this share of a sensitivity that the least noise is made for, at multipliers of up to 100.
_ROUNDING = 1e-5
_LEAST_NOISE = 1e-3


def tail_deviations(tail: float) -> float:
    """Standard deviations that a normal variable exceeds with probability tail/2."""
    return -float(ndtri(tail / 2))


@dataclass(frozen=True, kw_only=True)
class ReleaseNoise:
    """How much noise a release gets; to be fixed before the votes are seen.

    Attributes:
        beta: How fast sensitivities are discounted with distance. Larger makes smooth sensitivity
            smaller and its own release noisier.
        sensitivity_multiplier: Noise on log SS, in units of beta.
        cost_multiplier: Noise on the cost, in units of the published bound on SS.
    """

    beta: float
    sensitivity_multiplier: float
    cost_multiplier: float

    def __post_init__(self) -> None:
        _validate.positive(
            beta=self.beta,
            sensitivity_multiplier=self.sensitivity_multiplier,
            cost_multiplier=self.cost_multiplier,
        )

    def rdp(self, order: float) -> float:
        """Renyi cost of both steps of a release at `order`."""
        return (self.sensitivity_multiplier**-2 + self.cost_multiplier**-2) * order / 2

    @classmethod
    def public(cls, *, order: float, tail: float, sensitivity_guess: float) -> "ReleaseNoise":
        """The noise that is best if the guess of the smooth sensitivity is right.

        beta is such that the bound on smooth sensitivity usually lies exp(0.8), about twice, above
        it. Both steps then cost order / s^2 at noise s and add 2 z s guess to the bound, the sum of
        which is least at s^3 = order / (z guess). The guess must be from public knowledge only.
        """
        checked_order(order)
        _validate.between(0, 1, tail=tail)
        _validate.positive(sensitivity_guess=sensitivity_guess)
        deviations = tail_deviations(tail)
        multiplier = (order / (deviations * sensitivity_guess)) ** (1 / 3)
        return cls(
            beta=0.8 / (deviations * multiplier),
            sensitivity_multiplier=multiplier,
            cost_multiplier=multiplier,
        )


def public_order(
    *,
    num_queries: int,
    num_answers: int,
    noise_std: float,
    delta: float,
    sigma1: float | None = None,
) -> float:
    """An order for `release_epsilon` by a rule that sees no votes.

    It is best if answers cost a third of their worst case and the release order/12. `num_answers`
    are those that are planned, not those that were given.
    """
    _validate.whole(minimum=1, num_queries=num_queries)
    _validate.whole(minimum=0, num_answers=num_answers)
    checked_noise(noise_std=noise_std)
    _validate.between(0, 1, delta=delta)
    slope = num_answers / noise_std**2
    if sigma1 is not None:
        checked_noise(sigma1=sigma1)
        slope += num_queries / (2 * sigma1**2)
    return _best_order(expected_slope=slope / 3, delta=delta)


def public_rule(
    *,
    queries: int,
    answers: int,
    noise_std: float,
    check: tuple[float, float] | None,
    teachers: int,
    classes: int,
    delta: float,
) -> tuple[float, float]:
    """Return the Renyi order, and a guess of the smooth sensitivity at it, by public facts alone.

    The guess decides how much noise is drawn, not whether the bound holds. `answers` are those that
    are planned, not those that were given; `check` is threshold and sigma1.
    """
    threshold, sigma1 = check or (None, None)
    prices = _prices(
        exact=classes == 2,
        num_teachers=teachers,
        num_classes=classes,
        noise_std=noise_std,
        order=2.0,
        threshold=threshold,
        sigma1=sigma1,
    )
    if classes == 2:
        # At order 2 the cost per unit of order, of which a run takes about a third.
        slope = prices.flat(checked=queries, answered=answers) / 2
        order, share = _best_order(expected_slope=slope / 3, delta=delta), EXACT_GUESS_SHARE
    else:
        order = public_order(
            num_queries=queries,
            num_answers=answers,
            noise_std=noise_std,
            sigma1=sigma1,
            delta=delta,
        )
        share = GUESS_SHARE
    largest = replace(prices, order=order).largest_change(checked=queries, answered=answers)
    return order, share * max(largest, 1e-12)


def _prices(*, exact: bool, **parameters: Any) -> RunPrices:
    return ExactPrices(**parameters) if exact else BoundedPrices(**parameters)


def _best_order(*, expected_slope: float, delta: float) -> float:
    """The order that is best if answers cost so much per unit of it and the release 1/12."""
    order = 1 + math.sqrt(-math.log(delta) / (expected_slope + 1 / 12))
    return max(1.5, round(2 * order) / 2)


def log_smooth_sensitivity(ls_by_distance: Any, beta: float) -> float:
    """Log of `smooth_sensitivity`, which may underflow; -inf where nothing moves."""
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
    """Largest of sensitivities at distances 0, 1, ..., discounted by exp(-beta) per label.

    It bounds the local sensitivity, and one changed label changes it by at most a factor of
    exp(beta).
    """
    return math.exp(log_smooth_sensitivity(ls_by_distance, beta))


@dataclass(frozen=True, kw_only=True)
class SanitizedEpsilon:
    """What may be published about the cost of answering; every field of it.

    Attributes:
        epsilon: An upper bound, after the fact, on what the answers and this release cost at
        `delta`: a
            random number, not the (epsilon, delta) of a mechanism, and with more than two classes a
            bound in one direction only (see the module's text).
        delta: At which costs are stated, tail included. tail: Part of delta: the probability that
        noise broke the bound or fell short of its scale. order: The Renyi order, fixed beforehand.
        rdp: The published upper bound on the Renyi cost of the answers. rdp_release: The Renyi cost
        of publishing it, contained in epsilon. beta: Of the smooth sensitivity. sensitivity_bound:
        The published upper bound on the smooth sensitivity. noise_std: Standard deviation of the
        noise in `rdp`; 0 where nothing was secret. epsilon_data_independent: What the answers cost
        whatever the votes (no release needed), at the
            same order and delta. Where it is the smaller, sanitizing was not worth it.
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
        answered: Which queries were answered, boolean [N]; all unless given.
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
    """
    array = checked_votes(votes)
    checked_order(order)
    _validate.between(0, 1, delta=delta)
    tail = TAIL_SHARE * delta if tail is None else tail
    _validate.between(0, delta, tail=tail)
    if (threshold is None) != (sigma1 is None):
        raise ValueError(
            f"threshold is {threshold} and sigma1 is {sigma1}; a check needs both, and plain GNMax "
            "neither"
        )
    mask = _checked_answered(answered, len(array))
    if threshold is None and not mask.all():
        raise ValueError("answered leaves queries out, but without a threshold all are answered")
    counts = array if check_counts is None else checked_counts(check_counts)
    if counts.shape != array.shape:
        raise ValueError(
            f"check_counts has shape {counts.shape} and votes {array.shape}; they must agree"
        )
    prices = _prices(
        exact=array.shape[1] == 2 and check_counts is None,
        num_teachers=int(array[0].sum()),
        num_classes=array.shape[1],
        noise_std=noise_std,
        order=order,
        threshold=threshold,
        sigma1=sigma1,
    )
    cost, sensitivity = prices.cost(array, counts, answered=mask)
    flat = prices.flat(checked=len(array), answered=int(mask.sum()))

    def epsilon(rdp: float, at: float) -> float:
        return epsilon_from_rdp([order], [rdp], at, conversion)[0]

    rdp, rdp_release, beta, bound, noise_of_cost = flat, 0.0, 0.0, 0.0, 0.0
    if sensitivity.any():  # otherwise all votes cost the same: nothing to hide
        # Noise is drawn in the order of the module's text: SS, then D.
        noise = noise or _usual_noise(prices, queries=len(array), tail=tail)
        beta, deviations = noise.beta, tail_deviations(tail)
        rng = as_noise_generator(generator)
        log_bound = _raised(
            log_smooth_sensitivity(sensitivity, beta),
            deviations=deviations,
            parts=(beta, _widened(noise.sensitivity_multiplier, rng)),
            generator=rng,
        )
        bound = math.exp(min(log_bound, 700.0))
        noise_of_cost = _widened(bound * noise.cost_multiplier, rng)
        raised = _raised(cost, deviations=deviations, parts=(noise_of_cost, 1.0), generator=rng)
        rdp = min(max(raised, 0.0), flat)  # both limits are public
        rdp_release = noise.rdp(order)
    return SanitizedEpsilon(
        epsilon=epsilon(rdp + rdp_release, delta - tail),
        delta=delta,
        tail=tail,
        order=order,
        rdp=rdp,
        rdp_release=rdp_release,
        beta=beta,
        sensitivity_bound=bound,
        noise_std=noise_of_cost,
        epsilon_data_independent=epsilon(flat, delta),
    )


def _usual_noise(prices: RunPrices, *, queries: int, tail: float) -> ReleaseNoise:
    answers = 0 if prices.answers_are_constant else queries
    largest = prices.largest_change(checked=queries, answered=answers)
    return ReleaseNoise.public(
        order=prices.order, tail=tail, sensitivity_guess=GUESS_SHARE * largest
    )

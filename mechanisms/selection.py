"""The price of choosing: what it costs to publish the best of several private trials.

Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy", ICLR 2022. To pick
the best trial is to look at all of them; if their number is drawn at random and kept secret, the
best one costs little more than one trial: up to three times its epsilon for a geometric number,
twice for a logarithmic one, whatever the mean.

>>> selection_price(epsilon=1.0, mean_trials=10, distribution="geometric")
3.0
>>> selection_price(epsilon=1.0, mean_trials=10, distribution="logarithmic")
2.0

The price holds under four preconditions. Otherwise every trial has to be charged.

1. Every trial draws its settings from one fixed distribution (random search), whatever the others
   found. Schedulers that stop or clone trials and searchers that learn do not qualify.
2. The score that trials are compared by is part of the trial's price, or uses public data only.
3. Only the winner is released: settings, scores and models of all other trials stay secret.
4. The number of trials was drawn from the stated distribution, and stays secret.

Trials that reuse one stored release need none of this: they cost what the release cost.
"""

import math
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import brentq, epsilon_from_rdp, pure_rdp

#: The largest mean of a number of trials.
MOST_TRIALS = 1e9
#: For winners that are priced alone: finer and wider than the grid that events compose on.
_FINE_ORDERS: NDArray[np.float64] = 1 + np.logspace(-2, 4, 601)


class TrialDistribution(StrEnum):
    """How the secret number of trials is drawn.

    GEOMETRIC and LOGARITHMIC are truncated negative binomials of shape 1 and 0: at least one
    trial. POISSON may draw no trial at all, and then there is nothing to release.
    """

    GEOMETRIC = "geometric"
    LOGARITHMIC = "logarithmic"
    POISSON = "poisson"


@_validate.plain_numbers
def selection_price(
    *,
    epsilon: float,
    mean_trials: float,
    distribution: TrialDistribution | str,
    delta: float = 0.0,
    trial_delta: float = 0.0,
) -> float:
    """Epsilon at `delta` of the best of a random number of trials, the least bound that holds.

    One trial is (epsilon, trial_delta)-DP. Each of the trials then fails to be epsilon-DP with the
    probability trial_delta, one of them with at most mean_trials times as much, which `delta` has
    to cover. At a delta above 0 the Renyi curve may give a smaller epsilon.
    """
    _validate.positive(epsilon=epsilon)
    _validate.non_negative(trial_delta=trial_delta)
    _validate.delta(delta)
    _validate.positive(mean_trials=mean_trials)
    if not 1 <= mean_trials <= MOST_TRIALS:
        raise ValueError(
            f"mean_trials is {mean_trials}; a sweep has at least 1 trial on average, and at most "
            f"{MOST_TRIALS:.0e}: far larger numbers are not drawn as they are priced"
        )
    if distribution not in list(TrialDistribution):
        known = ", ".join(TrialDistribution)
        raise ValueError(f"distribution is {distribution!r}; it must be one of {known}")
    failing = mean_trials * trial_delta
    if failing > delta:
        raise ValueError(
            f"delta is {delta}, but {mean_trials:g} trials of delta {trial_delta} need at least "
            f"{failing:g}: raise it, or give the trials a smaller one"
        )
    kind = TrialDistribution(distribution)
    pure = _pure_epsilon(epsilon, mean_trials=mean_trials, distribution=kind)
    left = delta - failing
    if left == 0:
        return pure
    curve = winner_rdp(
        _FINE_ORDERS,
        pure_rdp(epsilon, _FINE_ORDERS),
        mean_trials=mean_trials,
        distribution=kind,
    )
    return min(pure, epsilon_from_rdp(_FINE_ORDERS, curve, left)[0])


def winner_rdp(
    orders: NDArray[np.float64],
    rdp: NDArray[np.float64],
    *,
    mean_trials: float,
    distribution: TrialDistribution,
) -> NDArray[np.float64]:
    """Renyi curve of the winner of trials of a curve [A] (the paper's Theorems 2 and 6) [A].

    The orders [A] are ascending.
    """
    count_term = math.log(mean_trials) / (orders - 1)
    if distribution is TrialDistribution.POISSON:
        hat = np.array([_delta_from_rdp(orders, rdp, math.log1p(1 / (a - 1))) for a in orders])
        return rdp + mean_trials * hat + count_term
    log_inverse_gamma = _log_inverse_gamma(mean_trials, distribution)
    choice = np.min((1 - 1 / orders) * rdp + log_inverse_gamma / orders)
    total = rdp + count_term + (1 + _shape(distribution)) * choice
    # Divergence grows with the order: what holds at a higher order holds here as well.
    return np.minimum.accumulate(total[::-1])[::-1]


def _pure_epsilon(epsilon: float, *, mean_trials: float, distribution: TrialDistribution) -> float:
    """Epsilon of the winner of epsilon-DP trials: the curve's limit at infinite orders.

    For Poisson the density of the winner is the trial's times mu e^(mu (q - 1)), with q the
    probability that another trial scores lower; between neighbors epsilon-DP lets q differ by
    tanh(epsilon / 2) at most.
    """
    if distribution is TrialDistribution.POISSON:
        return epsilon + mean_trials * math.tanh(epsilon / 2)
    least = min(epsilon, _log_inverse_gamma(mean_trials, distribution))
    return epsilon + (1 + _shape(distribution)) * least


def _shape(distribution: TrialDistribution) -> float:
    """The paper's eta."""
    return float(distribution is TrialDistribution.GEOMETRIC)


def _log_inverse_gamma(mean_trials: float, distribution: TrialDistribution) -> float:
    """log(1 / gamma) of the truncated negative binomial with this mean; not used by Poisson."""
    if distribution is TrialDistribution.GEOMETRIC or mean_trials == 1:
        return math.log(mean_trials)
    # The mean (1 / gamma - 1) / log(1 / gamma) lies between 1 + x / 2 and e^x, x the logarithm.
    high = min(3 * (mean_trials - 1), 2 * math.log(mean_trials) + 2)
    return brentq(lambda x: math.expm1(x) / x - mean_trials, 1e-300, high, xtol=1e-15)


def _delta_from_rdp(orders: NDArray[np.float64], rdp: NDArray[np.float64], epsilon: float) -> float:
    """Smallest delta of a Renyi curve at `epsilon` (Canonne, Kamath and Steinke 2020, Prop. 12).

    Or the bound on the total variation by Bretagnolle and Huber, which is delta at epsilon 0.
    """
    log_delta = (orders - 1) * (rdp - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    total_variation = math.sqrt(-math.expm1(-float(rdp.min())))
    return min(math.exp(min(float(log_delta.min()), 0.0)), total_variation)

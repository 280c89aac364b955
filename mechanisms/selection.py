"""The price of choosing: what it costs to publish the best of several private trials.

Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy", ICLR 2022. To pick
the best trial is to look at all of them; if their number is drawn at random and kept secret, the
best one costs little more than one trial: up to three times its epsilon for a geometric number,
twice for a logarithmic one, whatever the mean.

>>> selection_price(epsilon=1.0, mean_trials=10, distribution="geometric")
SelectionPrice(epsilon=3.0, delta=0.0)
>>> selection_price(epsilon=1.0, mean_trials=10, distribution="logarithmic").epsilon
2.0

Trials that reuse one stored release need none of this: they cost what the release cost.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import (
    Event,
    PureEvent,
    brentq,
    epsilon_from_rdp,
    epsilon_of,
    renyi_curve,
)
from labeldp.mechanisms.ledger import all_pure
from labeldp.mechanisms.randomness import AnyGenerator, as_numpy_generator

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


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The best of a random number of trials. The price holds under four preconditions.

    1. Every trial draws its settings from one fixed distribution (random search), whatever the
       others found. Schedulers that stop or clone trials and searchers that learn do not qualify.
    2. The score that trials are compared by is part of the trial's price, or uses public data only.
    3. Only the winner is released: settings, scores and models of all other trials stay secret.
    4. The number of trials was drawn by `draw_trials`, and stays secret.

    Otherwise every trial has to be charged.
    """

    mean_trials: float  # at least 1
    distribution: TrialDistribution | str  # of the number of trials

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.positive(mean_trials=self.mean_trials)
        if not 1 <= self.mean_trials <= MOST_TRIALS:
            raise ValueError(
                f"mean_trials is {self.mean_trials}; a sweep has at least 1 trial on average, and "
                f"at most {MOST_TRIALS:.0e}: far larger numbers are not drawn as they are priced"
            )
        if self.distribution not in list(TrialDistribution):
            known = ", ".join(TrialDistribution)
            raise ValueError(f"distribution is {self.distribution!r}; it must be one of {known}")
        object.__setattr__(self, "distribution", TrialDistribution(self.distribution))

    def epsilon(self, trial: Iterable[Event], *, delta: float) -> float:
        """Epsilon of the winner of trials that cost `trial` each, the least bound that holds."""
        events = list(trial)
        pure = all_pure(events)
        _validate.delta(delta)
        bounds = []
        if pure or delta == 0:  # which is refused of what is not pure
            bounds.append(self._pure_epsilon(epsilon_of(events, delta=0.0)))
        if delta > 0:
            orders, rdp = renyi_curve(events, _FINE_ORDERS)
            bounds.append(epsilon_from_rdp(orders, self.rdp(orders, rdp), delta)[0])
        return min(bounds)

    def rdp(self, orders: ArrayLike, rdp: ArrayLike) -> NDArray[np.float64]:
        """Renyi curve of the winner [A] (the paper's Theorems 2 and 6)."""
        order = np.asarray(orders, dtype=np.float64)
        single = np.asarray(rdp, dtype=np.float64)
        count_term = math.log(self.mean_trials) / (order - 1)
        if self.distribution is TrialDistribution.POISSON:
            hat = np.array([_delta_from_rdp(order, single, math.log1p(1 / (a - 1))) for a in order])
            return single + self.mean_trials * hat + count_term
        choice = np.min((1 - 1 / order) * single + self._log_inverse_gamma / order)
        total = single + count_term + (1 + self._shape) * choice
        # Divergence grows with the order: what holds at a higher order holds here as well.
        ascending = np.argsort(order)
        total[ascending] = np.minimum.accumulate(total[ascending][::-1])[::-1]
        return total

    def draw_trials(self, *, generator: AnyGenerator) -> int:
        """Draw the number of trials; keep it secret, and run and compare as many."""
        numpy_generator = as_numpy_generator(generator)
        gamma = math.exp(-self._log_inverse_gamma)
        match self.distribution:
            case TrialDistribution.POISSON:
                return int(numpy_generator.poisson(self.mean_trials))
            case TrialDistribution.GEOMETRIC:
                return int(numpy_generator.geometric(gamma))
            case _:
                return int(numpy_generator.logseries(1 - gamma))

    def _pure_epsilon(self, epsilon: float) -> float:
        """Epsilon of the winner of epsilon-DP trials: the curve's limit at infinite orders.

        For Poisson the density of the winner is the trial's times mu e^(mu (q - 1)), with q the
        probability that another trial scores lower; between neighbors epsilon-DP lets q differ by
        tanh(epsilon / 2) at most.
        """
        if self.distribution is TrialDistribution.POISSON:
            return epsilon + self.mean_trials * math.tanh(epsilon / 2)
        return epsilon + (1 + self._shape) * min(epsilon, self._log_inverse_gamma)

    @property
    def _shape(self) -> float:
        """The paper's eta."""
        return 1.0 if self.distribution is TrialDistribution.GEOMETRIC else 0.0

    @property
    def _log_inverse_gamma(self) -> float:
        """log(1 / gamma) of the truncated negative binomial with this mean; not used by Poisson."""
        if self.distribution is not TrialDistribution.LOGARITHMIC or self.mean_trials == 1:
            return math.log(self.mean_trials)
        # The mean (1 / gamma - 1) / log(1 / gamma) lies between 1 + x / 2 and e^x, x the logarithm.
        high = min(3 * (self.mean_trials - 1), 2 * math.log(self.mean_trials) + 2)
        root = brentq(lambda x: math.expm1(x) / x - self.mean_trials, 1e-300, high, xtol=1e-15)
        return float(root)


@dataclass(frozen=True, kw_only=True)
class SelectionPrice:
    """Epsilon and delta of the best of several trials, if the theorem's preconditions hold."""

    epsilon: float
    delta: float


@_validate.plain_numbers
def selection_price(
    *,
    epsilon: float,
    mean_trials: float,
    distribution: TrialDistribution | str,
    delta: float = 0.0,
    trial_delta: float = 0.0,
) -> SelectionPrice:
    """Price of the best of a random number of trials, under the preconditions of `Selection`.

    One trial is (epsilon, trial_delta)-DP. Each of the trials then fails to be epsilon-DP with the
    probability trial_delta, one of them with at most mean_trials times as much, which `delta` has
    to cover. At a delta above 0 the Renyi curve may give a smaller epsilon.
    """
    _validate.positive(epsilon=epsilon)
    _validate.non_negative(delta=delta, trial_delta=trial_delta)
    selection = Selection(mean_trials=mean_trials, distribution=distribution)
    failing = mean_trials * trial_delta
    if failing > delta:
        raise ValueError(
            f"delta is {delta}, but {mean_trials:g} trials of delta {trial_delta} need at least "
            f"{failing:g}: raise it, or give the trials a smaller one"
        )
    total = selection.epsilon([PureEvent(epsilon=epsilon)], delta=delta - failing)
    return SelectionPrice(epsilon=total, delta=delta)


def _delta_from_rdp(orders: NDArray[np.float64], rdp: NDArray[np.float64], epsilon: float) -> float:
    """Smallest delta of a Renyi curve at `epsilon` (Canonne, Kamath and Steinke 2020, Prop. 12).

    Or the bound on the total variation by Bretagnolle and Huber, which is delta at epsilon 0.
    """
    log_delta = (orders - 1) * (rdp - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    total_variation = math.sqrt(-math.expm1(-float(rdp.min())))
    return min(math.exp(min(float(log_delta.min()), 0.0)), total_variation)

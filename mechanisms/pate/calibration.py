"""The price of a run of an aggregator for any votes, and the least noise that meets a target price.

>>> from labeldp.mechanisms.pate.aggregators import GNMax
>>> def price(noise_std: float) -> float:
...     run = {"checked": 300, "answered": 300, "delta": 1e-5}
...     return price_for_any_votes(GNMax(noise_std=noise_std), **run).epsilon
>>> noise_std = least_noise(price, 1.0)
>>> round(noise_std, 1), price(noise_std) <= 1.0
(79.4, True)
"""

import math
from collections.abc import Callable

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import LARGEST_WHOLE_SCALE
from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    brentq,
    epsilon_from_rdp,
    pure_rdp,
    renyi_curve,
)
from labeldp.mechanisms.pate.accounting import PateCost
from labeldp.mechanisms.pate.aggregators import Aggregator, LNMax
from labeldp.mechanisms.pate.decisions import Accounting

#: A solver's result is raised by this factor until its price is within the target.
_NUDGE = 1 + 1e-12


@_validate.plain_numbers
def price_for_any_votes(
    aggregator: Aggregator,
    *,
    checked: int,
    answered: int,
    delta: float,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> PateCost:
    """Cost of so many checks and answers for any votes; order `inf` marks pure DP."""
    _validate.between(0, 1, delta=delta)
    events = aggregator.events(checked=checked, answered=answered, accounting=accounting)
    _, rdp = renyi_curve(events)
    pure = math.inf
    if isinstance(aggregator, LNMax):  # Renyi curves add up answer by answer, below the pure cost
        pure = 2 / aggregator.scale * answered
        rdp = answered * pure_rdp(2 / aggregator.scale, ORDERS)
    epsilon, order = epsilon_from_rdp(ORDERS, rdp, delta, conversion)
    if pure <= epsilon:
        epsilon = pure
        order = math.inf
    return PateCost(epsilon=epsilon, order=order, answered=float(answered))


def least_noise(price: Callable[[float], float], target: float) -> float:
    """Smallest noise whose price is within the target; prices fall as noise rises."""
    low = 1.0
    high = 1.0
    while price(high) > target:
        if high >= LARGEST_WHOLE_SCALE:
            raise ValueError(
                f"epsilon is {target}; at this delta, Renyi orders up to {ORDERS[-1]:.0f} prove no "
                f"less than {price(high):.4g} with any noise; raise epsilon or delta"
            )
        high *= 2
    while price(low) <= target:
        low /= 2
    log_noise = brentq(lambda x: price(math.exp(x)) - target, math.log(low), math.log(high))
    noise = math.exp(float(log_noise))
    while price(noise) > target:
        noise *= _NUDGE
    return noise

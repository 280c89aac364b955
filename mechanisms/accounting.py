"""The cost of events: pure DP, the exact Gaussian, Renyi curves, their composition and conversion.

A mechanism states *what it did* as an event; this module adds up the cost of events. Label DP
is meant throughout: neighboring data sets differ in one label, which is substituted.

>>> round(gaussian_epsilon(noise_multiplier=2.0, delta=1e-5), 4)
1.9931
>>> epsilon_of([PureEvent(epsilon=1.0), PureEvent(epsilon=0.5)], delta=0.0)
1.5
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from labeldp.mechanisms import _validate

#: One fixed public grid of Renyi orders: fine below 2 (large epsilon), PATE 2018's long grid above.
ORDERS: NDArray[np.float64] = np.concatenate(
    [np.arange(21, 40) / 20, np.arange(4, 202) / 2, np.logspace(2, np.log10(500), 100)[1:]]
)
ORDERS.setflags(write=False)

#: The delta of a stated epsilon by default, where releases are not pure.
USUAL_DELTA = 1e-5


class Conversion(StrEnum):
    """How a Renyi curve becomes (epsilon, delta).

    IMPROVED is Canonne, Kamath and Steinke 2020, Prop. 12 (Balle et al. 2020, Thm 21); MIRONOV is
    Mironov 2017, Prop. 3, which PATE 2018 used and which is never smaller.
    """

    IMPROVED = "improved"
    MIRONOV = "mironov"


@dataclass(frozen=True, kw_only=True)
class PureEvent:
    """An epsilon-DP answer about a label; `inf` means that the label itself was handed out."""

    epsilon: float

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.positive(epsilon=self.epsilon, infinity=True)


@dataclass(frozen=True, kw_only=True)
class PureMechanism:
    """Base of epsilon-DP mechanisms."""

    epsilon: float  # privacy loss per label, finite and above 0

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.positive(epsilon=self.epsilon)

    @property
    def event(self) -> PureEvent:
        """The cost of one release for each label in it."""
        return PureEvent(epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class RandomizedResponseEvent(PureEvent):
    """K-ary randomized response: an epsilon-DP answer whose whole trade-off curve is known.

    It is priced as any epsilon-DP answer; audits may hold it to its own curve.
    """

    num_classes: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.whole(num_classes=self.num_classes, minimum=2)


@dataclass(frozen=True, kw_only=True)
class GaussianEvent:
    """The Gaussian mechanism with noise of `noise_multiplier` times its L2 sensitivity."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.positive(noise_multiplier=self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class RenyiEvent:
    """Anything whose Renyi divergence is bounded on a grid of orders (PATE's answers)."""

    orders: tuple[float, ...]  # orders above 1, ascending
    rdp: tuple[float, ...]  # the bound at each order, not negative, `inf` where there is none

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _check_curve(np.asarray(self.orders), np.asarray(self.rdp))


@dataclass(frozen=True, kw_only=True)
class DecisionEvent(GaussianEvent):
    """Decisions made of Gaussian counts: never more than the Gaussian, and less by this curve.

    Both bounds hold at once; `noise_multiplier` is that of releasing the counts, `rdp` bounds the
    decisions' Renyi divergence at each of `orders` (docs/decision_accounting.md).
    """

    orders: tuple[float, ...] = field(repr=False)
    rdp: tuple[float, ...] = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_curve(np.asarray(self.orders), np.asarray(self.rdp))


Event = PureEvent | GaussianEvent | RenyiEvent

#: A substituted label takes 1, or its row of weights, from one class and gives it to another.
L2_SENSITIVITY = math.sqrt(2.0)


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism:
    """Base of Gaussian noise on one-hot labels and on their sums."""

    noise_std: float  # standard deviation of the noise in every number, finite and above 0
    num_classes: int  # K, at least 2

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.drawable(noise_std=self.noise_std)
        _validate.whole(num_classes=self.num_classes, minimum=2)

    @property
    def event(self) -> GaussianEvent:
        """The cost of one release for each label in it."""
        return GaussianEvent(noise_multiplier=self.noise_std / L2_SENSITIVITY)


def _check_curve(orders: NDArray[np.float64], rdp: NDArray[np.float64]) -> None:
    if orders.ndim != 1 or orders.size == 0 or orders.shape != rdp.shape:
        raise ValueError(
            f"orders has shape {orders.shape} and rdp {rdp.shape}; both must be [A], A at least 1"
        )
    if not (orders > 1).all():
        raise ValueError(f"orders holds {orders.min()}; every Renyi order must be above 1")
    bad = ~(rdp >= 0)  # NaN is not 0 or above
    if bad.any():
        raise ValueError(f"rdp is {rdp[bad][0]} at order {orders[bad][0]}; it must be 0 or above")


def conversion_offsets(
    orders: NDArray[np.float64], delta: float, conversion: Conversion | str = Conversion.IMPROVED
) -> NDArray[np.float64]:
    """The term that turns a Renyi divergence at each order into epsilon at `delta` [A]."""
    _validate.between(0, 1, delta=delta)
    # In logarithms of delta: a delta of 1e-300 is as good as any other.
    offsets: NDArray[np.float64] = -math.log(delta) / (orders - 1)
    if Conversion(conversion) is Conversion.IMPROVED:
        offsets = offsets + np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
    return offsets


def epsilon_from_rdp(
    orders: ArrayLike,
    rdp: ArrayLike,
    delta: float,
    conversion: Conversion | str = Conversion.IMPROVED,
) -> tuple[float, float]:
    """Return the smallest epsilon of a Renyi curve [A] at `delta`, and the order that gave it."""
    order_array = np.asarray(orders, dtype=np.float64)
    rdp_array = np.asarray(rdp, dtype=np.float64)
    _check_curve(order_array, rdp_array)
    epsilons = rdp_array + conversion_offsets(order_array, delta, conversion)
    # Every order gives a bound that holds, so the choice of the smallest costs nothing.
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best])), float(order_array[best])


def pure_rdp(epsilon: float, orders: ArrayLike) -> NDArray[np.float64]:
    """Renyi divergence of an epsilon-DP event: that of binary randomized response [A].

    Among all epsilon-DP pairs, randomized response on two values has the largest divergence at
    every order (Kairouz, Oh and Viswanath 2015), and its divergence is a closed form.
    """
    _validate.positive(epsilon=epsilon, infinity=True)
    order = np.asarray(orders, dtype=np.float64)
    if math.isinf(epsilon):
        return np.full(order.shape, np.inf)
    # log(p^a q^(1-a) + q^a p^(1-a)) / (a - 1) with p = e^eps / (1 + e^eps), q = 1 - p
    log_sum = np.logaddexp(order * epsilon, (1 - order) * epsilon)
    result: NDArray[np.float64] = (log_sum - np.logaddexp(0, epsilon)) / (order - 1)
    # At large orders rounding may exceed the limit, which is epsilon itself.
    return np.minimum(epsilon, result)


def log_gaussian_delta(*, noise_multiplier: float, epsilon: float) -> float:
    """Log delta of the Gaussian mechanism at `epsilon`, exactly (Balle and Wang 2018, Thm 8).

    It is -1e300, and not infinite, where delta underflows: searches go on from there.
    """
    _validate.positive(noise_multiplier=noise_multiplier)
    half = 0.5 / noise_multiplier
    upper = float(log_ndtr(half - epsilon * noise_multiplier))
    lower = epsilon + float(log_ndtr(-half - epsilon * noise_multiplier))
    if lower >= upper:  # equal to the last bit: delta underflows
        return -1e300
    return upper + math.log(-math.expm1(lower - upper))


@_validate.plain_numbers
def gaussian_epsilon(*, noise_multiplier: float, delta: float) -> float:
    """Smallest epsilon of the Gaussian mechanism at `delta`, exactly (Balle and Wang 2018).

    The multiplier is the standard deviation of the noise over the L2 sensitivity.
    """
    _validate.between(0, 1, delta=delta)
    target = math.log(delta)

    def excess(epsilon: float) -> float:
        return log_gaussian_delta(noise_multiplier=noise_multiplier, epsilon=epsilon) - target

    if excess(0.0) <= 0:
        return 0.0
    # Delta falls to 0 as epsilon grows, so that some end of the search always has the other sign.
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-14, rtol=1e-14))


def _precision(events: Iterable[GaussianEvent]) -> float:
    return math.fsum(event.noise_multiplier**-2 for event in events)


def composed(events: Sequence[Event]) -> Event:
    """Return events of one label as one; several are Gaussian, decisions among them or not."""
    if len(events) == 1:
        return events[0]
    gaussians = [event for event in events if isinstance(event, GaussianEvent)]
    assert len(gaussians) == len(events), "aggregators that have rounds or bounds are Gaussian"
    multiplier = _precision(gaussians) ** -0.5
    if not any(isinstance(event, DecisionEvent) for event in events):
        return GaussianEvent(noise_multiplier=multiplier)
    orders, rdp = renyi_curve(events)
    curve = {"orders": tuple(orders.tolist()), "rdp": tuple(rdp.tolist())}
    return DecisionEvent(noise_multiplier=multiplier, **curve)


def renyi_curve(events: Sequence[Event]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return orders [A] and the Renyi divergence of events of one label together at each [A].

    The orders are those of the events' own curves, or `ORDERS`.
    """
    curves = [event for event in events if isinstance(event, RenyiEvent | DecisionEvent)]
    grids = {curve.orders for curve in curves}
    # Interpolation between grids would need convexity of both curves, and a proof of it.
    if len(grids) > 1:
        raise ValueError("two Renyi events lie on different grids of orders; use one grid, ORDERS")
    orders = np.asarray(grids.pop()) if grids else ORDERS
    gaussians = (event for event in events if isinstance(event, GaussianEvent))
    plain = [event for event in gaussians if not isinstance(event, DecisionEvent)]
    # A Gaussian has divergence order / (2 multiplier^2), and precisions of independent ones add.
    total: NDArray[np.float64] = orders * _precision(plain) / 2
    for curve in curves:
        total = total + np.asarray(curve.rdp)
    pure = Counter(event.epsilon for event in events if isinstance(event, PureEvent))
    for epsilon, times in pure.items():
        total = total + times * pure_rdp(epsilon, orders)
    return orders, total


@_validate.plain_numbers
def epsilon_of(events: Iterable[Event], *, delta: float) -> float:
    """Epsilon of all `events` about one label together, at `delta`; none cost 0.

    Pure events add. Gaussian events alone compose exactly, as one Gaussian, decisions as the
    Gaussian of their counts. Anything, and these too, composes as a Renyi curve. Of the bounds that
    hold, the smallest is returned: one event more never makes it smaller.
    """
    listed = list(events)
    each = [event.epsilon for event in listed if isinstance(event, PureEvent)]
    # Exact to the last bit, so that the order of events makes no difference.
    pure = math.fsum(each)
    rest = [event for event in listed if not isinstance(event, PureEvent)]
    _validate.delta(delta)
    if math.isinf(pure) or (not rest and (delta == 0 or len(each) < 2)):
        return pure
    if delta == 0:
        raise ValueError(
            "delta is 0, but Gaussian and PATE answers have an epsilon only at delta > 0"
        )
    gaussians = [event for event in rest if isinstance(event, GaussianEvent)]
    bounds = [math.inf if rest else pure]
    if rest and len(gaussians) == len(rest):
        exact = gaussian_epsilon(noise_multiplier=_precision(gaussians) ** -0.5, delta=delta)
        bounds.append(pure + exact)
    if rest:
        bounds.append(pure + epsilon_from_rdp(*renyi_curve(rest), delta)[0])
    # Many small pure events cost less as one curve (advanced composition) than as a sum.
    if pure:
        bounds.append(epsilon_from_rdp(*renyi_curve(listed), delta)[0])
    # A pure release by itself is stated at its own epsilon, so beside others never at less.
    return max(min(bounds), *each, 0.0)


def brentq(
    function: Callable[[float], float], low: float, high: float, **tolerances: float
) -> float:
    """Return the root of `function` between `low` and `high`, where its sign changes."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, **tolerances))

"""From a target epsilon to the noise, and from the noise to epsilon, for every label mechanism.

A solver's answer is priced again, and moved to the safe side until it does not exceed the target.

>>> calibrate_laplace(epsilon=2.0)
1.0
>>> round(calibrate_gaussian(epsilon=2.0, delta=1e-5), 4)
2.8197
"""

import math
from collections.abc import Callable

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import L2_SENSITIVITY, brentq, gaussian_epsilon
from labeldp.mechanisms.additive_noise import L1_SENSITIVITY
from labeldp.mechanisms.randomized_response import epsilon_from_keep_probability, keep_probability


@_validate.plain_numbers
def price_laplace(*, scale: float | None = None, noise_std: float | None = None) -> float:
    """Epsilon of Laplace noise on one-hot labels, given its scale or its standard deviation."""
    if (scale is None) == (noise_std is None):
        raise ValueError(
            f"scale is {scale} and noise_std is {noise_std}; give one of the two "
            "(noise_std is scale * sqrt(2))"
        )
    if noise_std is not None:
        _validate.positive(noise_std=noise_std)
        scale = noise_std / math.sqrt(2)
    assert scale is not None
    _validate.positive(scale=scale)
    return L1_SENSITIVITY / scale


@_validate.plain_numbers
def price_gaussian(*, noise_std: float, delta: float) -> float:
    """Epsilon of Gaussian noise on one-hot labels at `delta`, exact at L2 sensitivity sqrt 2."""
    _validate.positive(noise_std=noise_std)
    return gaussian_epsilon(noise_multiplier=noise_std / L2_SENSITIVITY, delta=delta)


@_validate.plain_numbers
def calibrate_laplace(*, epsilon: float) -> float:
    """Scale of the least Laplace noise on one-hot labels that costs at most `epsilon`."""
    _validate.positive(epsilon=epsilon)
    return _never_over(
        L1_SENSITIVITY / epsilon,
        price=lambda scale: price_laplace(scale=scale),
        target=epsilon,
        safer=math.inf,
    )


@_validate.plain_numbers
def calibrate_gaussian(*, epsilon: float, delta: float) -> float:
    """Standard deviation of the least Gaussian noise on one-hot labels that meets `epsilon`."""
    _validate.positive(epsilon=epsilon)
    _validate.between(0, 1, delta=delta)

    def excess(log_multiplier: float) -> float:
        multiplier = math.exp(log_multiplier)
        return gaussian_epsilon(noise_multiplier=multiplier, delta=delta) - epsilon

    # On a logarithmic scale, where noise for epsilon 1e-6 and for 100 are equally far from 1.
    low = high = 0.0
    while excess(low) <= 0:
        low -= 1.0
    while excess(high) > 0:
        high += 1.0
    solved = L2_SENSITIVITY * math.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-14))
    # The root is exact to some digits only. What is returned must not cost more than was asked.
    return _never_over(
        solved,
        price=lambda noise_std: price_gaussian(noise_std=noise_std, delta=delta),
        target=epsilon,
        safer=math.inf,
        first_step=1e-15 * solved,
    )


@_validate.plain_numbers
def calibrate_randomized_response(*, epsilon: float, num_classes: int) -> float:
    """The largest keep probability of randomized response that costs at most `epsilon`."""
    _validate.positive(epsilon=epsilon)
    return _never_over(
        # A probability of 1 would have no finite price.
        min(keep_probability(epsilon=epsilon, num_classes=num_classes), 1 - 2**-53),
        price=lambda p: epsilon_from_keep_probability(keep_probability=p, num_classes=num_classes),
        target=epsilon,
        safer=1 / num_classes,
    )


def _never_over(
    parameter: float,
    *,
    price: Callable[[float], float],
    target: float,
    safer: float,
    first_step: float = 0.0,
) -> float:
    """Move `parameter` towards `safer` in growing steps until its price is within the target."""
    step = max(first_step, math.ulp(parameter))
    while price(parameter) > target:
        parameter = (
            min(parameter + step, safer) if safer > parameter else max(parameter - step, safer)
        )
        step *= 2
    return parameter

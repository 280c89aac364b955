"""The price of a mechanism from Python: by its name and numbers, or as an object.

>>> epsilon("laplace", scale=1.0)
2.0
>>> round(epsilon("gaussian", noise_std=5.0, delta=1e-5), 3)
1.061
>>> round(epsilon("rr", keep_probability=0.75, classes=2), 4)
1.0986
>>> from labeldp.mechanisms import LaplaceNoise
>>> epsilon(LaplaceNoise(epsilon=0.5, num_classes=10), LaplaceNoise(epsilon=1.0, num_classes=10))
1.5
"""

from collections.abc import Callable

from labeldp.mechanisms import _validate, calibration
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import Priced, epsilon_of_prices
from labeldp.mechanisms.randomized_response import epsilon_from_keep_probability
from labeldp.trainers.base import near_miss


@_validate.plain_numbers
def epsilon(what: str | Priced, /, *more: Priced, **numbers: float) -> float:
    """Return epsilon of a mechanism, or of several on the same labels.

    Args:
        what: `laplace`, `gaussian`, `rr` or `bit_flip`, with its numbers by name; or a mechanism.
        *more: Further mechanisms.
        **numbers: `scale` or `noise_std` of laplace, `noise_std` and `delta` of gaussian,
            `keep_probability` and `classes` of rr, `flip_probability` of bit_flip; `delta` of
            mechanisms that are not pure.

    Returns:
        Epsilon at that delta; infinite if the probability of failure exceeds delta.

    Raises:
        ValueError: An unknown name, or a number out of range.
        TypeError: Too many or too few numbers.
    """
    if not isinstance(what, str):
        return epsilon_of_prices([what, *more], **{"delta": USUAL_DELTA, **numbers})
    if what not in _BY_NAME:
        raise ValueError(f"{what!r} is not the name of a mechanism; {near_miss(what, _BY_NAME)}")
    return _BY_NAME[what](**numbers)


def _gaussian(*, noise_std: float, delta: float = USUAL_DELTA) -> float:
    return calibration.price_gaussian(noise_std=noise_std, delta=delta)


def _randomized_response(*, keep_probability: float, classes: int) -> float:
    return epsilon_from_keep_probability(keep_probability=keep_probability, num_classes=classes)


_BY_NAME: dict[str, Callable[..., float]] = {
    "laplace": calibration.price_laplace,
    "gaussian": _gaussian,
    "rr": _randomized_response,
    "bit_flip": calibration.price_bit_flip,
}

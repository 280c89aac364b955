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

import difflib
from collections.abc import Callable
from inspect import signature
from typing import Any, Literal, overload

from labeldp.mechanisms import calibration
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import Priced, epsilon_of_prices


@overload
def epsilon(
    what: Literal["laplace"], /, *, scale: float | None = ..., noise_std: float | None = ...
) -> float: ...
@overload
def epsilon(what: Literal["gaussian"], /, *, noise_std: float, delta: float = ...) -> float: ...
@overload
def epsilon(
    what: Literal["rr", "randomized_response"], /, *, keep_probability: float, classes: int
) -> float: ...
@overload
def epsilon(what: Literal["bit_flip"], /, *, flip_probability: float) -> float: ...
@overload
def epsilon(what: Priced, /, *more: Priced, delta: float = ...) -> float: ...
def epsilon(what: Any, /, *more: Any, **numbers: Any) -> float:
    """Return epsilon of a mechanism, or of several on the same labels.

    Args:
        what: `laplace`, `gaussian`, `rr` or `bit_flip`, with its numbers by name; or a mechanism.
        *more: Further mechanisms.
        **numbers: `scale` or `noise_std`; `noise_std` and `delta`; `keep_probability` and
            `classes`; `flip_probability`; for mechanisms that are not pure `delta`.

    Returns:
        Epsilon at that delta; infinite where the probability of failure exceeds delta.

    Raises:
        ValueError: An unknown name, or a number out of range.
        TypeError: A number too many or too few.
    """
    if not isinstance(what, str):
        delta = numbers.pop("delta", USUAL_DELTA)
        if numbers:
            raise TypeError(f"a mechanism has its numbers already; leave out {', '.join(numbers)}")
        return epsilon_of_prices([what, *more], delta=delta)
    name = what.lower().replace("-", "_")
    if name not in _BY_NAME:
        close = difflib.get_close_matches(name, _BY_NAME, n=1)
        meant = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(_BY_NAME)}"
        raise ValueError(f"{what!r} is not the name of a mechanism with a price; {meant}")
    pricing = _BY_NAME[name]
    known = list(signature(pricing).parameters)
    if unknown := sorted(numbers.keys() - set(known)):
        pure = "; pure noise has no use for a delta" if "delta" in unknown else ""
        raise TypeError(f"{what!r} knows {', '.join(known)}; leave out {', '.join(unknown)}{pure}")
    found: float = pricing(**numbers).epsilon
    return found


def _gaussian(*, noise_std: float, delta: float = USUAL_DELTA) -> Any:
    return calibration.price_gaussian(noise_std=noise_std, delta=delta)


def _randomized_response(*, keep_probability: float, classes: int) -> Any:
    return calibration.price_randomized_response(
        keep_probability=keep_probability, num_classes=classes
    )


_BY_NAME: dict[str, Callable[..., Any]] = {
    "laplace": calibration.price_laplace,
    "gaussian": _gaussian,
    "rr": _randomized_response,
    "randomized_response": _randomized_response,
    "bit_flip": calibration.price_bit_flip,
}

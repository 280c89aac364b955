"""Roots of functions; SciPy's optimizers are loaded at the first one, which takes half a second."""

from collections.abc import Callable


def brentq(
    function: Callable[[float], float], low: float, high: float, **tolerances: float
) -> float:
    """Return the root of `function` between `low` and `high`, where its sign changes."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, **tolerances))

"""The next setting to try, as a function of what was found: no state, so nothing to restore.

Ray Tune's `OptunaSearch` is made anew for every suggestion and told all results so far. A sweep
that was cut off, told the same results, goes on with the same suggestions.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.space import Choice, LogUniform, RandomAxis
from labeldp.platform.sweep.strands import Numbers

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

#: What a searcher is told under this name.
_OBJECTIVE = "accuracy"


def check_installed() -> None:
    """Refuse a search where Optuna is not installed.

    Raises:
        ConfigurationError: Says how to install it.
    """
    try:
        import optuna  # noqa: F401  # what uses it is Tune; here it is only missed
    except ImportError as error:
        raise ConfigurationError(
            "--search optuna needs the package optuna, which is not installed; install it with "
            "`pip install 'labeldp[search]'`, or leave the search out for random draws"
        ) from error


def suggest(
    axes: Mapping[str, RandomAxis],
    told: Sequence[tuple[Numbers, float]],
    *,
    seed: int,
    number: int,
    attempt: int = 0,
) -> Numbers:
    """Return the setting to try next, a number for each axis in their order.

    Args:
        axes: What is searched, by dotted key.
        told: Settings that were tried, and the accuracy that each came to.
        seed: Of the search.
        number: How many settings the search suggested before.
        attempt: How many times this one has come up with a setting that was tried before.
    """
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    mixed = np.random.SeedSequence([seed, number, attempt]).generate_state(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of experimental parts that Ray's wrapper uses
            searcher = OptunaSearch(
                {key: _distribution(axis) for key, axis in axes.items()},
                metric=_OBJECTIVE,
                mode="max",
                seed=int(mixed[0]),
                points_to_evaluate=[_point(axes, numbers) for numbers, _ in told] or None,
                evaluated_rewards=[accuracy for _, accuracy in told] or None,
            )
            found = searcher.suggest("next")
    finally:
        optuna.logging.set_verbosity(before)
    assert found is not None, "a study of a known space always has a suggestion"
    return tuple(float(found[key]) for key in axes)


def _distribution(axis: RandomAxis) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(axis, Choice):
        return CategoricalDistribution(list(range(len(axis.values))))
    return FloatDistribution(axis.low, axis.high, log=isinstance(axis, LogUniform))


def _point(axes: Mapping[str, RandomAxis], numbers: Numbers) -> dict[str, float]:
    """A setting as Optuna has it; places in a `Choice` are whole."""
    return {
        key: int(number) if isinstance(axis, Choice) else number
        for (key, axis), number in zip(axes.items(), numbers, strict=True)
    }

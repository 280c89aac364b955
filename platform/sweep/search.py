"""Searches of a sweep: one for each variant at each point of its grids, and what each tries next.

A suggestion is a row of numbers, one per searched axis: a place in a `Choice`, a value of any other
axis. It is a function of the results so far: a sweep that was interrupted continues with the same
suggestions.
"""

import hashlib
import itertools
import json
import math
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.platform.sweep.configuration import ConfigurationError, TrialConfig, config_hash
from labeldp.platform.sweep.space import Choice, Grid, LogUniform, RandomAxis, points
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, Variant, check_one_vault, variants_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

#: A search with at most this many settings is probed at all of them, a larger one at samples.
_FEW = 64
#: Probed values of a continuous axis, its ends among them.
_LANDMARKS = 5
#: Settings that are drawn beside the landmarks and the corners, which may act together.
_DRAWS = 8
#: The metric's name in Ray's searcher.
_OBJECTIVE = "accuracy"

Numbers = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search.

    Attributes:
        variant: What is searched.
        base: The sweep's configuration that the variant starts from.
        point: The grid's values, by dotted key.
        axes: Searched, by dotted key; none for a trial that stands alone.
        trials: How many there will be.
        seed: Of the suggestions.
        priced_as: The trials whose price is that of this search's trials; none before it is priced.
        foreseen: Everything its trials ask of the vault; None where a budget covers whatever they
            may ask.
    """

    variant: Variant
    base: TrialConfig
    point: Mapping[str, Any]
    axes: Mapping[str, RandomAxis]
    trials: int
    seed: int
    priced_as: Sequence[PlannedTrial] = ()
    foreseen: frozenset[Hashable] | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        where = (f"{key.rpartition('.')[2]}={value}" for key, value in self.point.items())
        return " ".join([self.variant.name, *where])

    @cached_property
    def id(self) -> str:
        """Tells it from other searches, also in a later start: all but the number of trials."""
        axes = {key: repr(axis) for key, axis in self.axes.items()}
        first = self.planned(self.probes()[0])
        settings = config_hash(first.config, data_fingerprint="")
        text = json.dumps([self.variant.name, settings, axes, self.seed])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def combinations(self) -> int | None:
        """How many settings there are; None where an axis is continuous."""
        sizes = [len(axis.values) for axis in self.axes.values() if isinstance(axis, Choice)]
        return math.prod(sizes) if len(sizes) == len(self.axes) else None

    @property
    def size(self) -> int:
        """How many trials it has: no setting is tried twice."""
        return min(self.trials, self.combinations or self.trials)

    def planned(self, numbers: Sequence[float]) -> PlannedTrial:
        """Return the trial at these numbers.

        Raises:
            ConfigurationError: Settings that can't be used together.
        """
        searched = {
            key: axis.values[int(number)] if isinstance(axis, Choice) else float(number)
            for (key, axis), number in zip(self.axes.items(), numbers, strict=True)
        }
        point = {**self.point, **searched}
        return PlannedTrial(
            variant=self.variant.name, config=self.variant.config(self.base, point), point=point
        )

    @cached_property
    def probed(self) -> Mapping[Numbers, PlannedTrial]:
        """The trials at the probes.

        Raises:
            ConfigurationError: Settings that can't be used together.
        """
        return {numbers: self.planned(numbers) for numbers in self.probes()}

    def all_numbers(self) -> Iterator[Numbers]:
        """Yield every setting of a search that has no continuous axis."""
        assert self.combinations is not None
        yield from itertools.product(*map(_landmarks, self.axes.values()))

    def probes(self) -> list[Numbers]:
        """Return settings that show what the axes do: all if they are few, or else samples.

        Samples are every axis alone at its landmarks, the corners, and seeded draws.
        """
        if self.combinations is not None and self.combinations <= _FEW:
            return list(self.all_numbers())
        landmarks = [_landmarks(axis) for axis in self.axes.values()]
        first = [each[0] for each in landmarks]
        found: list[Numbers] = [tuple(first)]
        for place, values in enumerate(landmarks):
            found += [(*first[:place], value, *first[place + 1 :]) for value in values]
        corners = itertools.product(*([each[0], each[-1]] for each in landmarks))
        found += itertools.islice(corners, _FEW)
        generator = np.random.default_rng(0)
        for _ in range(_DRAWS):
            found.append(tuple(_draw(axis, generator) for axis in self.axes.values()))
        return list(dict.fromkeys(found))

    def rest(self, number: int) -> list[PlannedTrial]:
        """Return what prices the trials that come after the first `number` of them."""
        left = self.size - number
        return [
            replace(
                trial,
                stands_for=left if trial.stands_for else 0,
                own_releases=left if trial.own_releases else 0,
                estimates=left * trial.estimates_each,
            )
            for trial in self.priced_as
            if left
        ]


def searches_of(sweep: Sweep, overrides: Mapping[str, Any] | None = None) -> tuple[Search, ...]:
    """Return the searches of a sweep that names one, each checked at its probes.

    Args:
        sweep: At its final size.
        overrides: Dotted key -> value, list or axis.

    Raises:
        ConfigurationError: A key or value that can't be used, or nothing to search.
    """
    search = sweep.search
    assert search is not None
    found: dict[str, Search] = {}
    for variant in variants_of(sweep, overrides):
        grids = {key: axis for key, axis in variant.space.items() if isinstance(axis, Grid)}
        axes = {key: axis for key, axis in variant.space.items() if not isinstance(axis, Grid)}
        for point in points(grids, samples=1, seed=0):
            each = Search(
                variant=variant,
                base=sweep.base,
                point=point,
                axes=axes,
                trials=search.trials if axes else 1,
                seed=search.seed,
            )
            found.setdefault(each.id, each)
    searches = tuple(found.values())
    if not any(each.axes for each in searches):
        raise ConfigurationError(
            f"sweep {sweep.name!r} names a search and has nothing to search: give an axis a range, "
            "such as 'trainer.learning_rate=loguniform(0.001, 0.3)', or leave the search out"
        )
    check_one_vault([each.planned(each.probes()[0]) for each in searches])
    return searches


def check_installed() -> None:
    """Refuse a search where Optuna is not installed.

    Raises:
        ConfigurationError: Says how to install it.
    """
    try:
        import optuna  # noqa: F401  # Ray Tune uses it
    except ImportError as error:
        raise ConfigurationError(
            "--search optuna needs the package optuna, which is not installed; install it with "
            "`pip install 'labeldp[search]'`, or leave the search out for random draws"
        ) from error


def suggest(
    axes: Mapping[str, RandomAxis],
    results: Sequence[tuple[Numbers, float]],
    *,
    seed: int,
    number: int,
    attempt: int = 0,
) -> Numbers:
    """Return the setting to try next, by a searcher that is made anew from the results so far.

    Args:
        axes: Searched, by dotted key.
        results: Settings that were tried, and the accuracy of each.
        seed: Of the search.
        number: How many settings the search suggested before.
        attempt: How many times this one was a setting that was tried before.
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
                points_to_evaluate=[_point(axes, numbers) for numbers, _ in results] or None,
                evaluated_rewards=[accuracy for _, accuracy in results] or None,
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


def _landmarks(axis: RandomAxis) -> list[float]:
    """Values of an axis in their order, both ends among them; all of a `Choice`."""
    if isinstance(axis, Choice):
        return [float(place) for place in range(len(axis.values))]
    spaced = np.geomspace if isinstance(axis, LogUniform) else np.linspace
    inner = spaced(axis.low, axis.high, _LANDMARKS)[1:-1]
    return [axis.low, *map(float, inner), axis.high]


def _draw(axis: RandomAxis, generator: np.random.Generator) -> float:
    if isinstance(axis, Choice):
        return float(generator.integers(len(axis.values)))
    return axis.sample(generator)

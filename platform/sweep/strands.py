"""What a sweep with a search consists of: one search for each variant at each point of its grids.

A strand knows its trials' settings but for those that are searched. What is suggested is a row of
numbers, one per searched axis: a place in a `Choice`, a value of any other axis.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from labeldp.platform.sweep.configuration import ConfigurationError, TrialConfig, config_hash
from labeldp.platform.sweep.space import Choice, Grid, LogUniform, RandomAxis, points
from labeldp.platform.sweep.sweep import Line, PlannedTrial, Sweep, check_one_vault, lines

#: So many settings of a strand are looked at one by one; of more, and of continuous ones, samples.
_FEW = 64
#: Values that are looked at of a continuous axis, its ends among them.
_LANDMARKS = 5
#: Settings that are drawn beside the landmarks and the corners, which may act together.
_DRAWS = 8

Numbers = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Strand:
    """One search.

    Attributes:
        line: The variant.
        base: The sweep's configuration that the variant starts from.
        point: The grid's values, by dotted key.
        axes: Searched, by dotted key; none for a trial that stands alone.
        trials: How many there will be.
        seed: Of what is suggested.
    """

    line: Line
    base: TrialConfig
    point: Mapping[str, Any]
    axes: Mapping[str, RandomAxis]
    trials: int
    seed: int

    @property
    def name(self) -> str:
        """What it is called in messages."""
        where = (f"{key.rpartition('.')[2]}={value}" for key, value in self.point.items())
        return " ".join([self.line.variant.name, *where])

    @cached_property
    def id(self) -> str:
        """Tells it from other strands, also in a later start: all but the number of trials."""
        axes = {key: repr(axis) for key, axis in self.axes.items()}
        first = self.planned(self.probes()[0])
        settings = config_hash(first.config, data_fingerprint="")
        text = json.dumps([self.line.variant.name, settings, axes, self.seed])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def combinations(self) -> int | None:
        """How many settings there are; None where an axis is continuous."""
        if not all(isinstance(axis, Choice) for axis in self.axes.values()):
            return None
        return math.prod(
            len(axis.values) for axis in self.axes.values() if isinstance(axis, Choice)
        )

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
        config = self.line.config(self.base, point)
        return PlannedTrial(variant=self.line.variant.name, config=config, point=point)

    @cached_property
    def probed(self) -> Mapping[Numbers, PlannedTrial]:
        """The trials at the probes.

        Raises:
            ConfigurationError: Settings that can't be used together.
        """
        return {numbers: self.planned(numbers) for numbers in self.probes()}

    def all_numbers(self) -> Iterator[Numbers]:
        """Yield every setting, of a strand that has no continuous axis."""
        assert self.combinations is not None
        places = (
            range(len(axis.values)) for axis in self.axes.values() if isinstance(axis, Choice)
        )
        yield from itertools.product(*places)

    def probes(self) -> list[Numbers]:
        """Return settings that tell what the axes do: all if they are few, or else samples.

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


def strands_of(sweep: Sweep, overrides: Mapping[str, Any] | None = None) -> tuple[Strand, ...]:
    """Return the searches of a sweep that names one, each checked at its probes.

    Args:
        sweep: At the size asked for.
        overrides: Dotted key -> value, list or axis.

    Raises:
        ConfigurationError: A key or value that can't be used, or nothing to search.
    """
    search = sweep.search
    assert search is not None
    found: dict[str, Strand] = {}
    for line in lines(sweep, overrides):
        grids = {key: axis for key, axis in line.axes.items() if isinstance(axis, Grid)}
        searched = {key: axis for key, axis in line.axes.items() if not isinstance(axis, Grid)}
        for point in points(grids, samples=1, seed=0):
            strand = Strand(
                line=line,
                base=sweep.base,
                point=point,
                axes=searched,
                trials=search.trials if searched else 1,
                seed=search.seed,
            )
            found.setdefault(strand.id, strand)
    strands = tuple(found.values())
    if not any(strand.axes for strand in strands):
        raise ConfigurationError(
            f"sweep {sweep.name!r} names a search and has nothing to search: give an axis a range, "
            "such as 'trainer.learning_rate=loguniform(0.001, 0.3)', or leave the search out"
        )
    check_one_vault([strand.planned(strand.probes()[0]) for strand in strands])
    return strands


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

"""Axes of a search space, and the trials they make: grids in full, random axes by seeded draws.

A sweep's trials are all listed before the first one starts. That makes the plan exact, the budget
checkable and a resumed sweep the same sweep. Independent draws are also what the price of selection
presumes (Papernot and Steinke, ICLR 2022).

>>> list(points({"a": Grid(1, 2), "b": Uniform(0.0, 1.0)}, samples=1, seed=0))[0]["a"]
1
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp.mechanisms import _validate


@dataclass(frozen=True, init=False)
class _Values:
    values: tuple[Any, ...]

    def __init__(self, *values: object) -> None:
        """Take values, or one list, tuple or array of them; NumPy's numbers become Python's."""
        if len(values) == 1 and isinstance(values[0], list | tuple | np.ndarray):
            values = tuple(values[0])
        values = tuple(each.item() if isinstance(each, np.generic) else each for each in values)
        if not values:
            raise ValueError(f"a {type(self).__name__} holds no value; name at least one")
        object.__setattr__(self, "values", values)


class Grid(_Values):
    """Every one of `values`."""


class Choice(_Values):
    """One of `values`, each equally likely."""

    def sample(self, generator: np.random.Generator) -> Any:
        """Draw one value."""
        return self.values[int(generator.integers(len(self.values)))]


@dataclass(frozen=True)
class Uniform:
    """A number between `low` and `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _validate.number(low=self.low, high=self.high)
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(
                f"{type(self).__name__}({self.low}, {self.high}): low must be below high, both "
                "finite"
            )

    def sample(self, generator: np.random.Generator) -> float:
        """Draw one number."""
        return float(generator.uniform(self.low, self.high))


class LogUniform(Uniform):
    """A number between `low` and `high` whose logarithm is uniform."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive(low=self.low)

    def sample(self, generator: np.random.Generator) -> float:
        """Draw one number."""
        return float(math.exp(generator.uniform(math.log(self.low), math.log(self.high))))


RandomAxis = Choice | Uniform | LogUniform
Axis = Grid | RandomAxis


def without_seeds(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point without seeds, by any name: trials that differ in them are repetitions."""
    return {k: v for k, v in point.items() if k.rpartition(".")[2] not in ("seed", "draw")}


def points(space: Mapping[str, Axis], *, samples: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the settings of every trial.

    The random axes are drawn `samples` times, with the same draws at every point of the grid, so
    that columns compare.
    """
    _validate.whole(samples=samples, minimum=1)
    grids = {key: axis.values for key, axis in space.items() if isinstance(axis, Grid)}
    random = {key: axis for key, axis in space.items() if not isinstance(axis, Grid)}
    generator = np.random.default_rng(seed)
    draws = [
        {key: axis.sample(generator) for key, axis in random.items()}
        for _ in range(samples if random else 1)
    ]
    for values in itertools.product(*grids.values()):
        for draw in draws:
            yield {**dict(zip(grids, values, strict=True)), **draw}

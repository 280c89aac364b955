"""space: grids in full, draws that repeat, bounds."""

import math

import numpy as np
import pytest

from labeldp.platform.sweep.space import Axis, Choice, Grid, LogUniform, Uniform, points


def test_a_grid_is_walked_in_full_and_in_order() -> None:
    found = list(points({"a": Grid(1, 2), "b": Grid("x", "y")}, samples=5, seed=0))
    assert found == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_no_axes_are_one_point() -> None:
    assert list(points({}, samples=3, seed=0)) == [{}]


def test_every_grid_point_gets_the_same_draws() -> None:
    space: dict[str, Axis] = {
        "a": Grid(1, 2),
        "b": Uniform(0, 1),
        "c": LogUniform(1e-3, 1),
        "d": Choice("x", "y"),
    }
    found = list(points(space, samples=4, seed=1))
    assert len(found) == 8
    draws = [{key: value for key, value in point.items() if key != "a"} for point in found]
    assert draws[:4] == draws[4:]
    assert len({point["b"] for point in draws}) == 4


def test_draws_repeat_with_the_seed_and_only_with_it() -> None:
    space = {"b": Uniform(0, 1)}
    first = list(points(space, samples=3, seed=1))
    assert list(points(space, samples=3, seed=1)) == first
    assert list(points(space, samples=3, seed=2)) != first
    # More samples keep those that a smaller sweep had: its trials are not run again.
    assert list(points(space, samples=5, seed=1))[:3] == first


def test_draws_are_distributed_as_they_say() -> None:
    generator = np.random.default_rng(0)
    uniform = np.array([Uniform(2.0, 4.0).sample(generator) for _ in range(4000)])
    assert uniform.min() >= 2 and uniform.max() < 4
    assert uniform.mean() == pytest.approx(3, abs=5 * 0.577 / math.sqrt(4000))
    logs = np.log10([LogUniform(1e-4, 1.0).sample(generator) for _ in range(4000)])
    assert logs.min() >= -4 and logs.max() <= 0
    assert logs.mean() == pytest.approx(-2, abs=5 * 1.155 / math.sqrt(4000))
    chosen = [Choice("x", "y", "z").sample(generator) for _ in range(3000)]
    assert all(abs(chosen.count(value) - 1000) < 5 * math.sqrt(3000 * 2 / 9) for value in "xyz")


@pytest.mark.parametrize("axis", [Grid, Choice])
def test_an_axis_without_values_is_refused(axis: type) -> None:
    with pytest.raises(ValueError, match="holds no value; name at least one"):
        axis()


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, math.inf), (math.nan, 1)])
def test_uniform_needs_bounds_in_order(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="low"):
        Uniform(low, high)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (2, 1), (1, 1), (1, math.inf)])
def test_log_uniform_needs_positive_bounds_in_order(low: float, high: float) -> None:
    with pytest.raises(ValueError, match=r"low|high"):
        LogUniform(low, high)


def test_samples_are_a_whole_number_above_zero() -> None:
    with pytest.raises(ValueError, match="samples is 0; it must be at least 1"):
        list(points({"b": Uniform(0, 1)}, samples=0, seed=0))

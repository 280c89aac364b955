"""drawing: round numbers along an axis, as matplotlib would choose them."""

import numpy as np
import pytest
from matplotlib.ticker import MaxNLocator

from labeldp.platform.report.drawing import Scale


def scale(low: float, high: float) -> Scale:
    return Scale(low=low, high=high, start=0, end=100)


@pytest.mark.parametrize("most", [4, 5, 6])
def test_ticks_are_those_of_matplotlib(most: int) -> None:
    generator = np.random.default_rng(3)
    locator = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10])
    # Not rounded: where a step fits exactly, matplotlib goes by the last bit of the division.
    ends = np.sort(generator.normal(size=(300, 2)) * 10.0 ** generator.integers(-3, 4, (300, 1)))
    for low, high in [(0.0, 1.0), (50.0, 100.0), *ends.tolist()]:
        slack = 1e-9 * (high - low)
        wanted = [v for v in locator.tick_values(low, high) if low - slack <= v <= high + slack]
        assert scale(low, high).ticks(most) == pytest.approx(wanted, abs=1e-9 * (high - low))


def test_an_axis_that_is_a_point_has_one_tick() -> None:
    assert scale(3.0, 3.0).ticks() == [3.0]

"""parallel_chart: an axis for what differs, a line for each point, numbers and names alike."""

import math
from typing import Any
from xml.etree import ElementTree

import pytest

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.method_styles import styles_of
from labeldp.platform.report.parallel_chart import parallel_chart
from labeldp.platform.report.pareto import points
from tests.platform.sweep.examples import a_record


def drawn(records: list[TrialRecord]) -> ElementTree.Element | None:
    found = points(records)
    svg = parallel_chart(found, styles=styles_of(found))
    return None if svg is None else ElementTree.fromstring(svg)


def titles(figure: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in figure.iter("text") if text.get("class") == "heading"]


def test_axes_are_what_differs() -> None:
    records = [
        a_record(
            f"{rate}{kind}",
            point={"trainer.learning_rate": rate, "trainer.model": kind, "trainer.width": 8},
            epsilon=1.0,
            accuracy=0.5 + rate,
        )
        for rate in (0.001, 0.01, 0.1)
        for kind in ("MLP", None)
    ]
    figure = drawn(records)
    assert figure is not None
    assert titles(figure) == ["learning rate", "model", "epsilon", "accuracy, %"]
    lines = [line.get("points", "").split() for line in figure.iter("polyline")]
    assert len(lines) == 6 and all(len(line) == 4 for line in lines)
    heights = sorted({float(line[0].split(",")[1]) for line in lines})
    # Learning rates are spread by their logarithms.
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)
    assert "–" in [text.text for text in figure.iter("text")]


@pytest.mark.parametrize(
    "values", [[1, "a"], [True, False], [[1, 2], [3]], [None, 2.5], [math.inf, 1.0], [0, 0.0]]
)
def test_any_values_can_be_drawn(values: list[Any]) -> None:
    records = [
        a_record(str(n), point={"x": value, "y": n}, epsilon=1.0 + n)
        for n, value in enumerate(values)
    ]
    figure = drawn(records)
    assert figure is not None
    for line in figure.iter("polyline"):
        places = [float(n) for pair in line.get("points", "").split() for n in pair.split(",")]
        assert all(map(math.isfinite, places))


def test_where_nothing_is_to_be_compared_there_is_no_figure() -> None:
    assert drawn([]) is None
    assert drawn([a_record(point={"x": 1})]) is None
    assert (
        drawn(
            [
                a_record("a", point={"trainer.epsilon": 1.0}, epsilon=1.0),
                a_record("b", point={"trainer.epsilon": 2.0}, epsilon=2.0),
            ]
        )
        is None
    )

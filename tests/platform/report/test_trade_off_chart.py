"""trade_off_chart: every point is where its numbers are, and nothing lies outside of the figure."""

import math
import re
from xml.etree import ElementTree

import pytest

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.drawing import Scale
from labeldp.platform.report.method_styles import COLORS, MARKERS, MethodStyle, styles_of
from labeldp.platform.report.pareto import points
from labeldp.platform.report.trade_off_chart import trade_off_chart
from tests.platform.sweep.examples import a_record


def drawn(
    records: list[TrialRecord], *, attack: bool = True, width: float = 720
) -> ElementTree.Element:
    found = points(records)
    svg = trade_off_chart(
        found,
        records={record.hash: record for record in records},
        styles=styles_of(found),
        width=width,
        attack=attack,
    )
    return ElementTree.fromstring(svg)


def markers(figure: ElementTree.Element) -> dict[str, tuple[float, float]]:
    """What a marker says -> where it is."""
    places = {}
    for mark in figure.iter("path"):
        x, y = re.findall(r"-?[\d.]+", mark.get("transform", ""))
        places[mark.findtext("title", "")] = (float(x), float(y))
    return places


SWEEP = [
    a_record("a", point={"x": 1}, epsilon=0.5, accuracy=0.6, epsilon_m_low=0.0),
    a_record("b", point={"x": 2}, epsilon=2.0, accuracy=0.8, epsilon_m_low=0.5),
    a_record("c", point={"x": 3}, epsilon=8.0, accuracy=0.9, epsilon_m_low=1.0),
    a_record("d", variant="none", epsilon=math.inf, accuracy=0.95, epsilon_m_low=2.0),
]


@pytest.mark.parametrize("width", [352.0, 720.0])
def test_markers_are_in_order_and_inside(width: float) -> None:
    figure = drawn(SWEEP, width=width)
    places = markers(figure)
    height = float(figure.get("viewBox", "").split()[3])
    upper = [place for words, place in places.items() if "accuracy" in words]
    lower = [place for words, place in places.items() if "proved" in words]
    assert len(upper) == len(lower) == 4
    for panel in (upper, lower):
        assert [x for x, _ in panel] == sorted(x for x, _ in panel), "larger epsilons are right"
        assert [y for _, y in panel] == sorted((y for _, y in panel), reverse=True)
        assert all(0 < x < width and 0 < y < height for x, y in panel)
    assert [x for x, _ in upper] == [x for x, _ in lower], "panels share their axis"
    # Epsilon is drawn by its logarithm: 0.5, 2 and 8 are equally far from each other.
    assert upper[1][0] - upper[0][0] == pytest.approx(upper[2][0] - upper[1][0], abs=0.2)


def test_without_an_attack_there_is_no_lower_panel() -> None:
    silent = [a_record(epsilon_m_ceiling=0.0)]
    for figure in (drawn(SWEEP, attack=False), drawn(silent)):
        assert not [words for words in markers(figure) if "proved" in words]
        assert not list(figure.iterfind("*[@class='ceiling']"))


def test_a_proof_beyond_the_guarantee_lies_in_the_shaded_field() -> None:
    honest, broken = (
        a_record(epsilon=1.0, epsilon_m_low=0.9),
        a_record(epsilon=1.0, epsilon_m_low=1.4),
    )
    for record, beyond in ((honest, False), (broken, True)):
        figure = drawn([record])
        (place,) = [p for words, p in markers(figure).items() if "proved" in words]
        (curve,) = figure.iterfind("*[@class='guarantee']")
        along = [tuple(map(float, pair.split(","))) for pair in curve.get("points", "").split()]
        nearest = min(along, key=lambda at: abs(at[0] - place[0]))
        assert (place[1] < nearest[1]) == beyond


def test_every_seed_is_a_dot() -> None:
    seeds = [a_record(str(n), point={"seed": n}, accuracy=0.7 + n / 100) for n in range(5)]
    figure = drawn(seeds)
    assert len(list(figure.iter("circle"))) == 5
    assert any("± 1.6" in words for words in markers(figure))
    assert len(list(figure.iterfind("*[@class='spread m0']"))) == 1


@pytest.mark.parametrize(
    "record",
    [
        a_record(epsilon=0.0),
        a_record(epsilon=math.inf, epsilon_m_high=math.inf),
        a_record(accuracy=0.0),
        a_record(accuracy=1.0, epsilon=1e-9),
        a_record(epsilon=1e9, epsilon_m_ceiling=0.01, epsilon_m_low=0.0),
    ],
)
def test_extremes_can_be_drawn(record: TrialRecord) -> None:
    places = markers(drawn([record]))
    assert places and all(math.isfinite(x + y) and x > 0 and y > 0 for x, y in places.values())


def test_methods_beside_each_other_hide_nobody() -> None:
    records = [a_record(str(n), variant=f"method {n}") for n in range(9)]
    places = [p for words, p in markers(drawn(records)).items() if "accuracy" in words]
    assert len({x for x, _ in places}) == 9
    assert max(x for x, _ in places) - min(x for x, _ in places) < 40


def test_sixteen_methods_look_different_and_baselines_are_grey() -> None:
    styles = [MethodStyle(number=number) for number in range(16)]
    assert len({(style.css, style.path) for style in styles}) == 16
    assert len(COLORS) == len(MARKERS) == 8
    found = points([a_record("a"), a_record("b", variant="A baseline", epsilon=math.inf)])
    looks = styles_of(found, ["failed"])
    assert list(looks) == ["ALIBI", "failed", "A baseline"]
    assert looks["A baseline"].css == "mb" and looks["ALIBI"].css == "m0"


def test_scales_put_their_ends_where_they_belong() -> None:
    for log in (False, True):
        scale = Scale(low=1, high=100, start=0, end=10, log=log)
        assert (scale(1), scale(100), scale(1000), scale(0.1)) == (0, 10, 10, 0)
    assert Scale(low=1, high=100, start=0, end=10, log=True)(10) == pytest.approx(5)
    assert Scale(low=3, high=3, start=0, end=10)(3) == 5

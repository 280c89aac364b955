"""figures: points are where their numbers are; any sweep can be drawn."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report import figures
from labeldp.platform.report.figures import (
    curves_of,
    png,
    style_of,
    styles_of,
    trade_off,
)
from labeldp.platform.report.page import MOST_PANELS, page
from labeldp.platform.report.pareto import points
from tests.platform.sweep.examples import a_record

SWEEP = [
    a_record("a", point={"x": 1}, epsilon=0.5, accuracy=0.6, epsilon_m_low=0.0),
    a_record("b", point={"x": 2}, epsilon=2.0, accuracy=0.8, epsilon_m_low=0.5),
    a_record("c", point={"x": 3}, epsilon=8.0, accuracy=0.9, epsilon_m_low=1.0),
    a_record("d", variant="none", epsilon=math.inf, accuracy=0.95, epsilon_m_low=2.0),
]


def panels(records: Sequence[TrialRecord], **how: Any) -> list[Axes]:
    found = points(records)
    return trade_off(found, styles_of(found), **{"width": 720.0, "attack": True, **how}).axes


def markers(axes: Axes) -> list[tuple[float, float]]:
    """Places of the points' markers."""
    lines = (line for line in axes.get_lines() if line.get_markersize() == 9)
    places: list[Any] = [place for line in lines for place in np.asarray(line.get_xydata())]
    return [(float(x), float(y)) for x, y in places]


@pytest.mark.parametrize("width", [352.0, 720.0])
def test_markers_are_where_their_numbers_are(width: float) -> None:
    upper, lower = (markers(axes) for axes in panels(SWEEP, width=width))
    assert [round(y) for _, y in upper] == [60, 80, 90, 95]
    assert [y for _, y in lower] == [0.0, 0.5, 1.0, 2.0]
    places = [x for x, _ in upper]
    assert places == sorted(places) == [x for x, _ in lower], "panels share their axis"
    assert 0 < places[0] and places[-1] < 1
    # Epsilon is drawn by its logarithm: 0.5, 2 and 8 are equally far from each other.
    assert places[1] - places[0] == pytest.approx(places[2] - places[1])


def test_without_an_attack_there_is_no_lower_panel() -> None:
    assert len(panels(SWEEP, attack=False)) == len(panels([a_record(epsilon_m_ceiling=0.0)])) == 1


def test_a_proof_beyond_the_guarantee_lies_in_the_shaded_field() -> None:
    for low, beyond in ((0.9, False), (1.4, True)):
        _, lower = panels([a_record(epsilon=1.0, epsilon_m_low=low)])
        ((x, y),) = markers(lower)
        (curve,) = (line for line in lower.get_lines() if line.get_gid() == "guarantee")
        assert (y > np.interp(x, *np.asarray(curve.get_data()))) == beyond


def test_every_seed_is_a_dot() -> None:
    seeds = [a_record(str(n), point={"seed": n}, accuracy=0.7 + n / 100) for n in range(5)]
    upper, _ = panels(seeds)
    (dots,) = (line for line in upper.get_lines() if line.get_gid() == "seeds ALIBI")
    assert list(np.asarray(dots.get_ydata())) == pytest.approx([70, 71, 72, 73, 74])


def test_sixteen_methods_look_different_and_baselines_are_grey() -> None:
    styles = [style_of(place) for place in range(16)]
    assert len({(style.css, style.path) for style in styles}) == 16
    assert len({(style.color, style.marker, style.hollow) for style in styles}) == 16
    found = points([a_record("a"), a_record("b", variant="A baseline", epsilon=math.inf)])
    looks = styles_of(found, ["failed"])
    assert list(looks) == ["ALIBI", "failed", "A baseline"]
    assert looks["A baseline"].css == "mb" and looks["ALIBI"].css == "m0"


@pytest.mark.parametrize(
    "record",
    [
        a_record(epsilon=0.0),
        a_record(epsilon=math.inf, epsilon_m_high=math.inf),
        a_record(accuracy=0.0),
        a_record(accuracy=1.0, epsilon=1e-9),
        a_record(epsilon=1e9, epsilon_m_ceiling=0.01, epsilon_m_low=0.0),
        *(a_record(variant=name) for name in ("$x", "$x^$", r"\$\frac$", "a_$_b", "_hidden")),
    ],
)
def test_anything_can_be_drawn(record: TrialRecord, tmp_path: Path) -> None:
    found = points([record])
    how = {"width": 720.0, "attack": True, "title": record.variant}
    png(tmp_path / "a.png", trade_off, found, styles_of(found), **how)
    assert imread(tmp_path / "a.png").std() > 0


@pytest.mark.parametrize(
    "values", [[1, "a"], [True, False], [[1, 2], [3]], [None, 2.5], [math.inf, 1.0], [0, 0.0]]
)
def test_any_settings_can_be_compared(values: list[Any]) -> None:
    records = [
        a_record(str(n), point={"x": v, "y": n}, epsilon=1.0 + n) for n, v in enumerate(values)
    ]
    columns = figures.settings_compared(points(records))
    assert list(columns)[-3:] == ["y", "epsilon", "accuracy, %"]
    drawn = figures.parallel(columns, [style_of(0)] * len(values))
    (lines,) = drawn.axes[0].collections
    for path in lines.get_paths():
        assert np.isfinite(path.vertices).all() and len(np.asarray(path.vertices)) == len(columns)


def of_curves(record: TrialRecord, values: list[float]) -> TrialRecord:
    curves = [{"epoch": n, "loss": 3.0 - n, "val_accuracy": v} for n, v in enumerate(values, 1)]
    return replace(record, curves=curves)


def test_curves_are_means_over_seeds_thinned_or_else_losses() -> None:
    def curves(*records: TrialRecord) -> tuple[str, list[figures.Curve]]:
        return curves_of(points(records), {record.hash: record for record in records})

    seeds = [
        of_curves(a_record(str(n), point={"seed": n}), [0.2 * n, 0.4 + 0.2 * n]) for n in (0, 1)
    ]
    shows, (curve,) = curves(*seeds)
    assert shows == "accuracy" and curve.values == pytest.approx([10, 50])
    assert curves(of_curves(a_record(), [math.nan, math.nan]))[0] == "loss"
    assert curves(of_curves(a_record(), [0.5]))[1] == [] == curves()[1], "one epoch is no line"
    _, (curve,) = curves(of_curves(a_record(), [n / 1000 for n in range(1000)]))
    assert len(curve.values) <= 80 and (curve.values[0], curve.values[-1]) == (0, 99.9)


def test_what_is_too_much_is_counted() -> None:
    shares = {"top_k_stage_2_share_1": 0.5, "top_k_stage_2_share_3": 0.5}
    records = [
        a_record(f"{v}-{e}", variant=f"m{v:02}", point={"x": e}, epsilon=1.0 + e, figures=shares)
        for v in range(MOST_PANELS + 1)
        for e in range(10)
    ]
    text = page(records, title="x")
    assert text.count('aria-label="Learning curves of') == MOST_PANELS
    assert text.count(", stage 2: share of labels") == MOST_PANELS
    assert f"{len(records) - MOST_PANELS * 8} further settings not drawn" in text

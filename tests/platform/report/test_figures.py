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
from labeldp.platform.report.figures import (
    MOST_PANELS,
    Line,
    curves_of,
    png,
    styles_of,
    trade_off,
)
from labeldp.platform.report.page import page
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
    return trade_off(found, styles_of(found), **{"attack": True, **how}).axes


def markers(axes: Axes) -> list[tuple[float, float]]:
    """Places of the points' markers."""
    lines = (line for line in axes.get_lines() if line.get_markersize() == 9)
    places: list[Any] = [place for line in lines for place in np.asarray(line.get_xydata())]
    return [(float(x), float(y)) for x, y in places]


def test_markers_are_where_their_numbers_are() -> None:
    upper, lower = panels(SWEEP)
    above, below = markers(upper), markers(lower)
    assert [round(y) for _, y in above] == [60, 80, 90, 95]
    assert [y for _, y in below] == [0.0, 0.5, 1.0, 2.0]
    places = [x for x, _ in above]
    assert places == [x for x, _ in below], "panels share their axis"
    assert places[:3] == [0.5, 2.0, 8.0] and places[3] > 8, "a baseline is beyond all"
    left, right = upper.get_xlim()
    assert upper.get_xscale() == "log" and left < 0.5 < places[3] < right


def test_without_an_attack_there_is_no_lower_panel() -> None:
    assert len(panels(SWEEP, attack=False)) == len(panels([a_record(epsilon_m_ceiling=0.0)])) == 1


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
    how = {"attack": True, "title": record.variant}
    png(tmp_path / "a.png", trade_off, found, styles_of(found), **how)
    assert imread(tmp_path / "a.png").std() > 0


def of_curves(record: TrialRecord, values: list[float]) -> TrialRecord:
    curves = [{"epoch": n, "loss": 3.0 - n, "val_accuracy": v} for n, v in enumerate(values, 1)]
    return replace(record, curves=curves)


def test_curves_are_means_over_seeds_thinned_or_else_losses() -> None:
    def curves(*records: TrialRecord) -> tuple[str, list[Line]]:
        shows, lines = curves_of(points(records), {record.hash: record for record in records})
        return shows, [line for mine in lines.values() for line in mine]

    seeds = [
        of_curves(a_record(str(n), point={"seed": n}), [0.2 * n, 0.4 + 0.2 * n]) for n in (0, 1)
    ]
    shows, (curve,) = curves(*seeds)
    assert shows == "accuracy" and curve.heights == pytest.approx([10, 50])
    assert curves(of_curves(a_record(), [math.nan, math.nan]))[0] == "loss"
    assert curves(of_curves(a_record(), [0.5]))[1] == [] == curves()[1], "one epoch is no line"
    _, (curve,) = curves(of_curves(a_record(), [n / 1000 for n in range(1000)]))
    assert len(curve.heights) <= 80 and (curve.heights[0], curve.heights[-1]) == (0, 99.9)


def test_what_is_too_much_is_counted() -> None:
    records = [
        of_curves(a_record(f"{v}-{e}", variant=f"m{v:02}", point={"x": e}), [0.5, 0.6])
        for v in range(MOST_PANELS + 1)
        for e in range(10)
    ]
    text = page(records, title="x")
    assert text.count('aria-label="Learning curves of') == MOST_PANELS
    assert f"{len(records) - MOST_PANELS * 8} further settings not drawn" in text

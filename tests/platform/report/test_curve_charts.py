"""curve_charts: a panel for each method, lines that can be told apart, or else losses."""

import math
from dataclasses import replace

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.curve_charts import MOST_LINES, MOST_PANELS, CurvePanels, curve_panels
from labeldp.platform.report.method_styles import styles_of
from labeldp.platform.report.pareto import points
from tests.platform.sweep.examples import a_record


def panels(records: list[TrialRecord]) -> CurvePanels | None:
    found = points(records)
    by_hash = {record.hash: record for record in records}
    return curve_panels(found, records=by_hash, styles=styles_of(found))


def curve(values: list[float]) -> list[dict[str, float]]:
    return [
        {"epoch": n, "loss": 3.0 - n, "val_accuracy": value} for n, value in enumerate(values, 1)
    ]


def test_each_method_has_a_panel_and_each_epsilon_a_line() -> None:
    records = [
        replace(
            a_record(f"{v}{e}", variant=v, point={"x": e}, epsilon=e), curves=curve([0.2, 0.5, 0.8])
        )
        for v in ("A", "B")
        for e in (1.0, 2.0, math.inf)
    ]
    found = panels(records)
    assert found is not None and found.shows == "accuracy" and found.left_out == 0
    assert len(found.panels) == 2
    for panel in found.panels:
        assert panel.count("<polyline") == 3
        assert ">ε 1<" in panel and ">ε 2<" in panel and ">none<" in panel


def test_seeds_are_averaged_epoch_by_epoch() -> None:
    records = [
        replace(a_record("a", point={"seed": 0}), curves=curve([0.0, 0.4])),
        replace(a_record("b", point={"seed": 1}), curves=curve([0.2, 0.6])),
    ]
    mean = [replace(a_record("c"), curves=curve([0.1, 0.5]))]
    one, other = panels(records), panels(mean)
    assert one is not None and other is not None
    assert one.panels == other.panels


def test_without_a_test_split_there_are_losses() -> None:
    record = replace(a_record(), curves=curve([math.nan, math.nan]))
    found = panels([record])
    assert found is not None and found.shows == "loss"
    assert panels([replace(a_record(), curves=curve([0.5]))]) is None, "one epoch is no line"
    assert panels([replace(a_record(), curves=[])]) is None
    assert panels([]) is None


def test_what_is_too_much_is_counted() -> None:
    records = [
        replace(
            a_record(f"{v}-{e}", variant=f"method {v:02}", point={"x": e}, epsilon=1.0 + e),
            curves=curve([0.1, 0.2]),
        )
        for v in range(MOST_PANELS + 1)
        for e in range(MOST_LINES + 2)
    ]
    found = panels(records)
    assert found is not None and len(found.panels) == MOST_PANELS
    assert all(panel.count("<polyline") == MOST_LINES for panel in found.panels)
    assert found.left_out == len(records) - MOST_PANELS * MOST_LINES


def test_long_curves_are_thinned_to_their_ends() -> None:
    values = [n / 1000 for n in range(1000)]
    long = panels([replace(a_record(), curves=curve(values))])
    assert long is not None and len(long.panels[0]) < 4000

"""stage_charts: the histogram of k* by stage, mean over seeds, of those trials that kept one."""

from xml.etree import ElementTree

import pytest

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.histograms import bars
from labeldp.platform.report.pareto import points
from labeldp.platform.report.stage_charts import MOST_CHARTS, stage_charts
from tests.platform.sweep.examples import a_record


def heights(svg: str) -> list[float]:
    return [float(bar.get("height", 0)) for bar in ElementTree.fromstring(svg).iter("rect")]


def charts(records: list[TrialRecord]) -> list[str]:
    return [str(c) for c in stage_charts(points(records), records={r.hash: r for r in records})]


def test_a_histogram_for_each_stage_and_mean_over_seeds() -> None:
    shares = [
        {"top_k_stage_2_share_1": 0.5, "top_k_stage_2_share_3": 0.5},
        {"top_k_stage_2_share_1": 1.0, "top_k_stage_3_share_1": 1.0},
    ]
    records = [a_record(str(n), point={"seed": n}, figures=each) for n, each in enumerate(shares)]
    second, third = charts(records)
    assert "stage 2" in second and "stage 3" in third
    one, three = heights(second)
    assert one / three == pytest.approx(0.75 / 0.25, rel=0.02)
    assert charts([a_record()]) == []


def test_no_more_than_can_be_looked_at() -> None:
    figures = {"top_k_stage_2_share_1": 1.0}
    records = [a_record(f"{n:x}", point={"x": n}, figures=figures) for n in range(MOST_CHARTS + 5)]
    assert len(charts(records)) == MOST_CHARTS


def test_bars_are_stacked() -> None:
    svg = bars(
        {"answered": [0, 30], "refused": [20, 10]}, edges=[0, 0.5, 1], title="t", along="share"
    )
    found = [
        (bar.get("class"), float(bar.get("y", 0)), float(bar.get("height", 0)))
        for bar in ElementTree.fromstring(svg).iter("rect")
    ]
    assert [css for css, _, _ in found] == ["bar b1", "bar b0", "bar b1"]
    (_, lower, _), (_, upper, height) = found[1:]
    assert upper + height == pytest.approx(lower, abs=0.2), "the second stands on the first"

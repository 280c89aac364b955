"""Points, figures and pages: any sweep can be drawn and shown, to both audiences."""

import itertools
import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.image import imread

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.progress import outcome
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.card import TEMPLATES
from labeldp.platform.report.figures import OF_PAPER, column, save, styles_of, trade_off
from labeldp.platform.report.ledger import Audience
from labeldp.platform.report.page import page, write_report
from labeldp.platform.report.pareto import Point, front, front_rows, points
from labeldp.platform.settings.metrics import ChooseBy, figures_of
from labeldp.trainers.data.splits import FeatureProvenance, League
from tests.platform.report.reading import Page
from tests.platform.sweep.examples import a_record

HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}{% raw %}"


def made(records: Sequence[TrialRecord], **changes: Any) -> Page:
    return Page(page(records, **{"title": "small", **changes}))


def comparison() -> list[TrialRecord]:
    """Two methods of two seeds and a baseline, one trial of which failed."""
    records = [
        a_record(
            f"{variant}{epsilon}{seed}".lower(),
            variant=variant,
            point={"trainer.epsilon": epsilon, "trainer.learning_rate": 0.1, "seed": seed},
            epsilon=epsilon,
            accuracy=0.8 + 0.01 * epsilon + 0.005 * seed,
        )
        for variant in ("ALIBI", "AGIBI")
        for epsilon in (1.0, 4.0)
        for seed in (0, 1)
    ]
    baseline = a_record("z", variant="none", epsilon=math.inf, epsilon_m_low=2.5, accuracy=0.97)
    failed = a_record("f", variant="ALIBI", finished=False, reason="the loss is not finite")
    return [*records, baseline, failed]


def test_the_public_page_has_nothing_of_the_owners() -> None:
    figures = {"private/epsilon_x": 0.1234, "ensemble_accuracy": 0.5678}
    records = [*comparison(), a_record("s", figures=figures)]
    owner, public = (made(records, audience=audience) for audience in reversed(Audience))
    for words in ("epsilon_m", "the attack", "of delta 0", "the loss is not finite", "ceiling"):
        # The glossary explains them all.
        assert words in owner.text.partition("The words used here")[0]
        assert words not in public.text.partition("The words used here")[0], words
    assert "1 trial. Why they failed is for the owner" in public.text
    assert "public edition" in public.text and "epsilon_m" not in public.tables[0][0]
    for found in (owner, public):
        assert not {"0.1234", "12.34", "0.5678", "56.78"} & set(found.text.split())
        assert "private/" not in found.text


def test_the_best_epoch_is_not_called_the_last() -> None:
    for name, stated in (("ALIBI", False), ("ALIBI (test_selected)", True)):
        assert ("best epoch by the same labels" in made([a_record(variant=name)]).text) == stated


def test_published_numbers_stand_beside_ours(tmp_path: Path) -> None:
    at: dict[str, dict[str, Any]] = {
        "a": {"trainer.epsilon": 3.0},
        "b": {"trainer.epsilon": 3.1},
        "c": {"trainer.epsilon": 6.0},
        "d": {"trainer.epsilon": 6.0, "trainer.post_processing": "softmax"},
    }
    records = [
        a_record(name, variant=name, changes={"data.name": "cifar100", **changes})
        for name, changes in at.items()
    ]
    head, *rows = made(records).tables[0]
    place = head.index("published, %")
    assert [" ".join(row[place].split()) for row in rows] == [
        "51.60 / 55.00 Malek et al. 2021, Table 1; Malek et al. 2021, Table 2",
        "",
        "71.50 Malek et al. 2021, Table 2",
        "",
    ]
    assert "published, %" not in made(comparison()).tables[0][0]
    write_report(records, folder=tmp_path, title="small")
    kept = pd.read_csv(tmp_path / "pareto.csv")
    assert kept["published"].dropna().tolist() == [0.55, 0.715]


def test_names_are_shown_and_never_run() -> None:
    records = [
        a_record("a", variant=HOSTILE, point={f"x.{HOSTILE}": HOSTILE}, epsilon=1.0),
        a_record("b", variant=f"{HOSTILE}2", point={f"x.{HOSTILE}": 1}, epsilon=2.0),
        a_record("c", variant=HOSTILE, finished=False, reason=HOSTILE),
    ]
    ledger = {"releases": 1, "epsilon_total": 1.0, "delta": 0.0}
    found = made(records, title=HOSTILE, releases=(HOSTILE,), ledger=ledger)
    assert sum(tag == "script" for tag, _ in found.tags) == 1
    assert found.text.count(HOSTILE) >= 6 and "49" not in found.text.split()
    assert not [name for _, attributes in found.tags for name in attributes if name[:2] == "on"]


BARE = {"releases": 5, "epsilon_total": math.inf, "delta": 1e-5}


@pytest.mark.parametrize(
    ("records", "facts", "words"),
    [
        ([], {"running": True, "left": 3}, "0 trials finished, 0 failed, 3 left; the sweep is"),
        ([a_record(finished=False, reason="too large")], {}, "1 failed"),
        ([a_record(epsilon=math.inf)], {}, "1 trial finished"),
        ([a_record(epsilon=0.0, epsilon_m_ceiling=0.0)], {}, "not measured"),
        (
            comparison(),
            {"ledger": {"releases": 1, "epsilon_total": 2.5, "delta": 0.0}},
            "1 release. A label that all of them touch has paid epsilon 2.5 at delta 0",
        ),
        (
            comparison(),
            {"ledger": {**BARE, "epsilon_private": 46.2}},
            "5 releases. Those with noise add up to epsilon 46.2 at delta 1e-5",
        ),
    ],
)
def test_all_records_are_shown(
    records: list[TrialRecord], facts: dict[str, Any], words: str
) -> None:
    found = made(records, **facts)
    assert words in found.text
    assert "nan" not in found.text.lower().split() and "None" not in found.text.split()


def test_epsilon_is_shown_as_a_risk_by_the_curve_of_gaussian_noise_where_there_is_one() -> None:
    figures = {"epsilon": 1.0, "delta": 1e-5}
    gaussian = a_record("g", variant="G", figures={**figures, "gaussian_mu": 0.268})
    records = [gaussian, a_record("p", variant="P", figures=figures)]
    ledger = {"releases": 2, "epsilon_total": 2.0, "delta": 0.0}
    for audience in Audience:
        found = made(records, audience=audience, ledger=ledger)
        column = found.tables[0][0].index("guess, %")
        assert [row[column] for row in found.tables[0][1:]] == ["55.4", "73.2"]
        for words in ("50% before, at most 55.4% after", "50% before, at most 73.2% after"):
            assert words in found.text
        assert "50% before, at most 88.1% after" in found.text  # of the whole sweep
        assert "0.268" in found.text.split()


def a_point(epsilon: float, accuracy: float) -> Point:
    (found,) = points([a_record(epsilon=epsilon, accuracy=accuracy)])
    return found


def a_seed(seed: int, figures: Mapping[str, float]) -> TrialRecord:
    point = {"seed": seed, "noise.draw": seed, "trainer.epsilon": 1.0}
    return a_record(str(seed), point=point, figures=figures)


def test_seeds_are_averaged_and_the_worst_epsilons_kept() -> None:
    (found,) = points(
        [
            a_seed(0, {"accuracy": 0.8, "epsilon": 1, "epsilon_m_low": 0.5, "epsilon_m_high": 2}),
            a_seed(1, {"accuracy": 0.9, "epsilon": 1.5, "epsilon_m_low": 0.1, "epsilon_m_high": 4}),
        ]
    )
    assert found.accuracy == pytest.approx(0.85)
    assert found.accuracy_std == pytest.approx(0.1 / math.sqrt(2))
    assert (found.epsilon, found.epsilon_m_low, found.epsilon_m_high) == (1.5, 0.1, 4.0)
    assert (found.point, found.hashes) == ((("trainer.epsilon", 1.0),), ("0", "1"))


def test_seeds_before_and_after_data_moved_make_one_point() -> None:
    one = a_record(epsilon=2.0)
    moved = replace(one, hash="b", config={**one.config, "data.path": "/moved.csv", "seed": 1})
    assert len(points([one, moved])) == 1


@pytest.mark.parametrize("key", ["trainer.epsilon", "trainer.learning_rate"])
def test_commands_that_each_fix_a_setting_make_points_of_their_own(key: str) -> None:
    one = a_record(epsilon=2.0, accuracy=0.9)
    two, four = (
        replace(one, hash=digest, config={**one.config, key: value})
        for digest, value in (("a", 2.0), ("b", 4.0))
    )
    assert [point.hashes for point in points([two, four])] == [("a",), ("b",)]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), max_size=25))
def test_front_is_what_no_other_point_beats(places: list[tuple[int, int]]) -> None:
    base = a_point(1.0, 0.5)
    candidates = [
        replace(base, epsilon=math.inf if e == 9 else e / 2, accuracy=a / 20) for e, a in places
    ]

    def beaten(point: Point) -> bool:
        return any(
            other.epsilon <= point.epsilon
            and other.accuracy >= point.accuracy
            and (other.epsilon, other.accuracy) != (point.epsilon, point.accuracy)
            for other in candidates
        )

    expected = {(p.epsilon, p.accuracy) for p in candidates if not beaten(p)}
    found = front(candidates)
    assert {(p.epsilon, p.accuracy) for p in found} == expected
    assert len(found) == len(expected)
    for a, b in itertools.pairwise(found):
        assert a.epsilon < b.epsilon and a.accuracy < b.accuracy


def test_epsilons_that_differ_in_their_last_digits_are_one_on_the_front() -> None:
    better, worse = a_point(0.2, 0.9), a_point(0.2 - 1e-15, 0.8)
    assert front([worse, replace(better, delta=1e-5), better]) == [better]
    cheaper = a_point(0.2 - 1e-6, 0.8)
    assert front([cheaper, better]) == [cheaper, better]


def estimated(digest: str, accuracy: float | None, estimate: float, epsilon: float) -> TrialRecord:
    """A record whose accuracy is estimated, and measured only if that is given."""
    found = AccuracyEstimate(accuracy=estimate, sampling_error=0.01)
    record = a_record(digest, point={"x": digest}, epsilon=epsilon, figures=figures_of(found))
    metrics = {key: value for key, value in record.metrics.items() if key != "accuracy"}
    measured = {} if accuracy is None else {"accuracy": accuracy}
    return replace(record, metrics={**metrics, **measured})


def test_the_front_goes_by_the_accuracy_that_is_chosen() -> None:
    records = [estimated("a", 0.9, 0.7, 1.0), estimated("b", 0.8, 0.8, 2.0)]
    assert [point.hashes for point in front(points(records))] == [("a",)]
    by_estimate = front(points(records, choose_by=ChooseBy.ESTIMATED))
    assert [point.hashes for point in by_estimate] == [("a",), ("b",)]
    assert [point.accuracy for point in by_estimate] == [0.7, 0.8]
    assert [point.accuracy_test for point in by_estimate] == [0.9, 0.8]
    with pytest.raises(ValueError, match="no public test split"):
        points([estimated("a", None, 0.7, 1.0)], choose_by=ChooseBy.TEST)


def test_leagues_are_not_compared_with_each_other() -> None:
    plain = [
        a_record("a", accuracy=0.6, point={"trainer.epsilon": 1.0}),
        a_record("b", accuracy=0.8, epsilon=2.0, point={"trainer.epsilon": 2.0}),
    ]
    made = FeatureProvenance(league=League.PUBLIC_ENCODER, encoder="timm:net").described()
    strong = replace(a_record("c", accuracy=0.95), features=made)
    found = points([*plain, strong])
    assert {point.hashes for point in front(found)} == {("a",), ("b",), ("c",)}
    assert {point.league for point in found} == {"no outside data", "public encoder"}
    rows = front_rows([*plain, strong], choose_by=None, run_id=str)
    assert {row["run_id"]: row["league"] for row in rows}["c"] == "public encoder"
    # Equal but for the league is not a seed of the same.
    assert len(points([plain[0], replace(plain[0], hash="d", features=made)])) == 2
    mixed, alone = (Page(page(each, title="x")) for each in ([*plain, strong], plain))
    assert mixed.tables[0][0][-1] == "league" and "Rows are of several leagues" in mixed.text
    assert alone.tables[0][0][-1] == "noise" and "several leagues" not in alone.text


def test_errors_of_several_seeds_are_not_averaged_away() -> None:
    records = [estimated("a", None, 0.7, 1.0), estimated("b", None, 0.8, 1.0)]
    (point,) = points(replace(r, point={"seed": number}) for number, r in enumerate(records))
    assert point.estimate is not None
    assert point.estimate.accuracy == pytest.approx(0.75)
    assert point.estimate.error == pytest.approx(0.01)  # they share the held-out examples


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


def test_markers_that_would_cover_each_other_stand_side_by_side() -> None:
    near = [a_record(n, variant=n, epsilon=2.0, accuracy=0.9 + int(n) / 1000) for n in "012"]
    far = a_record("far", variant="far", epsilon=2.0, accuracy=0.2)
    upper, _ = panels([*near, far])
    places = {round(y, 1): x for x, y in markers(upper)}
    assert places[20.0] == 2.0 == places[90.1]
    assert places[90.0] < 2.0 < places[90.2]
    low, high = upper.get_xlim()
    width = upper.get_position().width * 760  # points, of the figure
    apart = width * math.log(places[90.1] / places[90.0]) / math.log(high / low)
    assert apart >= 9, "a marker is nine points wide"


def test_an_interval_that_is_cut_ends_in_an_arrow() -> None:
    _, lower = panels([a_record("a", epsilon_m_high=math.inf), a_record("b", epsilon_m_high=0.1)])
    arrows = [line for line in lower.get_lines() if line.get_marker() == "^"]
    ends = [np.size(line.get_xdata()) for line in arrows if line.get_markersize() == 5]
    assert sum(ends) == 1


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_more_than_is_guaranteed_is_shaded_for_delta_0(delta: float) -> None:
    _, lower = panels([a_record(delta=delta)])
    assert any("at delta 0" in text.get_text() for text in lower.texts) == (delta > 0)
    assert ("]†, " in outcome(a_record(delta=delta))) == (delta > 0)


@pytest.mark.parametrize(
    "record",
    [
        a_record(epsilon=0.0, accuracy=0.0),
        a_record(epsilon=math.inf, epsilon_m_high=math.inf),
        a_record(epsilon=1e9, epsilon_m_ceiling=0.01, epsilon_m_low=0.0),
        *(a_record(variant=name) for name in ("$x", r"\$\frac$", "_hidden")),
    ],
)
def test_anything_can_be_drawn(record: TrialRecord, tmp_path: Path) -> None:
    found = points([record])
    trade_off(found, styles_of(found), attack=True)
    with rc_context(OF_PAPER):
        for attack in (False, True):
            save(column(found, styles_of(found), attack=attack), tmp_path / "a.png")
            assert imread(tmp_path / "a.png").std() > 0


#: A page without tables, with one folded run card; prints what the script shows.
BROWSER = """
const fold = {open: false, parentElement: {closest: () => null}};
const card = {closest: () => fold, scrollIntoView: () => console.log("shown", fold.open)};
globalThis.document = {
  querySelectorAll: () => [],
  getElementById: (id) => (id === "card" ? card : null),
};
globalThis.location = {hash: process.argv[1]};
globalThis.addEventListener = () => {};
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's script")
@pytest.mark.parametrize(
    ("address", "shown"), [("", ""), ("#nowhere", ""), ("#card", "shown true")]
)
def test_the_script_of_a_page_runs_to_its_end(address: str, shown: str) -> None:
    script = BROWSER + (TEMPLATES / "page.js").read_text().replace('"use strict";', "")
    done = subprocess.run(
        ["node", "--use_strict", "-e", script, "--", address], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, shown, "")

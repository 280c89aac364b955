"""pareto: trials that differ in seeds are one point; the front is what no other point beats."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.page import page
from labeldp.platform.report.pareto import Point, front, front_rows, leagues_of, points
from labeldp.platform.sweep.accuracy_figures import ChooseBy, figures_of
from labeldp.trainers.encoders.provenance import FeatureProvenance, League
from tests.platform.report.reading import Page
from tests.platform.sweep.examples import a_record


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
    assert all(
        a.epsilon < b.epsilon and a.accuracy < b.accuracy for a, b in itertools.pairwise(found)
    )


def test_epsilons_that_differ_in_their_last_digits_are_one_on_the_front() -> None:
    better, worse = a_point(0.2, 0.9), a_point(0.2 - 1e-15, 0.8)
    assert front([worse, better]) == [better]
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
    assert leagues_of(found) == ["no outside data", "public encoder"]
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

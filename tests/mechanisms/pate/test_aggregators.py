"""Aggregators: published answers from given draws, prices, privacy observed over a million runs."""

import json
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    DecisionEvent,
    GaussianEvent,
    PureEvent,
    epsilon_from_rdp,
    epsilon_of,
    log_gaussian_delta,
    pure_rdp,
)
from labeldp.mechanisms.pate import aggregators
from labeldp.mechanisms.pate.accounting import CheckNoise, PateCost, log_probability_answered
from labeldp.mechanisms.pate.aggregators import (
    NO_ANSWER,
    Aggregator,
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    gaussian_argmax,
    least_noise,
    price_for_any_votes,
    surprise_counts,
)
from labeldp.mechanisms.pate.decisions import Accounting, decision_rdp_gnmax
from tests.mechanisms.privacy_loss import RUNS, assert_private, privacy_loss_lower_bound
from tests.shared_material import shared_path

CONFIDENT = ConfidentGNMax(threshold=60.0, sigma1=20.0, sigma2=10.0)
AGGREGATORS: list[Aggregator] = [
    LNMax(scale=5.0),
    GNMax(noise_std=10.0),
    CONFIDENT,
    ConfidentGNMax(threshold=60.0, sigma1=20.0, sigma2=10.0, check_noise=CheckNoise.PER_CLASS),
]


def given(normals: NDArray[Any]) -> Any:
    return SimpleNamespace(normal=lambda *, size, scale=1.0: scale * normals)


@pytest.mark.parametrize("index", range(9))
def test_published_answers_from_given_draws(index: int) -> None:
    row = json.loads(shared_path("oracle", "antipodes", "aggregation.json").read_text())[index]
    name, count = row["name"], row["n_queries"]
    with np.load(shared_path("oracle", "antipodes", "votes.npz")) as arrays:
        votes = arrays[name][:count]
    with np.load(shared_path("oracle", "antipodes", "aggregation.npz")) as arrays:
        z1, z2, labels, mask = (arrays[f"{name}__{key}"] for key in ("z1", "z2", "labels", "mask"))
    noise: dict[str, Any] = {name: row[name] for name in ("threshold", "sigma1", "sigma2")}
    per_class = ConfidentGNMax(**noise, check_noise=CheckNoise.PER_CLASS)
    passed = per_class.check(votes, given(z1))
    np.testing.assert_array_equal(passed, mask)
    assert passed.sum() == row["answered_official_per_class_noise"]
    answers = gaussian_argmax(votes[passed], row["sigma2"], given(z2[: passed.sum()]))
    np.testing.assert_array_equal(answers, labels)
    single = ConfidentGNMax(**noise).check(votes, given(z1[:, 0]))
    assert single.sum() == row["reference_answered_single_noise_on_max"]
    expected = np.exp(log_probability_answered(votes, row["threshold"], row["sigma1"])).sum()
    assert expected == pytest.approx(row["accountant_expected_answered"], rel=1e-9)


@pytest.mark.parametrize("height", [1, 7])
def test_chunks_of_queries_are_answered_as_one(
    height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregators, "_CHUNK_ENTRIES", 3 * height)
    winners = np.random.default_rng(0).integers(3, size=50)
    votes = np.where(np.arange(3) == winners[:, None], 100, 0)
    asked = np.arange(50) % 4 > 0  # of the others the student knows the answer
    scores = np.where(asked[:, None], 1 / 3, votes / 100)
    quiet = InteractiveGNMax(threshold=40.0, sigma1=0.1, sigma2=0.1, confidence=0.9)
    for most in (1, 20, None):
        generator = np.random.default_rng(1)
        found = quiet.respond(votes, student_scores=scores, max_answers=most, generator=generator)
        assert found.checked == (50 if most is None else np.flatnonzero(asked)[most - 1] + 1)
        expected = np.where(np.arange(50) < found.checked, winners, NO_ANSWER)
        assert found.labels.tolist() == expected.tolist()
        assert found.by_teachers.tolist() == (asked & (expected != NO_ANSWER)).tolist()


def test_the_check_of_a_name_is_that_check() -> None:
    named: Any = {"threshold": 60.0, "sigma1": 20.0, "sigma2": 10.0, "check_noise": "per_class"}
    assert ConfidentGNMax(**named).check_noise is CheckNoise.PER_CLASS


def test_events_are_the_costs_of_any_votes() -> None:
    assert LNMax(scale=20.0).events(checked=7, answered=7) == (PureEvent(epsilon=0.7),)
    (gaussian,) = GNMax(noise_std=40.0).events(checked=8, answered=8, accounting=Accounting.COUNTS)
    assert gaussian == GaussianEvent(noise_multiplier=10.0)
    (decisions,) = GNMax(noise_std=40.0).events(checked=8, answered=8)
    assert isinstance(decisions, DecisionEvent)
    assert decisions.noise_multiplier == pytest.approx(10.0)
    assert decisions.rdp == pytest.approx(8 * decision_rdp_gnmax(40.0, ORDERS))
    for accounting, table_1 in ((Accounting.COUNTS, 2.543), (Accounting.DECISION, 2.1545)):
        one_noise, per_class = (
            ConfidentGNMax(threshold=200.0, sigma1=150.0, sigma2=40.0, check_noise=noise).events(
                checked=640, answered=286, accounting=accounting
            )
            for noise in CheckNoise
        )
        assert epsilon_of(one_noise, delta=1e-5) == pytest.approx(table_1, abs=5e-4)
        assert epsilon_of(per_class, delta=1e-5) > epsilon_of(one_noise, delta=1e-5)
    assert all(aggregator.events(checked=0, answered=0) == () for aggregator in AGGREGATORS)


# Privacy, observed: one vote moves, a million runs on either side.

Neighbors = tuple[list[int], list[int]]


def runs_of(aggregator: Any, neighbors: Neighbors) -> list[NDArray[np.int64]]:
    generator = np.random.default_rng(6)
    many = (np.tile(row, (RUNS, 1)) for row in neighbors)
    return [1 + aggregator.answer(votes, generator=generator) for votes in many]


def test_lnmax_is_private_and_half_its_noise_is_not() -> None:
    # Where the leader is behind by more than any noise likely makes up for, its odds move by
    # almost 2/scale: the worst there is.
    assert_private(lambda epsilon: runs_of(LNMax(scale=2 / epsilon), ([3, 5], [2, 6])), epsilon=1.5)


def observed_divergence(first: Any, second: Any, *, orders: NDArray[Any]) -> NDArray[np.float64]:
    """Renyi divergence of frequencies in the worse direction [A]; rare outcomes are left out."""
    p, q = (np.bincount(run, minlength=4) / len(run) for run in (first, second))
    common = (p > 1e-3) & (q > 1e-3)
    p, q = p[common], q[common]
    return np.array(
        [
            max(math.log((a**order * b ** (1 - order)).sum()) / (order - 1) for a, b in both)
            for order in orders
            for both in [((p, q), (q, p))]
        ]
    )


@pytest.mark.parametrize(
    ("make", "neighbors"),
    [
        (lambda f: GNMax(noise_std=2.0 * f), ([20, 18, 0], [19, 19, 0])),
        (
            lambda f: ConfidentGNMax(threshold=20.0, sigma1=2.0 * f, sigma2=2.0 * f),
            ([20, 20], [19, 21]),
        ),
        (
            lambda f: ConfidentGNMax(
                threshold=20.0, sigma1=2.0 * f, sigma2=50.0, check_noise=CheckNoise.PER_CLASS
            ),
            ([20, 0], [19, 1]),
        ),
    ],
)
def test_divergence_of_the_observed_answers_stays_below_both_prices(
    make: Callable[[float], Any], neighbors: Neighbors
) -> None:
    orders = np.array([1.5, 2.0])
    full, half = make(1.0), make(0.5)
    (event,) = full.events(checked=1, answered=1)
    price = orders / (2 * event.noise_multiplier**2)
    observed = observed_divergence(*runs_of(full, neighbors), orders=orders)
    assert (observed <= price).all()
    for row in neighbors:  # the price of the votes themselves holds, and is never above
        own = full.costs([row]).rdp(orders, answered=[True])
        assert (observed <= own).all() and (own <= price * (1 + 1e-12)).all()
    assert (observed_divergence(*runs_of(half, neighbors), orders=orders) > price).all()


INTERACTIVE = InteractiveGNMax(threshold=60.0, sigma1=5.0, sigma2=2.0, confidence=0.9)


def test_teachers_answer_surprising_queries_and_the_student_reinforces_the_rest() -> None:
    votes = np.array([[98, 1, 1], [98, 1, 1], [50, 48, 2]] * 100)
    scores = np.array([[0.95, 0.03, 0.02], [0.0, 0.05, 0.95], [0.4, 0.3, 0.3]] * 100)
    answers = INTERACTIVE.respond(votes, student_scores=scores, generator=np.random.default_rng(0))
    known, surprising, unclear = (slice(start, None, 3) for start in range(3))
    assert (answers.labels[known] == 0).all() and not answers.by_teachers[known].any()
    assert (answers.labels[surprising] == 0).all() and answers.by_teachers[surprising].all()
    assert (answers.labels[unclear] == NO_ANSWER).all() and answers.checked == 300
    assert answers.answered == 100
    labels = INTERACTIVE.answer(votes, student_scores=scores, generator=np.random.default_rng(0))
    np.testing.assert_array_equal(labels, answers.labels)
    few = INTERACTIVE.respond(
        votes, student_scores=scores, generator=np.random.default_rng(0), max_answers=10
    )
    assert (few.answered, few.checked) == (10, 29)


def test_a_vote_moves_a_count_by_one_at_scores_that_rounding_would_trip_over() -> None:
    """Scores half a vote off, to the last bit: rounded afterwards, one in nine jumps by 2."""
    halves = (np.arange(100) + 0.5) / 100
    teachers = np.arange(101)
    votes = np.stack([teachers, 100 - teachers], axis=1)
    for score in (*halves, *np.nextafter(halves, 0), *np.nextafter(halves, 1)):
        scores = np.tile([score, 1 - score], (101, 1))
        counts = surprise_counts(votes, scores)
        assert (np.diff(counts, axis=0) == [1, -1]).all()
        assert np.abs(counts - (votes - 100 * scores)).max() <= 0.5 + 1e-12


def test_the_check_is_private_over_a_million_runs_and_half_its_noise_is_not() -> None:
    scores = np.tile([[0.25, 0.75]], (RUNS, 1))

    def passed(sigma1: float) -> list[Any]:
        aggregator = InteractiveGNMax(threshold=14.5, sigma1=sigma1, sigma2=1e6, confidence=1.0)
        generator = np.random.default_rng(3)
        runs = [
            aggregator.respond(
                np.tile([row], (RUNS, 1)), student_scores=scores, generator=generator
            )
            for row in ([24, 16], [23, 17])
        ]
        return [run.by_teachers.astype(np.int64) for run in runs]

    # The surplus is 14 or 13, and passing 14.5 the worst event of this Gaussian at epsilon 0.25.
    delta = math.exp(log_gaussian_delta(noise_multiplier=2.0, epsilon=0.25))
    assert privacy_loss_lower_bound(*passed(2.0), delta=delta) <= 0.25
    assert privacy_loss_lower_bound(*passed(1.0), delta=delta) > 0.25


def test_a_student_is_believed_above_the_confidence_and_not_at_it() -> None:
    for confidence, answer in ((0.0, 0), (1.0, NO_ANSWER)):
        given: dict[str, float] = {"threshold": 1e9, "sigma1": 1.0, "sigma2": 1.0}
        found = InteractiveGNMax(**given, confidence=confidence).answer(
            [[1, 5]], student_scores=[[1.0, 0.0]], generator=np.random.default_rng(0)
        )
        assert found == [answer]


# The price of a run for any votes, and the least noise that just meets a target


@pytest.mark.parametrize("make", [lambda x: GNMax(noise_std=x), lambda x: LNMax(scale=x)])
@pytest.mark.parametrize("conversion", Conversion)
@pytest.mark.parametrize("target", [0.1, 2.0, 30.0])
def test_the_least_noise_just_meets_the_target(
    make: Callable[[float], Aggregator], conversion: Conversion, target: float
) -> None:
    def price(noise: float) -> float:
        return price_for_any_votes(
            make(noise), checked=64, answered=64, delta=1e-5, conversion=conversion
        ).epsilon

    assert target * (1 - 1e-6) <= price(least_noise(price, target)) <= target
    with pytest.raises(ValueError, match="raise epsilon or delta"):
        least_noise(lambda noise: 1.0 + price(noise), 0.9)


def test_prices_for_any_votes_are_those_of_the_formulas() -> None:
    def price(aggregator: Aggregator, answered: int, **how: Any) -> PateCost:
        return price_for_any_votes(
            aggregator, checked=answered, answered=answered, delta=1e-5, **how
        )

    laplace = LNMax(scale=20.0)
    few, many = price(laplace, 3), price(laplace, 400)
    assert (few.epsilon, few.order, few.answered) == pytest.approx((0.3, math.inf, 3.0))
    expected = epsilon_from_rdp(ORDERS, 400 * pure_rdp(0.1, ORDERS), 1e-5)
    assert (many.epsilon, many.order) == pytest.approx(expected) and many.epsilon < 40
    for conversion in Conversion:
        normal = price(
            GNMax(noise_std=20.0), 50, conversion=conversion, accounting=Accounting.COUNTS
        )
        expected = epsilon_from_rdp(ORDERS, 50 * ORDERS / 20**2, 1e-5, conversion)
        assert (normal.epsilon, normal.order) == pytest.approx(expected)


MIXED = np.random.default_rng(1).multinomial(100, [0.75, 0.15, 0.1], size=200)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("accounting", Accounting)
@pytest.mark.parametrize("conversion", Conversion)
def test_no_votes_cost_more(
    aggregator: Aggregator, accounting: Accounting, conversion: Conversion
) -> None:
    answers = aggregator.respond(MIXED, generator=np.random.default_rng(0), max_answers=50)
    checked = answers.checked
    any_votes = price_for_any_votes(
        aggregator,
        checked=checked,
        answered=answers.answered,
        delta=1e-5,
        conversion=conversion,
        accounting=accounting,
    )
    costs = aggregator.costs(MIXED, accounting)
    realised = costs.head(checked).cost(
        answered=answers.by_teachers[:checked], delta=1e-5, conversion=conversion
    )
    expected = costs.until(50).cost(delta=1e-5, conversion=conversion)
    assert answers.answered == realised.answered == any_votes.answered == 50
    assert 0 < realised.epsilon <= any_votes.epsilon
    assert 50 <= expected.answered < 51
    has_check = isinstance(aggregator, ConfidentGNMax)
    assert expected.epsilon == pytest.approx(realised.epsilon, rel=0.2 if has_check else 1e-12)

"""ledger: the budget's rule in plans, grants and reports, against sums by hand."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.mechanisms.accounting import (
    ORDERS,
    DecisionEvent,
    Event,
    GaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RenyiEvent,
    epsilon_of,
)
from labeldp.mechanisms.ledger import (
    Budget,
    BudgetExceeded,
    PrivacyLedger,
    all_pure,
    epsilon_of_prices,
    epsilon_or_infinity,
    ledger_of,
    shown,
    stated,
    total_of_prices,
)
from labeldp.mechanisms.release_store import Charge

PURE, GAUSSIAN = PureEvent(epsilon=0.5), GaussianEvent(noise_multiplier=4.0)
RENYI = RenyiEvent(orders=(2.0, 3.0), rdp=(0.1, 0.2))


def line(event: Event, failing: float = 0.0, indices: Any = None) -> Charge:
    return Charge(
        key="a",
        event=event,
        indices=None if indices is None else np.array(indices),
        mechanism={},
        failure_probability=failing,
    )


def test_a_budget_allows_what_meets_it_but_for_the_last_bits() -> None:
    budget = Budget(epsilon=0.3)
    assert 0.1 + 0.2 > 0.3
    for epsilon in (0.0, 0.29, 0.3, 0.1 + 0.2):
        assert budget.allows(epsilon)
    for epsilon in (0.3 * (1 + 1e-11), 0.31, math.inf, math.nan):
        assert not budget.allows(epsilon)
    assert Budget(epsilon=math.inf).allows(math.inf)


def test_pure_releases_are_recognized() -> None:
    assert all_pure([]) and all_pure([PURE, RandomizedResponseEvent(epsilon=1.0, num_classes=3)])
    decisions = DecisionEvent(noise_multiplier=4.0, orders=(2.0,), rdp=(0.1,))
    for event in (GAUSSIAN, RENYI, decisions):
        assert not all_pure([PURE, event])


def test_the_delta_of_a_total_leaves_as_much_as_may_fail() -> None:
    def delta(*prices: Charge) -> float:
        epsilon, at = total_of_prices(prices, delta=1e-5)
        assert epsilon == epsilon_of_prices(prices, delta=at)
        return at

    assert delta() == delta(line(PURE)) == 0.0
    assert delta(line(PURE), line(GAUSSIAN)) == 1e-5
    assert delta(line(GAUSSIAN, 4e-6)) == 1e-5
    assert delta(line(GAUSSIAN, 4e-6), line(GAUSSIAN, 2e-6)) == 2 * (4e-6 + 2e-6) > 1e-5
    assert delta(line(PURE, 4e-6)) == 8e-6
    tenth = line(PureEvent(epsilon=0.1))
    assert total_of_prices([tenth] * 5, delta=1e-5) == (0.5, 0.0)
    # From some number on less is proven at a delta than by the sum.
    epsilon, at = total_of_prices([tenth] * 60, delta=1e-5)
    assert 3.3 < epsilon < 3.5 and at == 1e-5
    assert total_of_prices([tenth] * 60, delta=0.0) == (6.0, 0.0)
    # Less than a release's own epsilon is never stated, at whatever delta.
    assert total_of_prices([line(PureEvent(epsilon=1.0))], delta=0.1) == (1.0, 0.0)
    both = [line(PURE), line(GAUSSIAN, 4e-6)]
    assert epsilon_of_prices(both, delta=1e-5) == epsilon_of([PURE, GAUSSIAN], delta=1e-5 - 4e-6)
    assert epsilon_of_prices([line(PURE, 4e-6)], delta=0.0) == math.inf


EVENTS: list[Event] = [
    *(PureEvent(epsilon=epsilon) for epsilon in (0.01, 0.1, 1.0, 4.0)),
    *(GaussianEvent(noise_multiplier=noise) for noise in (100.0, 3.0)),
    DecisionEvent(noise_multiplier=30.0, orders=tuple(ORDERS), rdp=tuple(ORDERS / 3000)),
    RenyiEvent(orders=tuple(ORDERS), rdp=tuple(ORDERS / 2000)),
]


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 40)), min_size=1, max_size=4),
    delta=st.sampled_from([1e-9, 1e-5, 1e-2]),
)
def test_a_total_never_falls_when_a_release_is_added(
    parts: list[tuple[Event, int]], delta: float
) -> None:
    prices = [line(event) for event, times in parts for _ in range(times)]
    ledger = ledger_of(prices, num_labels=2)
    before = 0.0
    for number in sorted({0, len(prices) // 2, *range(max(1, len(prices) - 3), len(prices) + 1)}):
        now, at = total_of_prices(prices[:number], delta=delta)
        assert now >= before * (1 - 1e-12) and at in (0.0, delta)
        before = now
    assert ledger.total(delta=delta) == pytest.approx((before, at))
    assert ledger.epsilon_or_infinity(delta=delta) == pytest.approx(before)
    for extra in EVENTS:
        more, _ = total_of_prices([*prices, line(extra)], delta=delta)
        assert more >= before * (1 - 1e-12)


def test_a_stated_epsilon_is_rounded_up() -> None:
    assert [shown(each) for each in (1.00049, 1.0001, 12345.1, 1e-5, 2.40001e-5)] == [
        *("1.001", "1.001", "1.235e+04", "1e-05", "2.401e-05")
    ]
    assert [shown(each, 3) for each in (0.5001, 0.4999999999999921, math.fsum([0.1] * 3))] == [
        *("0.501", "0.5", "0.3")
    ]
    assert shown(math.inf) == "inf" and shown(0.0) == "0"
    for epsilon in np.random.default_rng(0).lognormal(sigma=4, size=500):
        for digits in (3, 4, 6):
            assert epsilon * (1 - 1e-11) <= float(shown(epsilon, digits)) < epsilon * 1.011
    refused = BudgetExceeded(
        budget=Budget(epsilon=1.0), spent=0.5, requested=1.0000004, request="it"
    )
    assert "would make it 1.00001" in str(refused)


def test_charges_of_other_labels_are_not_added_but_every_failure_is() -> None:
    lines = [line(GAUSSIAN, 1e-6, [0, 1]), line(GAUSSIAN, 2e-6, [2, 3]), line(PURE, 0.0, [3])]
    expected = epsilon_of([GAUSSIAN, PURE], delta=1e-5 - 3e-6)
    ledger = ledger_of(lines, num_labels=5)
    found = ledger.epsilon_or_infinity(delta=1e-5)
    assert found == ledger.epsilon(delta=1e-5) == pytest.approx(expected, rel=1e-15)
    assert ledger.epsilon_or_infinity(delta=3e-6) == math.inf
    assert ledger_of([], num_labels=5).epsilon_or_infinity(delta=0.0) == 0.0
    per_label = ledger.epsilon_per_label(delta=1e-5)
    alone = epsilon_of([GAUSSIAN], delta=1e-5 - 3e-6)
    assert per_label == pytest.approx([alone, alone, alone, expected, 0.0])


def test_labels_that_have_paid_the_same_are_one_group() -> None:
    draws = np.random.default_rng(0)
    parts = [draws.permutation(300)[:150] for _ in range(12)]
    ledger = ledger_of([line(PURE, indices=part.tolist()) for part in parts], num_labels=300)
    times = np.bincount(np.concatenate(parts), minlength=300)
    assert len(ledger.histories) == len(set(times.tolist()))
    np.testing.assert_array_equal(ledger.epsilon_per_label(delta=0.0), 0.5 * times)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("events", [EVENTS[:4], EVENTS[4:6], EVENTS, [*EVENTS[:6], RENYI]])
def test_the_dearest_of_many_labels_is_found_at_few_prices(
    events: list[Event], delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws, priced = np.random.default_rng(0), list[list[Event]]()
    lines = [line(each, indices=draws.permutation(300)[:200]) for each in 4 * events]
    lines += [line(RENYI, indices=[300]), line(PURE, indices=[300])]  # on another grid
    paid = [
        [x.event for x in lines if x.indices is not None and row in x.indices] for row in range(301)
    ]
    dearest = max(epsilon_or_infinity(each, delta=delta) for each in paid)
    ledger = ledger_of(lines, num_labels=301)

    def counted(events: list[Event], *, delta: float) -> float:
        priced.append(events)
        return epsilon_of(events, delta=delta)

    monkeypatch.setattr("labeldp.mechanisms.ledger.epsilon_of", counted)
    assert ledger.epsilon_or_infinity(delta=delta) == pytest.approx(dearest, rel=1e-14)
    assert len(priced) * 2 < len(ledger.histories)


def test_a_ledger_that_a_charge_is_tried_on_leaves_the_other_as_it_was() -> None:
    ledger = ledger_of([line(PURE, 1e-6, indices=[0, 1])], num_labels=4)
    before = ledger.epsilon_per_label(delta=1e-5)
    trial = ledger.copy()
    trial.add(line(PureEvent(epsilon=8.0), 3e-6, indices=[1, 2]))
    assert (ledger.failure_probability, trial.failure_probability) == (1e-6, 1e-6 + 3e-6)
    assert ledger.epsilon_per_label(delta=1e-5) == pytest.approx(before, abs=0.0)
    ledger.add(line(PURE, indices=[3]))
    assert ledger.epsilon_per_label(delta=1e-5).tolist() == [0.5, 0.5, 0.0, 0.5]


def test_a_stated_epsilon_has_no_tail_and_is_never_less_than_it_is() -> None:
    assert [stated(x) for x in (0.4999999999999921, 3.9999999999999276)] == [0.5, 4.0]
    values = np.exp(np.random.default_rng(0).uniform(-20, 20, size=2_000))
    for value in (*values, 0.1 + 0.2, 0.0, math.inf):
        assert value <= stated(value) <= value * (1 + 1e-12)


# Several ledgers as one, against label-by-label sums

DELTA = 1e-5
#: The ledger of one fit, and the number of its labels.
Fit = tuple[list[Charge], int]


def joint_epsilon(fits: list[Fit], *, delta: float) -> float:
    ledger = PrivacyLedger(num_labels=10)
    for charges, size in fits:
        ledger.include(charges, num_labels=size)
    return ledger.epsilon_or_infinity(delta=delta)


def slow_epsilon(parts: list[Fit], *, delta: float) -> float:
    """A label at every place where it may have been: the dearest of all."""

    def events(charges: list[Charge], row: int) -> list[Event]:
        return [c.event for c in charges if c.indices is None or row in c.indices.tolist()]

    choices = [[events(charges, row) for row in range(size)] for charges, size in parts]
    return max(
        epsilon_of([each for some in chosen for each in some], delta=delta)
        for chosen in product(*choices)
    )


@st.composite
def fits(draw: st.DrawFn) -> Fit:
    size = draw(st.integers(1, 4))
    places = st.sets(st.integers(0, size - 1), min_size=1).map(sorted)
    events = st.sampled_from([PURE, PureEvent(epsilon=3.0), GAUSSIAN])
    lines = draw(st.lists(st.builds(line, events, indices=st.none() | places), max_size=3))
    return lines, size


@given(parts=st.lists(fits(), max_size=3))
@settings(max_examples=200, deadline=None)
def test_unknown_rows_pay_for_the_dearest_place(parts: list[Fit]) -> None:
    found, least = joint_epsilon(parts, delta=DELTA), slow_epsilon(parts, delta=DELTA)
    assert found >= least * (1 - 1e-12)  # never more than what is charged
    if any(each.event == GAUSSIAN for charges, _ in parts for each in charges):
        assert math.isinf(joint_epsilon(parts, delta=0.0))


def test_unknown_rows_pay_for_all_that_one_place_may_have_paid() -> None:
    for dearest, total in ((3.0, 6.0), (1.0, 2.0)):
        stages = [
            line(PureEvent(epsilon=1.0), indices=[0, 1]),
            line(PureEvent(epsilon=dearest), indices=[2]),
        ]
        parts = [(stages, 3)] * 2
        assert slow_epsilon(parts, delta=0.0) == total <= joint_epsilon(parts, delta=0.0)
    assert joint_epsilon(parts, delta=0.0) == 2.0

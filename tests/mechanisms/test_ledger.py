"""ledger: the budget's rule in plans, grants and reports, against sums by hand."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import (
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
    PrivacyLedger,
    all_pure,
    check_indices,
    delta_of_total,
    epsilon_at,
    epsilon_of_prices,
    ledger_of,
    stated,
)
from labeldp.mechanisms.release_store import Charge

PURE, GAUSSIAN = PureEvent(epsilon=0.5), GaussianEvent(noise_multiplier=4.0)
RENYI = RenyiEvent(orders=(2.0, 3.0), rdp=(0.1, 0.2))


@dataclass(frozen=True)
class Price:
    event: Event
    failure_probability: float = 0.0


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
    assert delta_of_total([], delta=1e-5) == 0.0
    assert delta_of_total([Price(PURE)], delta=1e-5) == 0.0
    assert delta_of_total([Price(PURE), Price(GAUSSIAN)], delta=1e-5) == 1e-5
    assert delta_of_total([Price(GAUSSIAN, 4e-6)], delta=1e-5) == 1e-5
    many = [Price(GAUSSIAN, 4e-6), Price(GAUSSIAN, 2e-6)]
    assert delta_of_total(many, delta=1e-5) == 2 * (4e-6 + 2e-6) > 1e-5
    assert delta_of_total([Price(PURE, 4e-6)], delta=1e-5) == 8e-6


def test_prices_of_one_label_leave_what_may_fail_out_of_delta() -> None:
    assert epsilon_of_prices([], delta=0.0) == 0.0
    assert epsilon_of_prices([Price(PURE)], delta=0.0) == 0.5
    both = [Price(PURE), Price(GAUSSIAN, 4e-6)]
    expected = epsilon_of([PURE, GAUSSIAN], delta=1e-5 - 4e-6)
    assert epsilon_of_prices(both, delta=1e-5) == expected
    assert epsilon_of_prices(both, delta=4e-6) == epsilon_of_prices(both, delta=0.0) == math.inf
    assert epsilon_of_prices([Price(PURE, 4e-6)], delta=0.0) == math.inf


def test_charges_of_other_labels_are_not_added_but_every_failure_is() -> None:
    lines = [line(GAUSSIAN, 1e-6, [0, 1]), line(GAUSSIAN, 2e-6, [2, 3]), line(PURE, 0.0, [3])]
    expected = epsilon_of([GAUSSIAN, PURE], delta=1e-5 - 3e-6)
    assert epsilon_at(lines, num_labels=5, delta=1e-5) == pytest.approx(expected, rel=1e-15)
    assert epsilon_at(lines, num_labels=5, delta=3e-6) == math.inf
    assert epsilon_at([], num_labels=5, delta=0.0) == 0.0
    ledger = ledger_of(lines, num_labels=5)
    assert ledger.epsilon(delta=1e-5) == epsilon_at(lines, num_labels=5, delta=1e-5)
    per_label = ledger.epsilon_per_label(delta=1e-5)
    alone = epsilon_of([GAUSSIAN], delta=1e-5 - 3e-6)
    assert per_label == pytest.approx([alone, alone, alone, expected, 0.0])
    with pytest.raises(ValueError, match="3e-06 of it goes to releases that fail"):
        ledger.epsilon(delta=3e-6)


def test_a_ledger_that_a_charge_is_tried_on_leaves_the_other_as_it_was() -> None:
    ledger = ledger_of([line(PURE, 1e-6, indices=[0, 1])], num_labels=4)
    before = ledger.epsilon_per_label(delta=1e-5)
    trial = ledger.copy()
    trial.add(line(PureEvent(epsilon=8.0), 3e-6, indices=[1, 2]))
    assert (ledger.failure_probability, trial.failure_probability) == (1e-6, 1e-6 + 3e-6)
    assert ledger.epsilon_per_label(delta=1e-5) == pytest.approx(before, abs=0.0)
    ledger.add(line(PURE, indices=[3]))
    assert ledger.epsilon_per_label(delta=1e-5).tolist() == [0.5, 0.5, 0.0, 0.5]


def test_places_of_labels_are_nobodys_to_change() -> None:
    asked = np.arange(3, dtype=np.intp)
    found = check_indices(asked, 4)
    asked[:] = 3
    assert found.tolist() == [0, 1, 2] and not found.flags.writeable


def test_a_stated_epsilon_has_no_tail_and_is_never_less_than_it_is() -> None:
    assert [stated(x) for x in (0.4999999999999921, 3.9999999999999276)] == [0.5, 4.0]
    values = np.exp(np.random.default_rng(0).uniform(-20, 20, size=2_000))
    for value in (*values, 0.1 + 0.2, 0.0, math.inf):
        assert value <= stated(value) <= value * (1 + 1e-12)


# Several ledgers as one, against label-by-label sums, rows known or not

DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The ledger of one fit, and who its labels are."""

    charges: list[Charge]
    num_labels: int
    people: NDArray[np.intp] | None = None


def joint_epsilon(fits: list[Fit], *, delta: float) -> float:
    ledger = PrivacyLedger(num_labels=10)
    for fit in fits:
        ledger.include(fit.charges, num_labels=fit.num_labels, people=fit.people)
    return ledger.epsilon_or_infinity(delta=delta)


def slow_epsilon(parts: list[Fit], *, delta: float) -> float:
    """Every label, and at every place where it may have been: the dearest of all."""

    def events(part: Fit, row: int) -> list[Event]:
        return [c.event for c in part.charges if c.indices is None or row in c.indices.tolist()]

    people = {int(one) for part in parts if part.people is not None for one in part.people}
    worst = 0.0
    for person in people or {0}:
        choices = []
        for part in parts:
            if part.people is None:
                choices.append([events(part, row) for row in range(part.num_labels)])
            else:
                rows = np.flatnonzero(part.people == person)
                choices.append([events(part, int(row)) for row in rows] or [[]])
        for chosen in product(*choices):
            worst = max(worst, epsilon_of([each for some in chosen for each in some], delta=delta))
    return worst


@st.composite
def fits(draw: st.DrawFn) -> Fit:
    size = draw(st.integers(1, 4))
    places = st.sets(st.integers(0, size - 1), min_size=1).map(sorted)
    events = st.sampled_from([PURE, PureEvent(epsilon=3.0), GAUSSIAN])
    lines = draw(st.lists(st.builds(line, events, indices=st.none() | places), max_size=3))
    people = draw(st.none() | st.permutations(range(10)))
    known = None if people is None else np.array(people[:size])
    return Fit(charges=lines, num_labels=size, people=known)


@given(parts=st.lists(fits(), max_size=3))
@settings(max_examples=200, deadline=None)
def test_known_rows_pay_for_what_they_were_in_and_unknown_ones_for_the_dearest_place(
    parts: list[Fit],
) -> None:
    found, least = joint_epsilon(parts, delta=DELTA), slow_epsilon(parts, delta=DELTA)
    assert found >= least * (1 - 1e-12)  # never more than what is charged
    if all(part.people is not None for part in parts):
        assert found == pytest.approx(least, rel=1e-12)
    if any(each.event == GAUSSIAN for part in parts for each in part.charges):
        assert math.isinf(joint_epsilon(parts, delta=0.0))


def test_unknown_rows_pay_for_all_that_one_place_may_have_paid() -> None:
    for dearest, total in ((3.0, 6.0), (1.0, 2.0)):
        stages = [
            line(PureEvent(epsilon=1.0), indices=[0, 1]),
            line(PureEvent(epsilon=dearest), indices=[2]),
        ]
        parts = [Fit(charges=stages, num_labels=3)] * 2
        assert slow_epsilon(parts, delta=0.0) == total <= joint_epsilon(parts, delta=0.0)
    assert joint_epsilon(parts, delta=0.0) == 2.0


def test_failures_of_all_parts_are_taken_off_delta() -> None:
    one = Fit(charges=[line(GaussianEvent(noise_multiplier=3.0), 4e-6)], num_labels=1)
    left = epsilon_of([GaussianEvent(noise_multiplier=3.0)] * 2, delta=DELTA - 8e-6)
    assert joint_epsilon([one, one], delta=DELTA) == pytest.approx(left)
    assert math.isinf(joint_epsilon([one, one, one], delta=DELTA))
    assert joint_epsilon([], delta=0.0) == 0.0

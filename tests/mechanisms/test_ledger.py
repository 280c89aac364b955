"""ledger: the budget's rule, for whoever plans, grants or reports, against sums by hand."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

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
    failure_of,
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


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_a_budget_at_a_delta_that_is_none_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta is"):
        Budget(epsilon=1.0, delta=delta)


def test_what_is_pure() -> None:
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
    ledger = ledger_of([line(GAUSSIAN, 1e-6)], num_labels=2)
    trial = ledger.copy()
    trial.add(line(GAUSSIAN, 3e-6))
    assert (ledger.failure_probability, trial.failure_probability) == (1e-6, 1e-6 + 3e-6)
    assert ledger.epsilon(delta=1e-5) < trial.epsilon(delta=1e-5)


def test_a_ledger_that_part_of_the_labels_is_tried_on_leaves_the_other_as_it_was() -> None:
    ledger = ledger_of([line(PURE, indices=[0, 1])], num_labels=4)
    before = ledger.epsilon_per_label(delta=0.0)
    ledger.copy().add(line(PureEvent(epsilon=8.0), indices=[1, 2]))
    assert ledger.epsilon_per_label(delta=0.0) == pytest.approx(before, abs=0.0)
    ledger.add(line(PURE, indices=[3]))
    assert ledger.epsilon_per_label(delta=0.0).tolist() == [0.5, 0.5, 0.0, 0.5]


def test_places_of_labels_are_nobodys_to_change() -> None:
    asked = np.arange(3, dtype=np.intp)
    found = check_indices(asked, 4)
    asked[:] = 3
    assert found.tolist() == [0, 1, 2] and not found.flags.writeable
    with pytest.raises(ValueError, match="whole numbers"):
        check_indices(np.array([True, False]), 4)  # a mask is no list of places


def test_what_may_fail_is_added_up_and_taken_off_delta() -> None:
    assert failure_of([Price(PURE), Price(GAUSSIAN, 4e-6), Price(PURE, 2e-6)]) == 6e-6
    ledger = PrivacyLedger(num_labels=2)
    ledger.charge(GAUSSIAN)
    ledger.add_failures([Price(PURE, 4e-6)])
    assert ledger.epsilon(delta=1e-5) == epsilon_of([GAUSSIAN], delta=1e-5 - 4e-6)


def test_a_stated_epsilon_has_no_tail_and_is_never_less_than_it_is() -> None:
    assert [stated(x) for x in (0.4999999999999921, 3.9999999999999276)] == [0.5, 4.0]
    values = np.exp(np.random.default_rng(0).uniform(-20, 20, size=2_000))
    for value in (*values, 0.1 + 0.2, 0.0, math.inf):
        assert value <= stated(value) <= value * (1 + 1e-12)

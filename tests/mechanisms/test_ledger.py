"""ledger: the budget's rule, for whoever plans, grants or reports, against sums by hand."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
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


def test_known_rows_pay_for_the_folds_that_they_were_in() -> None:
    everybody = np.arange(10)
    folds = [everybody[everybody % 5 != out] for out in range(5)]
    parts = [
        Fit(charges=[line(PureEvent(epsilon=1.0))], num_labels=8, people=fold) for fold in folds
    ]
    assert joint_epsilon(parts, delta=0.0) == pytest.approx(slow_epsilon(parts, delta=0.0)) == 4.0
    whole = Fit(charges=[line(PureEvent(epsilon=1.0))], num_labels=10, people=everybody)
    assert joint_epsilon([*parts, whole], delta=0.0) == 5.0


def test_unknown_rows_pay_for_all_and_for_the_dearest_place_in_each() -> None:
    stages = [
        line(PureEvent(epsilon=1.0), indices=[0, 1]),
        line(PureEvent(epsilon=3.0), indices=[2]),
    ]
    parts = [Fit(charges=stages, num_labels=3)] * 2
    # One label is asked in one stage of each: never more than what is charged here.
    assert joint_epsilon(parts, delta=0.0) >= slow_epsilon(parts, delta=0.0) == 6.0
    equal = [
        line(PureEvent(epsilon=1.0), indices=[0, 1]),
        line(PureEvent(epsilon=1.0), indices=[2]),
    ]
    assert joint_epsilon([Fit(charges=equal, num_labels=3)] * 2, delta=0.0) == 2.0


def test_known_and_unknown_rows_and_gaussians_compose_as_one_label_would() -> None:
    gaussian = GaussianEvent(noise_multiplier=3.0)
    parts = [
        Fit(charges=[line(gaussian)], num_labels=2, people=np.array([4, 7])),
        Fit(charges=[line(gaussian)], num_labels=2, people=np.array([7, 9])),
        Fit(charges=[line(PureEvent(epsilon=0.5))], num_labels=5),
    ]
    found = joint_epsilon(parts, delta=DELTA)
    assert found == pytest.approx(slow_epsilon(parts, delta=DELTA), rel=1e-12)
    assert math.isinf(joint_epsilon(parts, delta=0.0))


def test_failures_of_all_parts_are_taken_off_delta() -> None:
    one = Fit(charges=[line(GaussianEvent(noise_multiplier=3.0), 4e-6)], num_labels=1)
    left = epsilon_of([GaussianEvent(noise_multiplier=3.0)] * 2, delta=DELTA - 8e-6)
    assert joint_epsilon([one, one], delta=DELTA) == pytest.approx(left)
    assert math.isinf(joint_epsilon([one, one, one], delta=DELTA))
    assert joint_epsilon([], delta=0.0) == 0.0


@pytest.mark.parametrize(
    ("people", "says"), [([0, 0], "more than once"), ([0], "name each"), ([-1, 0], "outside")]
)
def test_people_are_one_for_each_label(people: list[int], says: str) -> None:
    fit = Fit(charges=[], num_labels=2, people=np.array(people))
    with pytest.raises(ValueError, match=says):
        joint_epsilon([fit], delta=0.0)


def test_a_fits_lines_are_charged_to_the_people_that_they_touched() -> None:
    ledger, people = PrivacyLedger(num_labels=6), np.array([5, 0, 2])
    ledger.include(
        [line(PURE, indices=[0, 1]), line(PURE, indices=[2])], num_labels=3, people=people
    )
    assert ledger.epsilon(delta=0.0) == 0.5  # nobody is in both
    ledger.include([line(PURE)], num_labels=3, people=people)
    assert ledger.epsilon(delta=0.0) == 1.0
    with pytest.raises(ValueError, match="index 3 is outside"):
        ledger.include([line(PURE, indices=[3])], num_labels=3, people=people)
    with pytest.raises(ValueError, match="num_labels is 0"):
        PrivacyLedger(num_labels=0)
    with pytest.raises(ValueError, match="epsilon is -1"):
        Budget(epsilon=-1.0)

"""ledger: several ledgers as one, against label-by-label sums, rows known or not."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import Event, GaussianEvent, PureEvent, epsilon_of
from labeldp.mechanisms.ledger import PrivacyLedger
from labeldp.mechanisms.release_store import Charge

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


def charge(event: Event, indices: list[int] | None = None, *, failing: float = 0.0) -> Charge:
    return Charge(
        key=repr((event, indices)),
        event=event,
        indices=None if indices is None else np.array(indices),
        mechanism={"name": "any"},
        failure_probability=failing,
    )


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
        Fit(charges=[charge(PureEvent(epsilon=1.0))], num_labels=8, people=fold) for fold in folds
    ]
    assert joint_epsilon(parts, delta=0.0) == pytest.approx(slow_epsilon(parts, delta=0.0)) == 4.0
    whole = Fit(charges=[charge(PureEvent(epsilon=1.0))], num_labels=10, people=everybody)
    assert joint_epsilon([*parts, whole], delta=0.0) == 5.0


def test_unknown_rows_pay_for_all_and_for_the_dearest_place_in_each() -> None:
    stages = [charge(PureEvent(epsilon=1.0), [0, 1]), charge(PureEvent(epsilon=3.0), [2])]
    parts = [Fit(charges=stages, num_labels=3)] * 2
    # One label is asked in one stage of each: never more than what is charged here.
    assert joint_epsilon(parts, delta=0.0) >= slow_epsilon(parts, delta=0.0) == 6.0
    equal = [charge(PureEvent(epsilon=1.0), [0, 1]), charge(PureEvent(epsilon=1.0), [2])]
    assert joint_epsilon([Fit(charges=equal, num_labels=3)] * 2, delta=0.0) == 2.0


def test_known_and_unknown_rows_and_gaussians_compose_as_one_label_would() -> None:
    gaussian = GaussianEvent(noise_multiplier=3.0)
    parts = [
        Fit(charges=[charge(gaussian)], num_labels=2, people=np.array([4, 7])),
        Fit(charges=[charge(gaussian)], num_labels=2, people=np.array([7, 9])),
        Fit(charges=[charge(PureEvent(epsilon=0.5))], num_labels=5),
    ]
    found = joint_epsilon(parts, delta=DELTA)
    assert found == pytest.approx(slow_epsilon(parts, delta=DELTA), rel=1e-12)
    assert math.isinf(joint_epsilon(parts, delta=0.0))


def test_failures_of_all_parts_are_taken_off_delta() -> None:
    one = Fit(charges=[charge(GaussianEvent(noise_multiplier=3.0), failing=4e-6)], num_labels=1)
    left = epsilon_of([GaussianEvent(noise_multiplier=3.0)] * 2, delta=DELTA - 8e-6)
    assert joint_epsilon([one, one], delta=DELTA) == pytest.approx(left)
    assert math.isinf(joint_epsilon([one, one, one], delta=DELTA))


def test_nothing_costs_nothing() -> None:
    assert joint_epsilon([], delta=0.0) == 0.0


@pytest.mark.parametrize(
    ("people", "says"), [([0, 0], "more than once"), ([0], "name each"), ([-1, 0], "outside")]
)
def test_people_are_one_for_each_label(people: list[int], says: str) -> None:
    fit = Fit(charges=[], num_labels=2, people=np.array(people))
    with pytest.raises(ValueError, match=says):
        joint_epsilon([fit], delta=0.0)

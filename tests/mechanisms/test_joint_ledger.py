"""joint_ledger: against label-by-label sums, where rows are known and where they are not."""

import math
from itertools import product

import numpy as np
import pytest

from labeldp.mechanisms.accounting import Event, GaussianEvent, PureEvent, epsilon_of
from labeldp.mechanisms.joint_ledger import LedgerPart, joint_delta, joint_epsilon
from labeldp.mechanisms.release_store import Charge

DELTA = 1e-5


def charge(event: Event, indices: list[int] | None = None, *, failing: float = 0.0) -> Charge:
    return Charge(
        key=repr((event, indices)),
        event=event,
        indices=None if indices is None else np.array(indices),
        mechanism={"name": "any"},
        failure_probability=failing,
    )


def slow_epsilon(parts: list[LedgerPart], *, delta: float) -> float:
    """Every label, and at every place where it may have been: the dearest of all."""

    def events(part: LedgerPart, row: int) -> list[Event]:
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
        LedgerPart(charges=[charge(PureEvent(epsilon=1.0))], num_labels=8, people=fold)
        for fold in folds
    ]
    assert joint_epsilon(parts, delta=0.0) == pytest.approx(slow_epsilon(parts, delta=0.0)) == 4.0
    whole = LedgerPart(charges=[charge(PureEvent(epsilon=1.0))], num_labels=10, people=everybody)
    assert joint_epsilon([*parts, whole], delta=0.0) == 5.0


def test_unknown_rows_pay_for_all_and_for_the_dearest_place_in_each() -> None:
    stages = [charge(PureEvent(epsilon=1.0), [0, 1]), charge(PureEvent(epsilon=3.0), [2])]
    parts = [LedgerPart(charges=stages, num_labels=3)] * 2
    # One label is asked in one stage of each: never more than what is charged here.
    assert joint_epsilon(parts, delta=0.0) >= slow_epsilon(parts, delta=0.0) == 6.0
    equal = [charge(PureEvent(epsilon=1.0), [0, 1]), charge(PureEvent(epsilon=1.0), [2])]
    assert joint_epsilon([LedgerPart(charges=equal, num_labels=3)] * 2, delta=0.0) == 2.0


def test_known_and_unknown_rows_and_gaussians_compose_as_one_label_would() -> None:
    gaussian = GaussianEvent(noise_multiplier=3.0)
    parts = [
        LedgerPart(charges=[charge(gaussian)], num_labels=2, people=np.array([4, 7])),
        LedgerPart(charges=[charge(gaussian)], num_labels=2, people=np.array([7, 9])),
        LedgerPart(charges=[charge(PureEvent(epsilon=0.5))], num_labels=5),
    ]
    found = joint_epsilon(parts, delta=DELTA)
    assert found == pytest.approx(slow_epsilon(parts, delta=DELTA), rel=1e-12)
    assert joint_delta(parts, delta=DELTA) == DELTA
    assert math.isinf(joint_epsilon(parts, delta=0.0))


def test_failures_of_all_parts_are_taken_off_delta() -> None:
    one = LedgerPart(
        charges=[charge(GaussianEvent(noise_multiplier=3.0), failing=4e-6)], num_labels=1
    )
    left = epsilon_of([GaussianEvent(noise_multiplier=3.0)] * 2, delta=DELTA - 8e-6)
    assert joint_epsilon([one, one], delta=DELTA) == pytest.approx(left)
    assert math.isinf(joint_epsilon([one, one, one], delta=DELTA))


def test_nothing_costs_nothing() -> None:
    assert joint_epsilon([], delta=0.0) == 0.0


@pytest.mark.parametrize(
    ("people", "says"), [([0, 0], "twice"), ([0], "names each"), ([-1, 0], "names each")]
)
def test_people_are_one_for_each_label(people: list[int], says: str) -> None:
    says = says.replace("names each", "name each")
    with pytest.raises(ValueError, match=says):
        LedgerPart(charges=[], num_labels=2, people=np.array(people))

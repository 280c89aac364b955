"""sweep_report: how trials ended, and what all of them cost. Whole sweeps are run elsewhere."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from labeldp.platform.records.sweep_identity import SweepIdentity
from labeldp.platform.records.trial_record import TrialRecord
from labeldp.platform.sweep_report import _counts, _Plan, _plan, _totals
from labeldp.platform.trusted.vault_home import LedgerSummary
from tests.platform.examples import a_charge, a_record


def sweep(*now: TrialRecord, skipped: tuple[TrialRecord, ...] = (), total: int) -> Any:
    return SimpleNamespace(
        checked=SimpleNamespace(total=total),
        recorder=SimpleNamespace(records={record.hash: record for record in now}),
        skipped={record.hash: record for record in skipped},
    )


def test_trials_are_counted_by_how_they_ended() -> None:
    over = TrialRecord(
        hash="c", variant="ALIBI", config={}, point={}, finished=False, over_budget=True
    )
    # What a reason happens to say decides nothing.
    failed = a_record("b", finished=False, reason="BudgetExceeded: said by somebody else")
    found = _counts(sweep(a_record("a"), failed, over, skipped=(a_record("d"),), total=6))
    assert found == {
        "trials": 6,
        "finished": 1,
        "failed": 2,
        "skipped": 1,
        "over_budget": 1,
        "left": 2,
    }


def test_a_trial_that_ran_again_is_not_left_twice() -> None:
    found = _counts(sweep(a_record("a"), skipped=(a_record("a"), a_record("b")), total=3))
    assert (found["skipped"], found["left"]) == (2, 1)


def summary(epsilon: float, delta: float = 0.0) -> LedgerSummary:
    return LedgerSummary(charges=[a_charge("r1"), a_charge("r2")], epsilon=epsilon, delta=delta)


def test_a_listed_sweep_costs_what_its_ledger_says() -> None:
    assert _totals(summary(2.0), _Plan()) == {
        "releases": 2,
        "epsilon_releases": 2.0,
        "epsilon_selection": 0.0,
        "epsilon_total": 2.0,
        "delta": 0.0,
    }


def test_a_sweep_that_learns_costs_the_dearest_way_that_it_could_have_gone() -> None:
    found = _totals(summary(2.0, 1e-6), _Plan(epsilon=5.0, delta=1e-5))
    assert (found["epsilon_total"], found["epsilon_selection"]) == (5.0, 3.0)
    assert (found["epsilon_releases"], found["delta"]) == (2.0, 1e-5)
    # A plan of a later start may be smaller than what earlier ones have spent.
    spent = _totals(summary(7.0, 1e-5), _Plan(epsilon=5.0, delta=1e-6))
    assert (spent["epsilon_total"], spent["epsilon_selection"], spent["delta"]) == (7.0, 0.0, 1e-5)


def test_the_plans_of_earlier_starts_count_where_they_were_dearer() -> None:
    def planned(*, learns: bool) -> Any:
        cost = SimpleNamespace(epsilon_total=3.0, delta=1e-6)
        return SimpleNamespace(sweep=SimpleNamespace(learns=learns), cost=cost)

    kept = SweepIdentity(learned_epsilon=2.0, learned_delta=1e-5)
    assert _plan(planned(learns=True), kept) == _Plan(epsilon=3.0, private=2.0, delta=1e-5)
    assert _plan(planned(learns=False), kept) == _Plan(epsilon=2.0, private=2.0, delta=1e-5)
    assert _plan(planned(learns=False), SweepIdentity()) == _Plan()


@pytest.mark.parametrize("plan", [_Plan(), _Plan(epsilon=5.0)])
def test_without_a_bound_choosing_has_no_price_of_its_own(plan: _Plan) -> None:
    found = _totals(summary(math.inf), plan)
    assert found["epsilon_total"] == math.inf and found["epsilon_selection"] == 0.0

"""sweep_report: how trials ended. Whole sweeps are run elsewhere."""

from types import SimpleNamespace
from typing import Any

from labeldp.platform.records.trial_record import TrialRecord
from labeldp.platform.sweep_report import _counts
from tests.platform.examples import a_record


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

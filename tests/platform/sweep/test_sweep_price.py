"""sweep_price: a sweep's start and its plan give one answer, whatever stands in the way."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.mechanisms.ledger import Budget, BudgetExceeded, stated
from labeldp.platform.cli.sweep_plan import plan_of
from labeldp.platform.records.results import ResultsFolder, ResultsFolderError
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.stand_ins import DataFacts
from labeldp.platform.sweep.sweep import Sweep
from labeldp.platform.sweep.sweep_check import check
from labeldp.platform.sweep.sweep_options import SweepOptions, prepare
from labeldp.platform.sweep.sweep_price import PricedSweep, priced
from tests.platform.sweep.examples import a_record, a_sweep

HELD_OUT = {"evaluation.held_out_share": 0.2, "evaluation.estimate": "count"}


def small(**changes: Any) -> Sweep:
    """Without the baseline, whose epsilon is infinite: two ways at two epsilons."""
    sweep = a_sweep(**changes)
    return replace(sweep, variants=sweep.variants[:-1])


def price(sweep: Sweep, folder: Path, *, test: bool | None = True, **asked: Any) -> PricedSweep:
    options = SweepOptions(results=folder, **asked)
    facts = DataFacts(num_classes=10, with_estimates=False)
    return priced(*prepare(sweep, options), options, facts, has_test_split=test)


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, {"choose_by": ChooseBy.ESTIMATED}),
        ({}, {"max_epsilon_total": 0.5}),
        ({"budget": Budget(epsilon=5.0, delta=1e-12)}, {}),
        ({}, {"choose_by": ChooseBy.ESTIMATED, "overrides": {**HELD_OUT, "seed": [*range(40)]}}),
    ],
    ids=["nothing held out", "over the budget", "over a sweep's own", "a lottery"],
)
def test_what_a_start_refuses_is_a_problem_of_the_plan(
    tmp_path: Path, changes: dict[str, Any], asked: dict[str, Any]
) -> None:
    sweep, options = small(**changes), SweepOptions(results=tmp_path / "results", **asked)
    with pytest.raises(ValueError) as refused:
        check(sweep, options)
    found = plan_of(sweep, options)
    assert found.problems[0] == str(refused.value) and not found.fits
    assert found.over_budget == isinstance(refused.value, BudgetExceeded)


def test_all_refusals_are_told_and_a_price_with_them(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"choose_by": ChooseBy.ESTIMATED, "max_epsilon_total": 0.5}
    found = price(small(), tmp_path, **asked)
    assert [type(each) for each in found.refusals] == [ValueError, BudgetExceeded]
    assert found.cost.epsilon_total > 0.5 and found.choose_by is ChooseBy.ESTIMATED
    # Of data that nobody could read it is not known what trials can be compared by.
    (left,) = price(small(), tmp_path, test=None, **asked).refusals
    assert isinstance(left, BudgetExceeded)


def test_a_folder_that_is_gone_on_with_is_planned_at_its_own_prices(tmp_path: Path) -> None:
    """Of counts, and of canaries, which a start would take from there."""
    overrides = {**HELD_OUT, "audit.canaries": None, "audit.coin_canaries": None}
    options = SweepOptions(results=tmp_path / "results", overrides=overrides)
    new = plan_of(small(), options)
    folder = ResultsFolder(options.results, sweep="small")
    folder.identify(count_epsilon=0.0123)
    folder.keep(a_record(changes={"audit.canaries": 20, "audit.coin_canaries": 9}))
    known, begun = plan_of(small(), options), check(small(), options)
    assert known.notes != new.notes and "pay epsilon 0.0123 for each" in known.notes[0]
    assert known.notes == begun.notes and begun.count_epsilon == 0.0123
    assert known.spoiled_labels == begun.audit.spoiled == 29 != new.spoiled_labels
    assert known.epsilon_total == stated(begun.cost.epsilon_total)
    (options.results / "sweep.json").write_text('{"count_epsilon": "much"}')
    with pytest.raises(ResultsFolderError, match="count_epsilon"):
        plan_of(small(), options)

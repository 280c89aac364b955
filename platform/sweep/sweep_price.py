"""What a sweep's trials cost, and what of that is refused: one answer for its start and its plan.

Of the data nothing is needed but how large they are, so that a plan loads neither them nor torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from labeldp.mechanisms.ledger import Budget
from labeldp.platform.sweep.accuracy_figures import ChooseBy, resolve
from labeldp.platform.sweep.beforehand import (
    check_canaries,
    refuse_planned_lottery,
    wants_estimates,
)
from labeldp.platform.sweep.cost import SweepCost, budget_of, check_budget, cost_of
from labeldp.platform.sweep.count_price import with_count_price
from labeldp.platform.sweep.earlier_starts import canaries_before, count_epsilon_before
from labeldp.platform.sweep.stand_ins import DataFacts, Search
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, with_canaries
from labeldp.platform.sweep.sweep_options import SweepOptions
from labeldp.platform.vault.audits import check_room


@dataclass(frozen=True, kw_only=True)
class PricedSweep:
    """A sweep whose price is known, whether or not it may be run.

    Attributes:
        trials: With the price of their counts; of a search what stands in for them.
        search: Whose trials are not known beforehand.
        count_epsilon: What a count of right answers costs where nobody says; None if all is said.
        choose_by: Which accuracy trials are compared by.
        cost: What all trials together will pay.
        budget: The most that a label may pay.
        refusals: Why it can't be run, in the order in which they were found.
    """

    trials: list[PlannedTrial]
    search: Search | None
    count_epsilon: float | None
    choose_by: ChooseBy
    cost: SweepCost
    budget: Budget | None
    refusals: Sequence[ValueError]


def audited(
    sized: Sweep,
    trials: list[PlannedTrial],
    options: SweepOptions,
    *,
    num_labels: int,
    num_classes: int,
) -> tuple[Sweep, list[PlannedTrial]]:
    """Settle how many canaries there are, in the trials and in the sweep's base.

    Trials that a search comes up with start from there, and are hashed with those numbers too.

    Raises:
        ValueError: Canaries that prove nothing, or more of them than labels.
        ResultsFolderError: A record of an earlier start is damaged.
    """
    check_canaries(trials[0].config, options, num_classes=num_classes)
    before = canaries_before(options.results)
    trials = with_canaries(trials, num_labels=num_labels, num_classes=num_classes, before=before)
    audit = trials[0].config.audit
    check_room(audit, num_labels=num_labels)
    numbers = {name: getattr(audit, name) for name in ("canaries", "coin_canaries")}
    base = replace(sized.base, audit=replace(sized.base.audit, **numbers))
    return replace(sized, base=base), trials


def priced(
    sized: Sweep,
    listed: Sequence[PlannedTrial],
    options: SweepOptions,
    facts: DataFacts,
    *,
    has_test_split: bool | None,
    fingerprint: str = "",
) -> PricedSweep:
    """Find out what a sweep costs, and hold that against its budget.

    Args:
        sized: At the size asked for.
        listed: Its trials, where there is no search.
        options: How to run it; the price of counts in its results folder stays what it was.
        facts: Of the data.
        has_test_split: Whether test labels are public; None where nobody could read the data.
        fingerprint: Of the public data.

    Raises:
        ConfigurationError: A search that can't be bounded beforehand, and so has no price.
        ResultsFolderError: `sweep.json` or a record of an earlier start is damaged.
    """
    asked = options.choose_by or sized.choose_by
    by, refusals = asked or ChooseBy.TEST, list[ValueError]()
    if has_test_split is not None:
        try:
            by = resolve(
                asked,
                has_test_split=has_test_split,
                has_held_out=facts.with_estimates,
                learns=sized.learns,
            )
        except ValueError as error:
            refusals.append(error)
    trials, search, count_epsilon = with_count_price(
        sized,
        listed,
        replace(facts, count_before=count_epsilon_before(options.results)),
        by=by,
        overrides=options.overrides,
        budgeted=options.max_epsilon_total is not None or sized.budget is not None,
        fingerprint=fingerprint,
    )
    cost = cost_of(trials, num_classes=facts.num_classes, with_estimates=facts.with_estimates)
    budget = budget_of(sized.budget, options.max_epsilon_total, delta=cost.delta)
    if wants_estimates(sized, options, by=by):
        refusals += _refused(lambda: refuse_planned_lottery(trials, held_out=facts.held_out))
    refusals += _refused(lambda: check_budget(cost, budget, trials=trials))
    return PricedSweep(
        trials=trials,
        search=search,
        count_epsilon=count_epsilon,
        choose_by=by,
        cost=cost,
        budget=budget,
        refusals=refusals,
    )


def _refused(check: Callable[[], None]) -> list[ValueError]:
    """What a check has against a sweep, if anything."""
    try:
        check()
    except ValueError as error:
        return [error]
    return []

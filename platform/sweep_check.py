"""First step of a sweep: all that can be refused without its results folder and a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from labeldp.mechanisms.ledger import Budget
from labeldp.platform.accuracy_figures import ChooseBy, resolve
from labeldp.platform.audit_settings import AuditSettings
from labeldp.platform.beforehand import (
    check_canaries,
    notes_of,
    refuse_planned_lottery,
    wants_estimates,
)
from labeldp.platform.cost import (
    SweepCost,
    budget_of,
    check_budget,
    check_prior_features,
    check_priors,
    cost_of,
)
from labeldp.platform.count_price import with_count_price
from labeldp.platform.data_loading import load_data
from labeldp.platform.earlier_starts import canaries_before, count_epsilon_before
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.records.sweep_identity import SweepIdentity
from labeldp.platform.records.tracking_address import check_file, default_uri
from labeldp.platform.search.stand_ins import DataFacts, Search
from labeldp.platform.sweep import PlannedTrial, Sweep, with_canaries
from labeldp.platform.sweep_options import SweepOptions, prepare
from labeldp.platform.trusted.audits import check_room
from labeldp.trainers.data import LabelledData


@dataclass(frozen=True, kw_only=True)
class CheckedSweep:
    """A sweep that can be run as far as its plan, its data and its budget tell.

    Attributes:
        sweep: At the size asked for.
        options: How to run it.
        data: Public data, and the labels apart from them.
        plans: Every trial by hash.
        cost: What all trials together will pay.
        budget: The most that a label may pay.
        choose_by: Which accuracy trials are compared by.
        folder: The results folder; not held yet.
        search: Whose trials are not known beforehand; then `plans` is empty.
        notes: What a person should know of it before anything is released.
        count_epsilon: What a count of right answers costs where nobody says; None if all is said.
    """

    sweep: Sweep
    options: SweepOptions
    data: LabelledData
    plans: Mapping[str, PlannedTrial]
    cost: SweepCost
    budget: Budget | None
    choose_by: ChooseBy
    folder: ResultsFolder
    search: Search | None = None
    notes: Sequence[str] = ()
    count_epsilon: float | None = None

    @property
    def trials(self) -> list[PlannedTrial]:
        """Every trial, in order; of a search what stands in for them."""
        return list(self.plans.values()) if self.search is None else self.search.trials

    @property
    def total(self) -> int:
        """How many trials there are."""
        return sum(trial.stands_for for trial in self.trials)

    @property
    def audit(self) -> AuditSettings:
        """How every trial is attacked, both numbers of canaries settled."""
        return self.trials[0].config.audit

    @property
    def num_labels(self) -> int:
        """N, labels to train on."""
        return len(self.data.train_labels)

    @property
    def held_out(self) -> int:
        """H, how many labels are held out of training."""
        return self.data.num_held_out

    @property
    def delta(self) -> float:
        """At which the sweep's epsilon is stated where releases are not pure.

        Earlier starts may have drawn releases that hold at a delta only, also where these don't.
        """
        return max(float(trial.config.trainer.delta) for trial in self.trials)


def check(sweep: Sweep, options: SweepOptions) -> CheckedSweep:
    """Plan a sweep, load its data, and hold both against each other and the budget.

    Raises:
        ValueError: Bad input of any kind (configuration, data, results folder, tracking store).
        BudgetExceeded: The sweep would cost more than its budget.
    """
    sized, trials = prepare(sweep, options)
    # A new store is opened beside Ray's start, which takes longer than to say this.
    check_file(options.tracking_uri or default_uri(options.results.absolute()))
    first = trials[0].config
    loaded = load_data(
        first.data, evaluation=first.evaluation, cache=beside(options.results) / "features"
    )
    public = loaded.public
    sized, trials = _audited(sized, trials, loaded, options)
    for trial in trials:
        trial.config.trainer.check_data(public)
    choose_by = resolve(
        options.choose_by or sized.choose_by,
        has_test_split=public.has_test_split,
        has_held_out=public.held_out_features is not None,
        learns=sized.learns,
    )
    check_priors(trials, examples=len(loaded.train_labels), num_classes=public.num_classes)
    check_prior_features(trials, public)
    trials, search, count_epsilon = _priced(sized, trials, loaded, options, by=choose_by)
    held_out = loaded.num_held_out
    if wants_estimates(sized, options, by=choose_by):
        refuse_planned_lottery(trials, held_out=held_out)
    cost = cost_of(trials, num_classes=public.num_classes, with_estimates=held_out > 0)
    budget = budget_of(sized.budget, options.max_epsilon_total, delta=cost.delta)
    check_budget(cost, budget)
    return CheckedSweep(
        sweep=sized,
        options=options,
        data=loaded,
        plans={} if search else {trial.hash(public.fingerprint): trial for trial in trials},
        cost=cost,
        budget=budget,
        choose_by=choose_by,
        folder=ResultsFolder(options.results, sweep=sweep.name),
        search=search,
        notes=notes_of(sweep, options, trials, held_out=held_out),
        count_epsilon=count_epsilon,
    )


def _audited(
    sized: Sweep, trials: list[PlannedTrial], data: LabelledData, options: SweepOptions
) -> tuple[Sweep, list[PlannedTrial]]:
    """Settle how many canaries there are, in the trials and in the sweep's base.

    Trials that a search comes up with start from there, and are hashed with those numbers too.

    Raises:
        ValueError: Canaries that prove nothing, or more of them than labels.
    """
    classes, size = data.public.num_classes, len(data.train_labels)
    check_canaries(trials[0].config, options, num_classes=classes)
    before = canaries_before(options.results)
    trials = with_canaries(trials, num_labels=size, num_classes=classes, before=before)
    audit = trials[0].config.audit
    check_room(audit, num_labels=size)
    numbers = {name: getattr(audit, name) for name in ("canaries", "coin_canaries")}
    base = replace(sized.base, audit=replace(sized.base.audit, **numbers))
    return replace(sized, base=base), trials


def _priced(
    sized: Sweep,
    trials: list[PlannedTrial],
    data: LabelledData,
    options: SweepOptions,
    *,
    by: ChooseBy,
) -> tuple[list[PlannedTrial], Search | None, float | None]:
    """Settle what counts of right answers cost, and what stands in for the trials of a search.

    Raises:
        ValueError: A search that can't be bounded beforehand.
    """
    held_out = data.num_held_out
    return with_count_price(
        sized,
        trials,
        DataFacts(
            num_classes=data.public.num_classes,
            with_estimates=held_out > 0,
            held_out=held_out,
            count_before=count_epsilon_before(options.results),
        ),
        by=by,
        overrides=options.overrides,
        budgeted=options.max_epsilon_total is not None or sized.budget is not None,
        fingerprint=data.public.fingerprint,
    )


def beside(results: Path) -> Path:
    """Where sweeps whose results lie beside each other share features and votes."""
    return results.expanduser().absolute().parent


def learned_facts(checked: CheckedSweep, earlier: SweepIdentity) -> dict[str, Any]:
    """Return what a sweep that learns may cost, as facts of its folder; nothing for any other.

    Who publishes the sweep reads it there.

    Args:
        checked: The sweep.
        earlier: What the folder says of earlier starts, whose plans may have been dearer.
    """
    if not checked.sweep.learns:
        return {}
    private = [
        trial
        for trial, epsilon in zip(checked.trials, checked.cost.epsilons, strict=True)
        if isfinite(epsilon)
    ]
    if not private:
        return {}
    cost = cost_of(
        private,
        num_classes=checked.data.public.num_classes,
        with_estimates=checked.held_out > 0,
    )
    search = checked.search
    touched = search is not None and any(asked is None for asked in search.foreseen)
    return {
        "learned_epsilon": max(cost.epsilon_total, earlier.learned_epsilon or 0.0),
        "learned_counts": max(cost.epsilon_estimates, earlier.learned_counts or 0.0),
        "learned_delta": max(cost.delta, earlier.learned_delta or 0.0),
        "learned_releases": touched or bool(earlier.learned_releases),
    }

"""First step of a sweep: all that can be refused without its results folder and a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from labeldp.mechanisms.ledger import Budget
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.records.sweep_identity import SweepIdentity
from labeldp.platform.records.tracking_address import check_file, default_uri
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.audit_settings import AuditSettings
from labeldp.platform.sweep.beforehand import notes_of
from labeldp.platform.sweep.cost import SweepCost, check_prior_features, check_priors, cost_of
from labeldp.platform.sweep.data_loading import load_data
from labeldp.platform.sweep.stand_ins import DataFacts, Search
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep
from labeldp.platform.sweep.sweep_options import SweepOptions, prepare
from labeldp.platform.sweep.sweep_price import PricedSweep, audited, priced
from labeldp.trainers.data.labelled_data import LabelledData


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
    size = len(loaded.train_labels)
    sized, trials = audited(sized, trials, options, num_labels=size, num_classes=public.num_classes)
    for trial in trials:
        trial.config.trainer.check_data(public)
    known = _priced(sized, trials, options, loaded)
    check_priors(trials, examples=size, num_classes=public.num_classes)
    check_prior_features(trials, public)
    hashed = {} if known.search else {t.hash(public.fingerprint): t for t in known.trials}
    return CheckedSweep(
        sweep=sized,
        options=options,
        data=loaded,
        plans=hashed,
        cost=known.cost,
        budget=known.budget,
        choose_by=known.choose_by,
        folder=ResultsFolder(options.results, sweep=sweep.name),
        search=known.search,
        notes=notes_of(sweep, options, known.trials, held_out=loaded.num_held_out),
        count_epsilon=known.count_epsilon,
    )


def _priced(
    sized: Sweep, trials: list[PlannedTrial], options: SweepOptions, data: LabelledData
) -> PricedSweep:
    """Price a sweep on data that are there; a start is refused by the first thing against it.

    Raises:
        ValueError: As of `priced`, or what it found against running the sweep.
    """
    public, held_out = data.public, data.num_held_out
    known = priced(
        sized,
        trials,
        options,
        DataFacts(num_classes=public.num_classes, with_estimates=held_out > 0, held_out=held_out),
        has_test_split=public.has_test_split,
        fingerprint=public.fingerprint,
    )
    for refusal in known.refusals:
        raise refusal
    return known


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

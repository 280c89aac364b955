"""A sweep's plan: its trials, what they cost, and every reason to refuse it.

`labeldp plan` and the start of a sweep ask the same function. Of the data it needs their size only,
so that a plan loads neither them nor torch.

Searches. Trials that read one stored release pay for it once: an axis that no release depends on is
searched at no cost. Whether one does is asked of `planned_charge`, at probes of the axes and again
at every suggestion. An axis that does makes every trial ask for another release, and which ones
depends on earlier results: such a search is priced at the dearest way that it could take, and needs
a budget.

Counts. Held-out labels pay for counts of right answers and for nothing else. As long as a trial's
counts cost no more than its training, and all of them together no more than all training, they make
nothing dearer: up to there the default price of a count is what makes it useful.
"""

import math
import operator
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labeldp.mechanisms.accounting import DecisionEvent, Event, GaussianEvent, epsilon_of
from labeldp.mechanisms.correct_count import CorrectCount
from labeldp.mechanisms.ledger import Budget, all_pure, failure_of
from labeldp.platform.records.private_files import NotOurs, refuse_link
from labeldp.platform.records.results import ResultsFolderError, TrialRecord, identity_of
from labeldp.platform.sweep.accuracy_figures import ChoiceNoise, ChooseBy, resolve
from labeldp.platform.sweep.configuration import (
    AuditSettings,
    ConfigurationError,
    Estimate,
    TrialConfig,
    default_epsilon,
    refuse_useless,
)
from labeldp.platform.sweep.cost import (
    SweepCost,
    budget_of,
    check_budget,
    cost_of,
    planned_estimate,
    releases_of,
)
from labeldp.platform.sweep.data_size import DataSize
from labeldp.platform.sweep.search import Numbers, Search, check_installed, searches_of
from labeldp.platform.sweep.sweep import (
    PlannedTrial,
    Sweep,
    SweepOptions,
    canaries_left_out,
    ensembles_of,
    plan_trials,
    sized_sweep,
    unfit_notes,
    variants_of,
)
from labeldp.platform.vault.audits import check_room
from labeldp.trainers.performance import Device, Precision, lacks_bf16_units
from labeldp.trainers.settings.base import FeatureSet

#: What a trial asks of the vault, but for counts of right answers, which all trials ask anew.
Asked = frozenset[Hashable]
#: How many estimates a trial asks for before its last epoch.
RungsOf = Callable[[PlannedTrial], int]
_CANARIES = ("canaries", "coin_canaries")
#: In place of data that can't be read: the least that trials may ask of.
_UNKNOWN = DataSize(num_classes=2, num_labels=0, held_out=0, has_test_split=True, shape=())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A sweep whose trials and price are known, whether or not it may be run.

    Attributes:
        sweep: At its final size.
        options: How to run it.
        size: Of the data; a stand-in where they can't be read.
        fingerprint: Of the public data; empty where they are not loaded.
        trials: With the price of their counts; of searches the trials that they are priced as.
        searches: Whose trials are not known beforehand.
        count_epsilon: The default price of a count of right answers; None if all is stated.
        choose_by: Which accuracy trials are compared by.
        cost: What all trials together will pay.
        budget: The most that a label may pay.
        refusals: Why it can't be run, in the order in which they were found.
        notes: What a person should know before anything is released.
    """

    sweep: Sweep
    options: SweepOptions
    size: DataSize
    fingerprint: str
    trials: Sequence[PlannedTrial]
    searches: Sequence[Search]
    count_epsilon: float | None
    choose_by: ChooseBy
    cost: SweepCost
    budget: Budget | None
    refusals: Sequence[ValueError | OSError]
    notes: Sequence[str]

    @property
    def total(self) -> int:
        """How many trials there are."""
        return self.cost.trials

    @property
    def audit(self) -> AuditSettings:
        """How every trial is attacked."""
        return self.trials[0].config.audit

    @property
    def delta(self) -> float:
        """At which the sweep's epsilon is stated where releases are not pure.

        Earlier starts may have drawn releases that hold at a delta only, also where these don't.
        """
        return max(float(trial.config.trainer.delta) for trial in self.trials)

    def suggested(self, place: int, numbers: Numbers) -> PlannedTrial:
        """Return a trial of the search at `place`.

        Raises:
            ConfigurationError: It can't be used, or asks for a release that its search was not
                priced with.
        """
        search = self.searches[place]
        trial = search.planned(numbers)
        if search.foreseen is not None and asked_by(trial, self.size) != search.foreseen:
            raise ConfigurationError(
                f"the search suggests {dict(trial.point)}, which asks for another release of the "
                "labels than the plan has; it is not run. Make the axis a grid, or give the sweep "
                "a budget with --max-epsilon-total"
            )
        return replace(trial, estimates=search.priced_as[0].estimates_each)


def prepare(sweep: Sweep, options: SweepOptions) -> tuple[Sweep, list[PlannedTrial]]:
    """Return the sweep at its final size, and its trials; of searches the trials at their probes.

    Raises:
        ConfigurationError: A key or value that can't be used, or too many trials.
    """
    sized = sized_sweep(sweep, options)
    if sized.search is None:
        trials = plan_trials(sized, options.overrides)
        number = len(trials)
    else:
        check_installed()
        searches = searches_of(sized, options.overrides)
        trials = [trial for search in searches for trial in search.probed.values()]
        number = sum(search.size for search in searches)
    if options.max_trials is not None and number > options.max_trials:
        raise ValueError(
            f"sweep {sweep.name!r} has {number} trials, more than the {options.max_trials} "
            "that --max-trials allows; fix an axis with key=value or raise the limit"
        )
    return sized, trials


def plan_sweep(
    sweep: Sweep,
    options: SweepOptions,
    prepared: tuple[Sweep, Sequence[PlannedTrial]],
    size: DataSize | None,
    *,
    fingerprint: str = "",
) -> Plan:
    """Plan a sweep, price it, and hold the price against its budget.

    Args:
        sweep: As it is in its file.
        options: How to run it; its results folder keeps the price of counts that it has.
        prepared: What `prepare` returned.
        size: Of the data; None where they can't be read.
        fingerprint: Of the public data.

    Raises:
        ConfigurationError: A search that can't be bounded beforehand, and so has no price.
        ResultsFolderError: `sweep.json` or a record of an earlier start is damaged.
    """
    sized, trials = prepared
    known = size or _UNKNOWN
    refusals: list[ValueError | OSError] = []
    if size is not None:
        try:
            sized, trials = _with_canaries(sized, trials, options, size)
            check_priors(trials, examples=size.num_labels, num_classes=size.num_classes)
            for ensemble in ensembles_of(trials):
                ensemble.check_count(size.num_labels)
        except (ValueError, FileNotFoundError) as error:
            refusals.append(error)
    wanted = options.choose_by or sized.choose_by
    by = wanted or ChooseBy.TEST
    if size is not None:
        try:
            by = resolve(
                wanted,
                has_test_split=size.has_test_split,
                has_held_out=size.held_out > 0,
                learns=sized.learns,
            )
        except ValueError as error:
            refusals.append(error)
    before = count_epsilon_before(options.results)
    trials, searches, count_epsilon = with_count_price(
        sized, trials, options, known, by=by, before=before
    )
    cost = cost_of(trials, num_classes=known.num_classes, with_estimates=known.held_out > 0)
    budget = budget_of(sized.budget, options.max_epsilon_total, delta=cost.delta)
    if by is ChooseBy.ESTIMATED and (wanted is by or sized.learns):
        refusals += _refused(lambda: _refuse_lottery(trials, held_out=known.held_out))
    refusals += _refused(lambda: check_budget(cost, budget, trials=trials))
    notes = (
        *unfit_notes(variants_of(sized_sweep(sweep, options), options.overrides)),
        canaries_left_out(sweep, options),
        count_note(trials, held_out=known.held_out),
        _precision_note(trials, options),
    )
    return Plan(
        sweep=sized,
        options=options,
        size=known,
        fingerprint=fingerprint,
        trials=trials,
        searches=searches,
        count_epsilon=count_epsilon,
        choose_by=by,
        cost=cost,
        budget=budget,
        refusals=refusals,
        notes=[note for note in notes if note],
    )


def _refused(check: Callable[[], None]) -> list[ValueError]:
    """The error that a check raises, if any."""
    try:
        check()
    except ValueError as error:
        return [error]
    return []


def _with_canaries(
    sized: Sweep, trials: Sequence[PlannedTrial], options: SweepOptions, size: DataSize
) -> tuple[Sweep, list[PlannedTrial]]:
    """Settle how many canaries there are, in the trials and in the sweep's base.

    Trials that a search suggests start from there, and are hashed with those numbers too.

    Raises:
        ValueError: Canaries that prove nothing, or more of them than labels.
        ResultsFolderError: A record of an earlier start is damaged.
    """
    config = trials[0].config
    # A sweep may plant what it likes in its own data set.
    if config.data.name == "own" or "audit.canaries" in options.overrides:
        refuse_useless(config.audit, num_classes=size.num_classes)
    trials = with_canaries(trials, size, before=_canaries_before(options.results))
    audit = trials[0].config.audit
    check_room(audit, num_labels=size.num_labels)
    numbers = {name: getattr(audit, name) for name in _CANARIES}
    base = replace(sized.base, audit=replace(sized.base.audit, **numbers))
    return replace(sized, base=base), trials


def with_canaries(
    trials: Sequence[PlannedTrial], size: DataSize, *, before: AuditSettings | None = None
) -> list[PlannedTrial]:
    """Return trials with the default numbers of canaries in their settings, as they are hashed.

    Args:
        trials: Of one sweep.
        size: Of the data.
        before: Of trials in the results folder: its labels are spoiled already, and stay so unless
            the settings state another number.
    """

    def settled(audit: AuditSettings) -> AuditSettings:
        unstated = [name for name in _CANARIES if before and getattr(audit, name) is None]
        audit = replace(audit, **{name: getattr(before, name) for name in unstated})
        return audit.settled(num_labels=size.num_labels, num_classes=size.num_classes)

    return [
        replace(trial, config=replace(trial.config, audit=settled(trial.config.audit)))
        for trial in trials
    ]


def check_priors(trials: Sequence[PlannedTrial], *, examples: int, num_classes: int) -> None:
    """Refuse priors that can't be made of these data, each once, before the first trial.

    Raises:
        ValueError: More clusters than examples, a file that holds no prior of them, or features to
            be computed of features.
    """
    asked = {(trial.config.trainer.prior, trial.config.data.features) for trial in trials}
    for prior, seen in asked:
        if prior is None:
            continue
        prior.check_size(examples=examples, num_classes=num_classes)
        if FeatureSet.AS_THEY_ARE not in (prior.features, seen):
            raise ValueError(
                f"trainer.prior.features is {prior.features}, but data.features={seen} leaves no "
                "images to compute them of; set data.features=as_they_are for a network that sees "
                "the images, or leave trainer.prior.features out for a prior on what it sees"
            )


def _canaries_before(results: Path) -> AuditSettings | None:
    """How many canaries trials of a results folder were run with; None where none are kept.

    Raises:
        ResultsFolderError: A record is damaged; the message names it.
    """
    first = min((results.expanduser() / "trials").glob("*.json"), default=None)
    kept = None if first is None else TrialRecord.read(first).canaries
    return None if kept is None else AuditSettings(canaries=kept[0], coin_canaries=kept[1])


def count_epsilon_before(results: Path) -> float | None:
    """Return the default price of a count in a results folder; None where none is kept.

    A wider grid would have another default, and trials that have finished would run again for it.

    Raises:
        ResultsFolderError: `sweep.json` is damaged or a link.
    """
    file = results.expanduser() / "sweep.json"
    try:
        refuse_link(file)
    except NotOurs as error:
        raise ResultsFolderError(str(error)) from error
    kept = identity_of(file).count_epsilon
    return None if kept is None else float(kept)


# --- what searches may cost -----------------------------------------------------------------------


def asked_by(trial: PlannedTrial, size: DataSize) -> Asked:
    """Return what a trial will ask of the vault; trials with equal answers share all of it."""
    config = trial.config
    asked: set[Hashable] = set(releases_of(trial, num_classes=size.num_classes))
    asked.add(config.trainer.ensemble)
    if size.held_out:
        estimate = planned_estimate(config, num_classes=size.num_classes)
        shared = config.evaluation.estimate is Estimate.RELEASE
        asked.add(("estimate", estimate.release if shared else estimate.event, config.noise))
    return frozenset(asked)


def touching(search: Search, size: DataSize) -> list[str]:
    """Return the axes on which a search's releases depend; all of them if only together."""
    found = {numbers: asked_by(trial, size) for numbers, trial in search.probed.items()}
    if len(set(found.values())) == 1:
        return []
    guilty = []
    for place, key in enumerate(search.axes):
        others: dict[Numbers, set[Asked]] = {}
        for numbers, asked in found.items():
            rest = (*numbers[:place], *numbers[place + 1 :])
            others.setdefault(rest, set()).add(asked)
        if any(len(different) > 1 for different in others.values()):
            guilty.append(key)
    return guilty or list(search.axes)


def priced(search: Search, size: DataSize, *, rungs_of: RungsOf, budgeted: bool) -> Search:
    """Return a search with the trials that it is priced as, and what its trials may ask.

    Args:
        search: One of a sweep's.
        size: Of the data.
        rungs_of: How many estimates a trial asks for before its last epoch.
        budgeted: Whether there is a budget that the dearest way has to fit.

    Raises:
        ConfigurationError: An axis touches a release, and there is no budget.
    """
    guilty = touching(search, size)
    if guilty and not budgeted:
        raise ConfigurationError(
            f"{' and '.join(guilty)} of {search.name} can't be searched without a budget: each of "
            f"{search.size} trials could ask for another release of the labels, at a price that "
            "depends on what came out before; make it a grid ([a,b,c]), or say what the dearest "
            "way may cost with --max-epsilon-total"
        )
    probes = list(search.probed.values())
    each = 1 + max(map(rungs_of, probes))
    number = search.size
    return replace(
        search,
        foreseen=None if guilty else asked_by(probes[0], size),
        priced_as=[
            replace(
                trial,
                stands_for=0 if place else number,
                own_releases=number if guilty else 0,
                estimates=number * each,
            )
            for place, trial in enumerate(_dearest(probes, size) if guilty else probes[:1])
        ],
    )


def _dearest(probes: Sequence[PlannedTrial], size: DataSize) -> list[PlannedTrial]:
    """Return probes that together cost as much as any mixture of probes may.

    A probe is left out if another one with the same counts costs at least as much in any company.
    Less noise may fail less often, so that the probe that fails most stands beside those.
    """
    own = {
        id(probe): list(releases_of(probe, num_classes=size.num_classes).values())
        for probe in probes
    }

    def covers(dear: PlannedTrial, cheap: PlannedTrial) -> bool:
        counts = [each.config.evaluation for each in (dear, cheap)]
        alike = len({(each.estimate, each.count_epsilon) for each in counts}) == 1
        events = ([part.event for part in own[id(each)]] for each in (dear, cheap))
        return alike and _at_least(*events)

    kept: list[PlannedTrial] = []
    for probe in probes:
        if not any(covers(each, probe) for each in kept):
            kept = [each for each in kept if not covers(probe, each)] + [probe]
    failing = max(probes, key=lambda probe: failure_of(own[id(probe)]))
    if failure_of(own[id(failing)]) and failing not in kept:
        kept.append(failing)
    return kept


def _at_least(dear: Sequence[Event], cheap: Sequence[Event]) -> bool:
    """Whether events cost at least as much as others, whatever both are composed with."""
    if list(dear) == list(cheap):
        return True
    if all_pure([*dear, *cheap]):
        return epsilon_of(dear, delta=0.0) >= epsilon_of(cheap, delta=0.0)
    if len(dear) != 1 or len(cheap) != 1 or type(dear[0]) is not type(cheap[0]):
        return False
    one, other = dear[0], cheap[0]
    if not isinstance(one, GaussianEvent) or not isinstance(other, GaussianEvent):
        return False
    noisier = one.noise_multiplier <= other.noise_multiplier
    if isinstance(one, DecisionEvent) and isinstance(other, DecisionEvent):
        # One epsilon does not order decisions: of two curves that cross, either may be the dearer.
        same = one.orders == other.orders
        return noisier and same and all(map(operator.ge, one.rdp, other.rdp))
    return noisier


# --- what counts of right answers cost ------------------------------------------------------------


def with_count_price(
    sized: Sweep,
    listed: Sequence[PlannedTrial],
    options: SweepOptions,
    size: DataSize,
    *,
    by: ChooseBy,
    before: float | None = None,
) -> tuple[Sequence[PlannedTrial], Sequence[Search], float | None]:
    """Return a sweep's trials and searches with the price of counts, and that price.

    It is None where it is stated for every trial, or nothing is counted.

    Args:
        sized: At its final size.
        listed: Its trials, where there is no search.
        options: How to run it.
        size: Of the data.
        by: The accuracy that is learned from.
        before: The price of counts in an earlier start.

    Raises:
        ConfigurationError: An axis touches a release, and there is no budget.
    """
    trials, searches = _learned(sized, listed, options, size, by=by)
    if not size.held_out or not any(_unstated(trial.config) for trial in trials):
        return trials, searches, None
    epsilon = before or default_epsilon(
        held_out=size.held_out, free=free_epsilon(trials, num_classes=size.num_classes)
    )
    sized = replace(sized, base=_at(sized.base, epsilon))
    listed = [replace(trial, config=_at(trial.config, epsilon)) for trial in listed]
    return *_learned(sized, listed, options, size, by=by), epsilon


def _learned(
    sized: Sweep,
    listed: Sequence[PlannedTrial],
    options: SweepOptions,
    size: DataSize,
    *,
    by: ChooseBy,
) -> tuple[Sequence[PlannedTrial], Sequence[Search]]:
    """Return the trials that a sweep is priced by, and its searches."""
    stop = sized.stop
    paid = stop is not None and by is ChooseBy.ESTIMATED  # a rung asks for an estimate

    def rungs_of(trial: PlannedTrial) -> int:
        return len(stop.rungs(trial.config.trainer.epochs)) if stop is not None and paid else 0

    if sized.search is None:
        return [replace(trial, estimates=1 + rungs_of(trial)) for trial in listed], ()
    budgeted = options.max_epsilon_total is not None or sized.budget is not None
    searches = [
        priced(search, size, rungs_of=rungs_of, budgeted=budgeted)
        for search in searches_of(sized, options.overrides)
    ]
    return [trial for search in searches for trial in search.priced_as], searches


def free_epsilon(trials: Sequence[PlannedTrial], *, num_classes: int) -> float:
    """Return the most that each count may cost without making a trial or the sweep dearer.

    Baselines without noise pay without limit, and set none.
    """
    training = cost_of(trials, num_classes=num_classes).epsilons
    pairs = list(zip(trials, training, strict=True))
    private = [trial for trial, epsilon in pairs if math.isfinite(epsilon)]
    if not private:
        return math.inf
    together = cost_of(private, num_classes=num_classes).epsilon_total
    each = [epsilon / trial.estimates_each for trial, epsilon in pairs]
    return min(together / counts_of(trials), *each)


def counts_of(trials: Sequence[PlannedTrial]) -> int:
    """Return how many counts are asked for; a second price of the same trials adds none."""
    return sum(trial.estimates for trial in trials if trial.stands_for)


def planned_noise(trials: Sequence[PlannedTrial], *, held_out: int) -> ChoiceNoise | None:
    """Return what noise will do to a choice among trials; None where it is not one of counts."""
    found = [trial.config.evaluation for trial in trials]
    if not held_out or any(each.estimate is not Estimate.COUNT for each in found):
        return None
    cheapest = min(each.count_epsilon for each in found)
    return ChoiceNoise(
        candidates=sum(trial.stands_for for trial in trials),
        noise=CorrectCount(epsilon=cheapest).noise_std / held_out,
        epsilon=cheapest,
    )


def count_note(trials: Sequence[PlannedTrial], *, held_out: int) -> str:
    """Say what counts will cost and how noisy they are; empty where there are none."""
    noise = planned_noise(trials, held_out=held_out)
    if noise is None:
        return ""
    prices = sorted({trial.config.evaluation.count_epsilon for trial in trials})
    many = counts_of(trials)
    price = f"{prices[0]:.3g}" if len(prices) == 1 else f"{prices[0]:.3g} to {prices[-1]:.3g}"
    counts = "one count" if many == 1 else f"each of {many} counts"
    useless = ": too much to choose a trial by" if noise.swamps else ""
    return (
        f"accuracy is estimated on {held_out:,} held-out labels, which pay epsilon {price} for "
        f"{counts} of right answers and for nothing else; {noise.text}{useless}"
    )


def _refuse_lottery(trials: Sequence[PlannedTrial], *, held_out: int) -> None:
    """Refuse to pay for counts to choose trials by where noise would choose."""
    noise = planned_noise(trials, held_out=held_out)
    if noise is not None:
        noise.refuse(instead="compare fewer trials, or leave --choose-by and the search out")


def _unstated(config: TrialConfig) -> bool:
    evaluation = config.evaluation
    return evaluation.estimate is Estimate.COUNT and evaluation.epsilon is None


def _at(config: TrialConfig, epsilon: float) -> TrialConfig:
    """A configuration with this price of its counts, unless it states one."""
    if config.evaluation.epsilon is not None:
        return config
    return replace(config, evaluation=replace(config.evaluation, epsilon=epsilon))


def _precision_note(trials: Sequence[PlannedTrial], options: SweepOptions) -> str:
    """Say that bfloat16 is set and slows down; empty where it does not, or nobody knows."""
    settings = [trial.config.performance for trial in trials]
    asked = any(
        each.precision is Precision.BF16 and each.device is not Device.CUDA for each in settings
    )
    elsewhere = options.address or os.environ.get("RAY_ADDRESS")  # on a cluster's machines
    if not asked or elsewhere or not lacks_bf16_units():
        return ""
    return (
        "performance.precision is bf16, and this machine has neither a processor with units for "
        "bfloat16 (amx_bf16 or avx512_bf16) nor a GPU: training takes longer than in single "
        "precision; performance.precision=auto takes bf16 only where there are units for it"
    )

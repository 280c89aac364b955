"""A sweep's plan: its trials, what they cost, and every reason to refuse it.

`labeldp plan` and the start of a sweep use the same function. Of the data it needs their size only,
which is read from the disk without torch.

Counts. Held-out labels pay for counts of right answers and for nothing else. As long as a trial's
counts cost no more than its training, and all of them together no more than all training, they make
nothing dearer: up to there the default price of a count is what makes it useful.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.amounts import ErrorSums
from labeldp.mechanisms.ledger import Budget, BudgetExceeded, shown, stated
from labeldp.platform.records.results import TrialRecord, identity_of
from labeldp.platform.settings.configuration import (
    OWN_KEYS,
    AuditSettings,
    Checkpoint,
    ConfigurationError,
    DataSettings,
    Estimate,
    TrialConfig,
    default_epsilon,
)
from labeldp.platform.settings.metrics import ChoiceNoise, ChooseBy, resolve
from labeldp.platform.settings.sweep import (
    CannotFit,
    PlannedTrial,
    Resources,
    Sweep,
    SweepOptions,
    ensembles_of,
    plan_trials,
    sized_sweep,
    without_seeds,
)
from labeldp.platform.sweep.cost import (
    SweepCost,
    budget_of,
    check_budget,
    cost_of,
    gpus_here,
    places_on_gpu,
    planned_hours,
    releases_of,
    rows_alone,
)
from labeldp.platform.sweep.search import Search, check_installed, priced, searches_of
from labeldp.platform.vault.audits import check_room
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import data_root
from labeldp.trainers.data.own_data import read_own, with_embeddings
from labeldp.trainers.data.own_files import existing
from labeldp.trainers.data.splits import DataSize, Splits, held_out_count, size_of
from labeldp.trainers.performance import Device
from labeldp.trainers.settings.trainer import TrainerDefaults
from labeldp.trainers.settings.training import source_of

_CANARIES = ("canaries", "coin_canaries")
#: Most trials that share a GPU by default: with more, each one only takes longer.
_MOST_ON_GPU = 8
#: The sweep of a study with all canaries.
TOGETHER = "together"
#: In place of data that can't be read: the fewest labels that trials may request.
_UNKNOWN = DataSize(num_classes=2, num_labels=0, held_out=0, has_test_split=True)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A sweep whose trials and price are known, whether or not it may be run.

    Attributes:
        size: Size of the data; a stand-in where they can't be read.
        fingerprint: Hash of the public data; empty where they are not loaded.
        trials: With the price of their counts; of searches the trials that they are priced as.
        count_epsilon: The default price of a count of right answers; None if all is stated.
        budget: The most that a label may pay.
        refusals: Why it can't be run, in the order in which they were found.
        notes: The sweep's, and the price and the noise of counts.
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
    refusals: Sequence[ValueError | OSError | CannotFit]
    notes: Sequence[str]

    @cached_property
    def private(self) -> SweepCost | None:
        """The price of the trials with noise alone; None if there are none."""
        priced = zip(self.trials, self.cost.epsilons, strict=True)
        trials = [trial for trial, epsilon in priced if math.isfinite(epsilon)]
        counted = self.size.held_out > 0
        if not trials:
            return None
        return cost_of(trials, num_classes=self.size.num_classes, with_estimates=counted)

    @property
    def audit(self) -> AuditSettings:
        """The attack on every trial."""
        return self.trials[0].config.audit

    @property
    def delta(self) -> float:
        """At which the sweep's epsilon is stated where releases are not pure.

        Earlier starts may have drawn releases that hold at a delta only, also where these don't.
        """
        return max(float(trial.config.trainer.delta) for trial in self.trials)


def prepare(sweep: Sweep, options: SweepOptions) -> tuple[Sweep, list[PlannedTrial]]:
    """Return the sweep at its final size and its trials; of searches the trials at their probes."""
    source_of.cache_clear()  # a network may have been edited since the last plan
    sized = sized_sweep(sweep, options)
    if sized.search is None:
        return sized, plan_trials(sized)
    check_installed()
    searches = searches_of(sized)
    return sized, [trial for search in searches for trial in search.probed.values()]


def plan_sweep(
    options: SweepOptions,
    prepared: tuple[Sweep, Sequence[PlannedTrial]],
    size: DataSize | None,
    *,
    fingerprint: str = "",
) -> Plan:
    """Plan a sweep, price it, and hold the price against its budget.

    `options.results` keeps the price of counts of an earlier start; `size` is None where the data
    can't be read.
    """
    sized, trials = prepared
    known = size or _UNKNOWN
    refusals: list[ValueError | OSError | CannotFit] = []
    wanted = options.choose_by or sized.choose_by
    by = wanted or ChooseBy.TEST
    # Refusals are gathered, not raised: a plan shows all of them at once.
    if size is not None:
        with _noting(refusals):
            check_kind(trials, size)
            sized, trials = _with_canaries(sized, trials, options, size)
            check_priors(trials, examples=size.num_labels)
            for ensemble in ensembles_of(trials):
                ensemble.check_count(size.num_labels)
        estimates = {trial.config.evaluation.estimate for trial in trials}
        with _noting(refusals):
            by = resolve(
                wanted,
                has_test_split=size.has_test_split,
                has_held_out=size.held_out > 0,
                has_histogram=estimates == {Estimate.HISTOGRAM},
                learns=sized.learns,
                amounts=size.amounts,
            )
    # A wider grid would have another default, and trials that have finished would run again for it.
    before = identity_of(options.results.expanduser() / "sweep.json").count_epsilon
    trials, searches, count_epsilon = with_count_price(sized, trials, known, by=by, before=before)
    cost = cost_of(trials, num_classes=known.num_classes, with_estimates=known.held_out > 0)
    # At the delta of the releases: epsilons at different deltas can't be compared.
    budget = budget_of(sized.budget, options.max_epsilon_total, delta=cost.delta)
    noise = planned_noise(trials, held_out=known.held_out)
    with _noting(refusals):
        if by.estimated and (wanted is not None or sized.learns) and noise is not None:
            noise.refuse(instead="compare fewer trials, or leave --choose-by and the search out")
    with _noting(refusals):
        check_budget(cost, budget, trials=trials)
    plan = Plan(
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
        notes=[
            *sized.notes,
            *filter(None, [count_note(trials, held_out=known.held_out)]),
        ],
    )
    with _noting(refusals):
        if sized.needs_gpu and not (options.address or os.environ.get("RAY_ADDRESS")):
            check_processors(plan, gpu=gpus_here() > 0)
    return plan


@contextmanager
def _noting(refusals: list[ValueError | OSError | CannotFit]) -> Iterator[None]:
    try:
        yield
    except (ValueError, FileNotFoundError, CannotFit) as error:
        refusals.append(error)


def _with_canaries(
    sized: Sweep, trials: Sequence[PlannedTrial], options: SweepOptions, size: DataSize
) -> tuple[Sweep, list[PlannedTrial]]:
    """Settle the numbers of canaries in the trials, and in the base of a search's suggestions.

    Trials of a sweep have the same labels, and so the same canaries.
    """
    config = trials[0].config
    own = config.data.name == "own"
    audit = config.audit
    if audit.canaries and size.num_classes == 2:
        if own or "audit.canaries" in options.overrides:
            raise ValueError(
                f"audit.canaries is {audit.canaries}, and there are 2 classes: the memorization "
                "attack compares wrong labels with each other and needs at least 3; leave it out "
                "or set audit.canaries=0 (the one-run audit takes 2 classes: audit.coin_canaries)"
            )
        audit = replace(audit, canaries=None)  # a sweep's own number is for more classes
    # The labels of a results folder are spoiled already: they stay so unless a number is stated.
    first = min((options.results.expanduser() / "trials").glob("*.json"), default=None)
    before = None if first is None else TrialRecord.read(first).canaries
    # A wrong amount is anywhere between the bounds: a few of them change a mean.
    usual = (0, 0) if size.amounts else ()
    for name, number in zip(_CANARIES, before or usual, strict=False):
        if getattr(audit, name) is None:
            audit = replace(audit, **{name: number})
    by_default = audit.coin_canaries is None
    audit = audit.settled(num_labels=size.num_labels, num_classes=size.num_classes)
    check_room(audit, num_labels=size.num_labels)
    notes = list(sized.notes)
    if own and size.num_classes == 2 and by_default and audit.spoiled:
        percent = 100 * audit.spoiled / size.num_labels  # secret labels don't tell what is rare
        notes.append(
            f"{percent:.2g}% of the labels will be random for the audit: where a class is rarer "
            f"than about {5 * percent:.2g}%, set audit.coin_canaries=0"
        )

    def settled(config: TrialConfig) -> TrialConfig:
        numbers = {name: getattr(audit, name) for name in _CANARIES}
        return replace(config, audit=replace(config.audit, **numbers))

    trials = [replace(trial, config=settled(trial.config)) for trial in trials]
    return replace(sized, base=settled(sized.base), notes=notes), trials


def check_processors(plan: Plan, *, gpu: bool) -> None:
    """Refuse a sweep for GPUs where there is none (`gpu`), unless it is asked for."""
    if gpu or not plan.sweep.needs_gpu or plan.options.on_processors:
        return
    small = [name for name, preset in plan.sweep.presets.items() if not preset.needs_gpu]
    sizes = "".join(f"--preset {name}, " for name in small)
    here = planned_hours(plan.trials, plan.size, measured=True)
    took = "" if here is None else f"; {here.device} would take {here.total:,.3g} hours"
    raise CannotFit(
        f"this sweep is for a GPU, and there is none here{took}. Take {sizes}--smoke or a cluster "
        "(--address), or state --on-processors"
    )


def with_shares(
    plan: Plan,
    nodes: Iterable[tuple[float, float]],
    *,
    measure: Callable[..., int] = places_on_gpu,
) -> tuple[Sweep, list[str]]:
    """Return the sweep with a share of a GPU for all that share one by default, and a note on it.

    `nodes` are cores and GPUs of each; `measure` may ask another machine. A trial of a search may
    be larger than any that is known, and has a GPU to itself.
    """
    sweep = plan.sweep
    shared = [own for own in (sweep.resources, sweep.teacher) if own.shared]
    cores = max((cpus / gpus for cpus, gpus in nodes if gpus), default=0.0)
    if not cores or plan.searches or not shared:
        return sweep, []
    most = int(cores / max(own.cpu for own in shared))
    held = max(1, min(measure(plan.trials, plan.size), _MOST_ON_GPU, most))

    def part(own: Resources) -> Resources:
        # Ray counts in ten thousandths: 7 times .1429 would be more than a GPU.
        return replace(own, gpu=10_000 // held / 10_000) if own.shared else own

    note = f"by the measured memory of a step a GPU holds {held} trials or teachers at once"
    return replace(sweep, resources=part(sweep.resources), teacher=part(sweep.teacher)), [note]


def check_kind(trials: Sequence[PlannedTrial], size: DataSize) -> None:
    """Refuse methods for classes on amounts, the reverse, and epochs chosen by no test labels."""
    for trial in trials:
        if trial.config.of_amounts and not size.amounts:
            raise ValueError(
                "trainer.task is regression, but these labels are classes; state the bounds of "
                "amounts (data.bounds=LOW,HIGH), or take a data set of amounts such as "
                "california_housing"
            )
        if size.amounts and not trial.config.of_amounts:
            raise ValueError(
                f"method {trial.config.method!r} learns classes, but these labels are amounts; set "
                "trainer.task=regression"
            )
        selects = trial.config.evaluation.checkpoint is not Checkpoint.LAST
        if selects and not size.has_test_split:
            raise ValueError(
                "evaluation.checkpoint is test_selected, and these data have no public test split; "
                "set evaluation.checkpoint=last"
            )


def check_priors(trials: Sequence[PlannedTrial], *, examples: int) -> None:
    """Refuse priors that can't be made of these data, before the first trial."""
    for prior, seen in {(each.config.trainer.prior, each.config.data.features) for each in trials}:
        if prior is None:
            continue
        prior.check_size(examples)
        if prior.encoder is not None:
            existing(prior.encoder, key="trainer.prior.encoder")
        if FeatureSet.AS_THEY_ARE not in (prior.features, seen):
            raise ValueError(
                f"trainer.prior.features is {prior.features}, but data.features={seen} leaves no "
                "images to compute them of; set data.features=as_they_are for a network that sees "
                "the images, or leave trainer.prior.features out for a prior on what it sees"
            )


# --- what counts of right answers cost ------------------------------------------------------------


def with_count_price(
    sized: Sweep,
    listed: Sequence[PlannedTrial],
    size: DataSize,
    *,
    by: ChooseBy,
    before: float | None = None,
) -> tuple[Sequence[PlannedTrial], Sequence[Search], float | None]:
    """Return a sweep's trials and searches with the price of counts, and that price.

    The price is None where it is stated for every trial, or nothing is counted.
    """
    stop = sized.stop
    paid = stop is not None and by.estimated  # a rung requests an estimate

    def rungs_of(trial: PlannedTrial) -> int:
        return len(stop.rungs(trial.config.trainer.epochs)) if stop is not None and paid else 0

    def learned(sized: Sweep) -> tuple[Sequence[PlannedTrial], Sequence[Search]]:
        if sized.search is None:
            return [replace(trial, estimates=1 + rungs_of(trial)) for trial in listed], ()
        searches = [priced(search, size, rungs_of=rungs_of) for search in searches_of(sized)]
        return [search.priced_as for search in searches], searches

    trials, searches = learned(sized)
    counted = [trial.config.evaluation for trial in trials]
    if not size.held_out or not any(
        each.estimate is not Estimate.RELEASE and each.epsilon is None for each in counted
    ):
        return trials, searches, None
    epsilon = before or default_epsilon(
        held_out=size.held_out,
        free=free_epsilon(trials, num_classes=size.num_classes),
        histogram=size.amounts or any(each.estimate is Estimate.HISTOGRAM for each in counted),
    )
    listed = [replace(trial, config=_at(trial.config, epsilon)) for trial in listed]
    return *learned(replace(sized, base=_at(sized.base, epsilon))), epsilon


def _at(config: TrialConfig, epsilon: float) -> TrialConfig:
    if config.evaluation.epsilon is not None:
        return config
    return replace(config, evaluation=replace(config.evaluation, epsilon=epsilon))


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
    each = [epsilon / trial.estimates for trial, epsilon in pairs]
    counts = sum(trial.stands_for * trial.estimates for trial in trials)
    return min(together / counts, *each)


def planned_noise(trials: Sequence[PlannedTrial], *, held_out: int) -> ChoiceNoise | None:
    """Return the noise of a choice among trials; None where it is not one of counts."""
    found = [trial.config.evaluation for trial in trials]
    if not held_out or any(each.estimate is not Estimate.COUNT for each in found):
        return None
    cheapest = min(each.count_epsilon for each in found)
    noise = CorrectCount(epsilon=cheapest).noise_std
    words = ChooseBy.ESTIMATED.words
    if any(trial.config.of_amounts for trial in trials):
        # Errors are known later. They are compared as shares of the largest: here of the square of
        # half the bounds' distance, which a guess of the middle can't exceed.
        largest = min(each.largest_error or 1.0 for each in found)
        noise = 4 * largest**2 * math.sqrt(2) * ErrorSums(epsilon=cheapest).scales[1]
        words = ChooseBy.ESTIMATED.error.words
    candidates = sum(trial.stands_for for trial in trials)
    return ChoiceNoise(candidates=candidates, noise=noise / held_out, words=words)


def count_note(trials: Sequence[PlannedTrial], *, held_out: int) -> str:
    """Report the price and the noise of estimates; empty where no label pays for them."""
    noise = planned_noise(trials, held_out=held_out)
    paid = [trial.config.evaluation for trial in trials]
    if not held_out or any(each.estimate is Estimate.RELEASE for each in paid):
        return ""
    prices = sorted({each.count_epsilon for each in paid})
    many = sum(trial.stands_for * trial.estimates for trial in trials)
    price = " to ".join(dict.fromkeys((shown(prices[0], 3), shown(prices[-1], 3))))
    end = ""
    if noise is not None:
        refused = ": too much to choose a trial by, and `publish --trial best` refuses it"
        end = f"; {noise.text}{refused if noise.swamps else ''}"
    figure = "error" if any(trial.config.of_amounts for trial in trials) else "accuracy"
    return (
        f"{figure} is estimated on {held_out:,} held-out labels, which pay epsilon {price} for "
        f"each of {many} estimates and for nothing else{end}"
    )


def size_of_data(config: TrialConfig, splits: Splits) -> DataSize:
    """Count the data of a trial, as they are on the disk."""
    size = size_of(config.data.name, splits, limit=config.data.limit)
    share = config.evaluation.share(has_test_split=size.has_test_split)
    held_out = 0 if share is None else held_out_count(size.num_labels, share=share)
    return replace(size, num_labels=size.num_labels - held_out, held_out=held_out)


def check_fit(trials: Sequence[PlannedTrial], splits: Splits) -> None:
    """Refuse data that a method cannot learn from, as a start does.

    torch is loaded only for methods that may refuse data of this kind.
    """
    settings = trials[0].config.data
    rows = splits.train_features
    if settings.features is not FeatureSet.AS_THEY_ARE:  # columns, which a plan does not compute
        rows = np.zeros((len(rows), 1), dtype=np.float32)
    every = dict.fromkeys(trial.config.trainer for trial in trials)
    numbers = rows.dtype != np.int64
    asked = [each for each in every if not (numbers and _fits_all(each, images=rows.ndim == 4))]
    if not asked:
        return
    public = rows_alone(rows, name=settings.name, num_classes=splits.num_classes)
    for trainer in asked:
        trainer.check_data(public)


def _fits_all(trainer: Any, *, images: bool) -> bool:
    own = getattr(trainer, "fits_all", None)
    if own is not None:
        return bool(own(images=images))
    return bool(type(trainer).check_data == TrainerDefaults.check_data)


def as_on_disk(settings: DataSettings) -> Splits:
    """Return the arrays of the data set that the settings name, before anything is checked."""
    with settings.looked_up() as known:
        if known.name == "own":
            if known.embeddings is not None:
                raise ValueError(
                    f"data.embeddings is {known.embeddings}, but data.name is own: embeddings of "
                    "your own images are your features; set data.path to them, and data.labels to "
                    "the file of their labels"
                )
            return read_own(known.own_source)
        usual = DataSettings()
        stated = [f"data.{key}" for key in OWN_KEYS if getattr(known, key) != getattr(usual, key)]
        if stated:
            raise ValueError(
                f"{', '.join(stated)}: only for your own data, but data.name is {known.name}; set "
                "data.name=own, or leave them out"
            )
        splits = find(known.name).read(data_root(known.root))
        if known.embeddings is None:
            return splits
        return with_embeddings(known.name, splits, known.embeddings)


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """The trials of a sweep and their cost.

    Attributes:
        gpu_hours: Of all trials, where they train on GPUs; 0 elsewhere.
        hours: Of one device, by line. Empty where networks learn from so little that minutes will
            do, or nothing is known of the data.
        hours_device: What the hours are of.
        hours_measured: Whether they were measured on this machine; otherwise they are counted.
        price: Of the hours; None without `--price-per-hour`, or where hours are not known.
        fits: Whether this machine can hold a trial and the data are there.
        labels: How many there are to train on; 0 where the data can't be read.
        spoiled_labels: How many of them will be made wrong on purpose, for audits.
        configurations: A row for trials that differ in seeds alone, or for a search: its line, the
            keys that differ between rows (of a search its axes), how many trials it stands for, and
            epsilon and releases of each.
        over_budget: Whether nothing but the budget stands in the way.
    """

    trials: int
    epsilons: list[float]
    releases: int
    epsilon_total: float
    delta: float
    gpu_hours: float
    hours: dict[str, float]
    hours_device: str
    hours_measured: bool
    price: float | None
    fits: bool
    problems: list[str]
    labels: int
    spoiled_labels: int
    configurations: list[dict[str, Any]]
    over_budget: bool
    notes: list[str]


def parts_of(sweep: Sweep, options: SweepOptions) -> dict[str, tuple[Sweep, SweepOptions]]:
    """Return the sweeps that a run consists of, by name: itself, or a study's.

    Blocks are sweeps of their own, since a vault holds one set of labels. A label takes part in all
    of them, and has paid their sum; a budget is split evenly among them.
    """
    if not sweep.blocks:
        return {sweep.name: (sweep, options)}
    audit = prepare(sweep, options)[1][0].config.audit
    blocks = sweep.blocks
    if audit.canary_block is not None:
        raise ConfigurationError("audit.canary_block is set, but this command runs every block")
    if not audit.canaries or audit.canaries % blocks:
        raise ConfigurationError(
            f"audit.canaries is {audit.canaries}, which {blocks} blocks can't share evenly; take a "
            f"multiple of {blocks}"
        )
    size = replace(audit, canaries=audit.canaries // blocks).canaries  # too few are refused
    changes: dict[str, dict[str, Any]] = {TOGETHER: {"audit.canaries": audit.canaries}}
    for block in range(blocks):
        changes[f"block-{block}"] = {"audit.canaries": size, "audit.canary_block": block}
    number = len(changes)
    share = sweep.budget
    total = options.max_epsilon_total
    if share is not None:
        share = replace(share, epsilon=share.epsilon / number, delta=share.delta / number)
    return {
        name: (
            replace(sweep, name=f"{sweep.name}_{name}", budget=share, blocks=0),
            replace(
                options,
                results=options.results.expanduser().absolute() / name,
                overrides={**options.overrides, **own},
                max_epsilon_total=None if total is None else total / number,
            ),
        )
        for name, own in changes.items()
    }


def plan_of(sweep: Sweep, options: SweepOptions) -> PlanResult:
    """List a sweep's trials and their cost, as it would be run with these options."""
    parts = parts_of(sweep, options)
    number = len(parts)  # sweeps of a study request the same of labels
    sweep, options = next(iter(parts.values()))
    prepared = prepare(sweep, options)
    first = prepared[1][0].config
    size = None
    unfit: list[ValueError | OSError | CannotFit] = []
    with _noting(unfit):
        splits = as_on_disk(first.data)
        size = size_of_data(first, splits)
        check_fit(prepared[1], splits)
    known = plan_sweep(options, prepared, size)
    trials = known.trials
    cost = known.cost
    refused = dict.fromkeys(map(str, (*unfit, *known.refusals)))
    problems = [*refused, *_lacking(known.sweep, trials)]
    over_budget = any(isinstance(refusal, BudgetExceeded) for refusal in known.refusals)
    share = known.sweep.resources.gpu
    required = on_cuda(trials)
    gpus = gpus_here() if share or required else 0
    wants_gpu = required or (share > 0 and (gpus > 0 or not options.on_processors))
    measured = gpus > 0 or not wants_gpu
    hours = None
    notes = list(known.notes)
    if number > 1:
        study = (
            f"this study is {number} sweeps, one with all canaries and {number - 1} with a block"
        )
        each = "of them each; each draws releases of its own, and a label pays for all"
        notes.insert(0, f"{study} {each}")
    if size is not None:
        # Shares first: they look at the memory that is free.
        notes += with_shares(known, [(os.cpu_count() or 1, gpus)])[1]
        hours = planned_hours(trials, size, measured=measured)
    total = 0.0 if hours is None else number * hours.total
    price = options.price_per_hour
    if price is not None and hours is None:
        price = None
        notes.append("no price is stated: hours are measured for image networks that train long")
    return PlanResult(
        trials=number * cost.trials,
        epsilons=sorted(set(map(stated, cost.epsilons))),
        releases=number * cost.releases,
        epsilon_total=number * stated(cost.epsilon_total),
        delta=number * cost.delta,
        gpu_hours=total if wants_gpu else 0.0,
        hours={} if hours is None else {k: number * each for k, each in hours.lines.items()},
        hours_device="" if hours is None else hours.device,
        hours_measured=hours is not None and measured,
        price=None if price is None else price * total,
        fits=not problems,
        problems=problems,
        labels=known.size.num_labels,
        spoiled_labels=0 if size is None else known.audit.spoiled,
        configurations=[
            {**row, "trials": number * row["trials"]} for row in _configurations(known)
        ],
        over_budget=over_budget and len(problems) == 1,
        notes=notes,
    )


def _configurations(plan: Plan) -> list[dict[str, Any]]:
    costs = []
    for trial, epsilon in zip(plan.trials, plan.cost.epsilons, strict=True):
        requests = releases_of(trial, num_classes=plan.size.num_classes).values()
        shared = trial.config.evaluation.estimate is Estimate.RELEASE
        estimates = (1 if shared else trial.estimates) if plan.size.held_out else 0
        releases = sum(part.releases for part in requests) + estimates
        costs.append({"epsilon": stated(epsilon), "releases": releases})
    rows: dict[str, dict[str, Any]] = {}
    if not plan.searches:
        for trial, cost in zip(plan.trials, costs, strict=True):
            point = without_seeds(trial.point)
            row = {"variant": trial.variant, **point, "trials": 0, **cost}
            rows.setdefault(repr((trial.variant, point, cost["epsilon"])), row)["trials"] += 1
        return list(rows.values())
    return [
        {
            "variant": search.variant.name,
            **search.point,
            **{key: repr(axis) for key, axis in search.axes.items()},
            "trials": search.size,
            **cost,
        }
        for search, cost in zip(plan.searches, costs, strict=True)
    ]


def _lacking(sized: Sweep, trials: Sequence[PlannedTrial]) -> list[str]:
    cores = os.cpu_count() or 1
    takers = {"a trial": sized.resources}
    if ensembles_of(trials):
        takers = {"an actor that trains teachers": sized.teacher, **takers}
    problems = [
        f"{what} takes {each.cpu:g} cores, but this machine has {cores}; name a cluster with "
        "--address"
        for what, each in takers.items()
        if each.cpu > cores
    ]
    if on_cuda(trials) and not gpus_here():
        problems.append("performance.device is cuda, but this machine has no GPU")
    return problems


def on_cuda(trials: Sequence[PlannedTrial]) -> bool:
    """Whether any trial is to run on a GPU and nowhere else."""
    return any(trial.config.performance.device is Device.CUDA for trial in trials)

"""A sweep's plan as a result: its trials, what each costs, and how long it takes.

A trial takes as long as a recorded one that differs in seeds and noise alone. Without such a
record, times of one processor (`REFERENCE`) are scaled by examples, epochs and weights; nothing is
run for it.
"""

import math
import os
import platform as machine
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from labeldp.mechanisms.ledger import BudgetExceeded, stated
from labeldp.platform.records.results import records_in
from labeldp.platform.sweep.configuration import TrialConfig, flatten
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.plan import Plan, plan_sweep, prepare, size_of_data
from labeldp.platform.sweep.space import without_seeds
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, SweepOptions, ensembles_of
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.performance import Device
from labeldp.trainers.settings.base import FeatureSet, ModelName
from labeldp.trainers.settings.methods import PriorSettings, PriorSource
from labeldp.trainers.settings.pate import EnsembleConfig, PateConfig, StudentKind, TeacherKind
from labeldp.trainers.settings.training import LearnerConfig

#: Where the constants below were measured.
REFERENCE = "one core of an Intel Xeon with AMX"
#: The MLP: seconds of a step, and of a weight for an example of it.
_STEP, _WEIGHT = 8e-4, 5.4e-11
#: The fast network, in bfloat16: seconds of an image of 32x32 at half width (docs/fast_network.md).
_FAST_IMAGE = 393 / 500_000
#: Priors: seconds of a feature of an example and a group, or a landmark; the latter in each trial
#: again.
_GROUP, _LANDMARK = 8.4e-10, 1.1e-10
#: Patches: seconds to learn them of images, and to describe a pixel's patch.
_PATCHES, _PATCH = 10.0, 8.6e-7
#: Probes: seconds of a product in a ridge regression.
_PROBE = 1e-10
_PATCH_FEATURES = 800
#: Settings that change a trial's numbers and not its time.
_NO_TIME = (
    *("seed", "noise.seed", "noise.draw", "noise.secure", "trainer.epsilon", "trainer.delta"),
    *("trainer.sigma1", "trainer.sigma2", "trainer.threshold", "trainer.learning_rate"),
    *("trainer.ensemble.seed", "data.root", "models.keep"),
)


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """The trials of a sweep and their cost.

    Attributes:
        gpu_hours: Of all trials, from the sweep's own estimate for one.
        fits: Whether this machine can hold a trial and the data are there.
        labels: How many there are to train on; 0 where the data can't be read.
        spoiled_labels: How many of them will be made wrong on purpose, for audits.
        configurations: A row for trials that differ in seeds alone, or for a search: its line, the
            keys that differ between rows (of a search its axes), how many trials it stands for, and
            epsilon, releases and processor minutes (null if unknown) of each.
        minutes: Processor minutes of all trials and of what they share; None if some are unknown.
        shared_minutes: Of that, features, groups of priors and teachers.
        over_budget: Whether nothing but the budget stands in the way.
    """

    trials: int
    epsilons: list[float]
    releases: int
    epsilon_total: float
    delta: float
    gpu_hours: float
    fits: bool
    problems: list[str]
    labels: int
    spoiled_labels: int
    configurations: list[dict[str, Any]]
    minutes: float | None
    shared_minutes: float | None
    minutes_source: str
    over_budget: bool
    notes: list[str]


def plan_of(sweep: Sweep, options: SweepOptions) -> PlanResult:
    """List a sweep's trials and their cost, as it would be run with these options."""
    prepared, problems = prepare(sweep, options), []
    first = prepared[1][0].config
    try:
        size = size_of_data(first.data, evaluation=first.evaluation)
    except (ValueError, FileNotFoundError) as error:
        size, problems = None, [str(error)]
    known = plan_sweep(options, prepared, size)
    trials, cost = known.trials, known.cost
    problems += [*map(str, known.refusals), *_lacking(known.sweep, trials)]
    over_budget = any(isinstance(refusal, BudgetExceeded) for refusal in known.refusals)
    before = _recorded(options.results)
    measured = [before.get(_kind(flatten(trial.config))) if before else None for trial in trials]
    minutes = [
        median(seconds) / 60 if seconds else _scaled(trial.config, size)
        for trial, seconds in zip(trials, measured, strict=True)
    ]
    shared = _shared(trials, size)
    parts = [*minutes, shared]
    return PlanResult(
        trials=cost.trials,
        epsilons=sorted(set(map(stated, cost.epsilons))),
        releases=cost.releases,
        epsilon_total=stated(cost.epsilon_total),
        delta=cost.delta,
        gpu_hours=cost.trials * known.sweep.gpu_hours_per_trial,
        fits=not problems,
        problems=problems,
        labels=known.size.num_labels,
        spoiled_labels=0 if size is None else known.audit.spoiled,
        configurations=_configurations(known, minutes),
        minutes=None if None in parts else math.fsum(part for part in parts if part is not None),
        shared_minutes=shared,
        minutes_source=_source(minutes, shared, measured=sum(map(bool, measured))),
        over_budget=over_budget and len(problems) == 1,
        notes=list(known.notes),
    )


def _configurations(plan: Plan, minutes: Sequence[float | None]) -> list[dict[str, Any]]:
    costs: list[tuple[PlannedTrial, dict[str, Any]]] = []
    for trial, epsilon, each in zip(plan.trials, plan.cost.epsilons, minutes, strict=True):
        requests = releases_of(trial, num_classes=plan.size.num_classes).values()
        counts = trial.estimates_each if plan.size.held_out else 0
        releases = sum(part.releases for part in requests) + counts
        cost = {"epsilon": float(f"{epsilon:.12g}"), "releases": releases, "minutes": each}
        costs.append((trial, cost))
    rows: dict[str, dict[str, Any]] = {}
    if not plan.searches:
        for trial, cost in costs:
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
            **max(
                (
                    cost
                    for trial, cost in costs
                    if trial.variant == search.variant.name
                    and search.point.items() <= trial.point.items()
                ),
                key=lambda cost: cost["epsilon"],
                default={},
            ),
        }
        for search in plan.searches
    ]


def _lacking(sized: Sweep, trials: Sequence[PlannedTrial]) -> list[str]:
    cores, takers = os.cpu_count() or 1, {"a trial": sized.resources}
    if ensembles_of(trials):
        takers = {"an actor that trains teachers": sized.teacher, **takers}
    problems = [
        f"{what} takes {each.cpus:g} cores, but this machine has {cores}; name a cluster with "
        "--address"
        for what, each in takers.items()
        if each.cpus > cores
    ]
    if any(trial.config.performance.device is Device.CUDA for trial in trials):
        import torch  # more than a second, which plans without a GPU do without

        if not torch.cuda.is_available():
            problems.append("performance.device is cuda, but this machine has no GPU")
    return problems


def _source(minutes: Sequence[float | None], shared: float | None, *, measured: int) -> str:
    """Where the minutes of trials are from, in words; `measured` of them from records."""
    missing = minutes.count(None)
    parts = []
    if measured:
        parts.append(f"{measured} trials as measured on this machine")
    if len(minutes) > measured + missing:
        parts.append(f"estimated from {REFERENCE}, so that another takes longer or shorter")
    if missing or shared is None:
        parts.append("- where nothing is known before a first trial has ended")
    return "processor minutes: " + "; ".join(parts)


def _recorded(results: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for record in records_in(results).values():
        here = record.environment.get("system") == machine.platform()
        same = here and record.environment.get("cores") == str(os.cpu_count())
        seconds = record.metrics.get("processor_seconds")
        if record.finished and not record.stopped_early and same and seconds is not None:
            found.setdefault(_kind(record.config), []).append(seconds)
    return found


def _kind(config: Mapping[str, Any]) -> str:
    return repr(sorted((key, str(value)) for key, value in config.items() if key not in _NO_TIME))


def _scaled(config: TrialConfig, size: DataSize | None) -> float | None:
    """Minutes of a trial by the reference; None where it does not apply."""
    if size is None:
        return None
    trainer, features = config.trainer, _num_features(config, size)
    if isinstance(trainer, PateConfig):
        probe = trainer.student.kind is StudentKind.PROBE and not trainer.prior.source.asks_labels
        return trainer.students * _probe(trainer.answers, features) / 60 if probe else None
    if not isinstance(trainer, LearnerConfig) or config.performance.device.value == "cuda":
        return None
    one_pass = _of_pass(trainer, size, features)
    if one_pass is None:
        return None
    prior = getattr(trainer, "prior", None)
    if prior is not None and prior.source is PriorSource.MOMENTS:
        return (trainer.epochs * one_pass + _of_prior(prior, size.num_labels, features)) / 60
    return trainer.epochs * one_pass / 60


def _of_pass(trainer: LearnerConfig, size: DataSize, features: int) -> float | None:
    count, steps = size.num_labels, math.ceil(size.num_labels / trainer.batch_size)
    if trainer.model is ModelName.MLP:
        width = trainer.width or ModelName.MLP.default_width
        return steps * _STEP + count * width * (features + size.num_classes) * _WEIGHT
    if trainer.model is ModelName.FAST_CNN:
        width = trainer.width or ModelName.FAST_CNN.default_width
        # Twice the width took 2.6 times as long, as a power of 1.36.
        images = float(count * math.prod(size.shape[1:]) / 32**2)
        return images * _FAST_IMAGE * math.pow(width / 32, 1.36)
    return None


def _of_prior(prior: PriorSettings, count: int, features: int) -> float:
    """Seconds of the groups or directions that a prior queries; no label goes into them."""
    if prior.source is PriorSource.CLUSTERS:
        return float(count * features * prior.clusters * _GROUP)
    return float(count * features * prior.landmarks * _LANDMARK)


def _shared(trials: Sequence[PlannedTrial], size: DataSize | None) -> float | None:
    """Minutes of features, groups of priors and ensembles: made once for all trials."""
    if size is None:
        return None
    config, seconds = trials[0].config, 0.0
    if config.data.features is FeatureSet.RANDOM_PATCHES:
        return None
    if config.data.features is FeatureSet.PATCHES and len(size.shape) > 1:
        seconds = _PATCHES + size.num_labels * math.prod(size.shape) * _PATCH
    ensembles: set[EnsembleConfig] = {
        each.config.trainer.ensemble
        for each in trials
        if isinstance(each.config.trainer, PateConfig)
    }
    if any(each.kind is not TeacherKind.PROBE for each in ensembles):
        return None
    features = _num_features(config, size)
    priors = {
        (prior.source, prior.clusters, prior.landmarks, prior.seed): prior
        for prior in (each.config.trainer.prior for each in trials)
        if prior is not None and prior.source.asks_labels
    }
    if any(each.features is not FeatureSet.AS_THEY_ARE for each in priors.values()):
        return None
    seconds += sum(_of_prior(each, size.num_labels, features) for each in priors.values())
    for each in ensembles:
        seconds += each.teachers * _probe(size.num_labels // each.teachers, features)
    return seconds / 60


def _probe(rows: int, features: int) -> float:
    return rows * features * min(rows, features) * _PROBE


def _num_features(config: TrialConfig, size: DataSize) -> int:
    given = math.prod(size.shape)
    return (
        given if config.data.features is FeatureSet.AS_THEY_ARE else min(given * 3, _PATCH_FEATURES)
    )

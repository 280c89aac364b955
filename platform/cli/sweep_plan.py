"""What a sweep would run and cost, of which nothing is started: what `labeldp plan` does."""

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labeldp.mechanisms.ledger import BudgetExceeded, stated
from labeldp.platform.cli.sweep_command import results_of, sweep_file
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.data_size import size_of_data
from labeldp.platform.sweep.overrides import parse_overrides, read_yaml
from labeldp.platform.sweep.plan import Plan, plan_sweep, prepare
from labeldp.platform.sweep.planned_minutes import planned_minutes
from labeldp.platform.sweep.search import Search
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, SweepOptions, ensembles_of
from labeldp.trainers.performance import Device


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """What a sweep would run and cost.

    Attributes:
        trials: How many.
        epsilons: Of the trials, each once.
        releases: How many releases the trials share.
        epsilon_total: Of a label that all releases touch.
        delta: At which the total holds.
        gpu_hours: Of all trials, from the sweep's own estimate for one.
        fits: Whether this machine can hold a trial and the data are there.
        problems: What stands in the way.
        labels: How many there are to train on; 0 where the data can't be read.
        spoiled_labels: How many of them will be made wrong on purpose, for audits.
        configurations: A row for trials that differ in seeds alone, or for a search: its line, the
            keys that differ between rows (of a search its axes), how many trials it stands for, the
            epsilon and releases of each, and the processor minutes of each (null if unknown).
        minutes: Processor minutes of all trials and of what they share; None where some of it is
            unknown.
        shared_minutes: Of that, features, groups of priors and teachers.
        minutes_source: Whether minutes are measured or estimated, in words.
        over_budget: Whether nothing but the budget stands in the way.
        notes: What else to know of it beforehand, such as the price of estimates.
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
    configurations: list[dict[str, object]]
    minutes: float | None = None
    shared_minutes: float | None = None
    minutes_source: str = ""
    over_budget: bool = False
    notes: list[str] = field(default_factory=list)


def load_sweep(path: str) -> Sweep:
    """Return the `SWEEP` of a sweep file.

    Raises:
        ValueError: No such file, it can't be run, or it has no `SWEEP`.
    """
    file = sweep_file(path)
    spec = importlib.util.spec_from_file_location(f"labeldp_sweep_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{path} can't be run: {type(error).__name__}: {error}") from error
    sweep = getattr(module, "SWEEP", None)
    if not isinstance(sweep, Sweep):
        if hasattr(module, "STUDY"):
            raise ConfigurationError(
                f"{path} is a study of its own and no sweep: it trains no trials that could be "
                f"planned; `python {path} --smoke` runs it at its small size, --help has the rest"
            )
        raise ConfigurationError(f"{path} defines no SWEEP; see sweeps/quickstart.py for one")
    return sweep


def plan(
    path: str, *, overrides: Sequence[str] = (), smoke: bool = False, config: str | None = None
) -> PlanResult:
    """List a sweep's trials and their cost.

    Args:
        path: The sweep file.
        overrides: `key=value` arguments.
        smoke: Plan the small size.
        config: YAML file of settings that `overrides` come on top of.

    Raises:
        ConfigurationError: A key or value that can't be used.
    """
    changes = {**(read_yaml(Path(config)) if config else {}), **parse_overrides(list(overrides))}
    sweep = load_sweep(path)
    results = results_of(sweep, smoke=smoke)
    return plan_of(sweep, SweepOptions(smoke=smoke, results=results, overrides=changes))


def plan_of(sweep: Sweep, options: SweepOptions) -> PlanResult:
    """List a sweep's trials and their cost, as it would be run with these options.

    Raises:
        ConfigurationError: A key or value that can't be used.
        ResultsFolderError: The results folder holds an earlier start that is damaged.
    """
    prepared, problems = prepare(sweep, options), []
    first = prepared[1][0].config
    try:
        size = size_of_data(first.data, evaluation=first.evaluation)
    except (ValueError, FileNotFoundError) as error:
        size, problems = None, [str(error)]
    known = plan_sweep(sweep, options, prepared, size)
    trials, cost = known.trials, known.cost
    problems += [*map(str, known.refusals), *_lacking(known.sweep, trials)]
    over_budget = any(isinstance(refusal, BudgetExceeded) for refusal in known.refusals)
    minutes = planned_minutes(trials, size, results=options.results)
    return PlanResult(
        trials=cost.trials,
        epsilons=sorted(set(map(stated, cost.epsilons))),
        releases=cost.releases,
        epsilon_total=stated(cost.epsilon_total),
        delta=cost.delta,
        gpu_hours=0.0 if options.smoke else cost.trials * known.sweep.gpu_hours_per_trial,
        fits=not problems,
        problems=problems,
        labels=known.size.num_labels,
        spoiled_labels=0 if size is None else known.audit.spoiled,
        configurations=_configurations(_costs(known, minutes.trials), known.searches),
        minutes=minutes.total,
        shared_minutes=minutes.shared,
        minutes_source=minutes.source,
        over_budget=over_budget and len(problems) == 1,
        notes=list(known.notes),
    )


@dataclass(frozen=True, kw_only=True)
class _Costs:
    """What one trial costs."""

    trial: PlannedTrial
    epsilon: float
    releases: int
    minutes: float | None

    def row(self) -> dict[str, object]:
        return {
            "epsilon": float(f"{self.epsilon:.12g}"),
            "releases": self.releases,
            "minutes": self.minutes,
        }


def _costs(plan: Plan, minutes: Sequence[float | None]) -> list[_Costs]:
    found = []
    for trial, epsilon, each in zip(plan.trials, plan.cost.epsilons, minutes, strict=True):
        asked = releases_of(trial, num_classes=plan.size.num_classes).values()
        releases = sum(part.releases for part in asked)
        if plan.size.held_out:
            releases += trial.estimates_each
        found.append(_Costs(trial=trial, epsilon=epsilon, releases=releases, minutes=each))
    return found


def _configurations(costs: Sequence[_Costs], searches: Sequence[Search]) -> list[dict[str, object]]:
    """A row for trials that differ in seeds alone, or for a search."""
    if not searches:
        rows: dict[str, list[_Costs]] = {}
        hidden = _repetition_keys([each.trial for each in costs])
        for each in costs:
            own = hidden.get(each.trial.variant, frozenset())
            point = {key: value for key, value in each.trial.point.items() if key not in own}
            rows.setdefault(repr((each.trial.variant, point, each.row()["epsilon"])), []).append(
                each
            )
        return [
            {
                "variant": row[0].trial.variant,
                **{
                    key: value
                    for key, value in row[0].trial.point.items()
                    if key not in hidden.get(row[0].trial.variant, ())
                },
                "trials": len(row),
                **row[0].row(),
            }
            for row in rows.values()
        ]
    return [
        {
            "variant": search.variant.name,
            **search.point,
            **{key: repr(axis) for key, axis in search.axes.items()},
            "trials": search.size,
            **_dearest(costs, search.variant.name, search.point),
        }
        for search in searches
    ]


def _dearest(
    costs: Sequence[_Costs], variant: str, point: Mapping[str, object]
) -> dict[str, object]:
    """What the dearest trial of a search costs, of those that it is priced as."""
    own = [
        each
        for each in costs
        if each.trial.variant == variant and point.items() <= each.trial.point.items()
    ]
    return max(own, key=lambda each: each.epsilon).row() if own else {}


def _repetition_keys(trials: Sequence[PlannedTrial]) -> dict[str, frozenset[str]]:
    """Of each line with repetitions, the axes that have one value in each: seeds by other names."""
    values: dict[str, dict[str, dict[tuple[int, int], set[str]]]] = {}
    for trial in trials:
        repetition = (trial.config.seed, trial.config.noise.draw)
        for key, value in trial.point.items():
            of_key = values.setdefault(trial.variant, {}).setdefault(key, {})
            of_key.setdefault(repetition, set()).add(repr(value))
    return {
        variant: frozenset(
            key
            for key, found in keys.items()
            if len(found) > 1
            and all(len(each) == 1 for each in found.values())
            and len(set().union(*found.values())) == len(found)
        )
        for variant, keys in values.items()
    }


def _lacking(sized: Sweep, trials: Sequence[PlannedTrial]) -> list[str]:
    """What trials and teachers need and this machine has not."""
    problems = []
    cores = os.cpu_count() or 1
    if ensembles_of(trials) and sized.teacher.cpus > cores:
        problems.append(
            f"an actor that trains teachers takes {sized.teacher.cpus:g} cores, but this machine "
            f"has {cores}; name a cluster with --address"
        )
    if sized.resources.cpus > cores:
        problems.append(
            f"a trial takes {sized.resources.cpus:g} cores, but this machine has {cores}; name a "
            "cluster with --address"
        )
    asked = any(trial.config.performance.device is Device.CUDA for trial in trials)
    if asked and not _has_gpu():
        problems.append("performance.device is cuda, but this machine has no GPU")
    return problems


def _has_gpu() -> bool:
    import torch  # more than a second, which plans without a GPU have no use for

    return torch.cuda.is_available()

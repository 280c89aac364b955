"""What a sweep would run and cost, of which nothing is started: what `labeldp plan` does."""

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labeldp.mechanisms.ledger import BudgetExceeded, stated
from labeldp.platform.cli.sweep_command import results_of, sweep_file
from labeldp.platform.sweep.beforehand import notes_of
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.cost import check_priors, releases_of
from labeldp.platform.sweep.data_size import DataSize, size_of_data
from labeldp.platform.sweep.overrides import parse_overrides, read_yaml
from labeldp.platform.sweep.planned_minutes import planned_minutes
from labeldp.platform.sweep.stand_ins import DataFacts, Search
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, ensembles_of
from labeldp.platform.sweep.sweep_options import SweepOptions, prepare
from labeldp.platform.sweep.sweep_price import audited, priced
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
    sized, listed = prepare(sweep, options)
    seen = _look_at_data(sized, listed, options)
    known = priced(seen.sized, seen.trials, options, seen.facts, has_test_split=seen.has_test_split)
    trials, cost = known.trials, known.cost
    problems = [*seen.problems, *map(str, known.refusals), *_lacking(sized, trials)]
    over_budget = any(isinstance(refusal, BudgetExceeded) for refusal in known.refusals)
    minutes = planned_minutes(trials, seen.size, results=options.results)
    return PlanResult(
        trials=cost.trials,
        epsilons=sorted(set(map(stated, cost.epsilons))),
        releases=cost.releases,
        epsilon_total=stated(cost.epsilon_total),
        delta=cost.delta,
        gpu_hours=0.0 if options.smoke else cost.trials * sized.gpu_hours_per_trial,
        fits=not problems,
        problems=problems,
        labels=seen.num_labels,
        spoiled_labels=seen.spoiled,
        configurations=_configurations(
            _costs(trials, known.cost.epsilons, minutes.trials, seen.facts), known.search
        ),
        minutes=minutes.total,
        shared_minutes=minutes.shared,
        minutes_source=minutes.source,
        over_budget=over_budget and len(problems) == 1,
        notes=notes_of(sweep, options, trials, held_out=seen.facts.held_out),
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


def _costs(
    trials: Sequence[PlannedTrial],
    epsilons: Sequence[float],
    minutes: Sequence[float | None],
    facts: DataFacts,
) -> list[_Costs]:
    found = []
    for trial, epsilon, each in zip(trials, epsilons, minutes, strict=True):
        asked = releases_of(trial, num_classes=facts.num_classes).values()
        releases = sum(part.releases for part in asked)
        if facts.with_estimates:
            releases += trial.estimates_each
        found.append(_Costs(trial=trial, epsilon=epsilon, releases=releases, minutes=each))
    return found


def _configurations(costs: Sequence[_Costs], search: Search | None) -> list[dict[str, object]]:
    """A row for trials that differ in seeds alone; of a search for each of its strands."""
    if search is None:
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
            "variant": strand.line.variant.name,
            **strand.point,
            **{key: repr(axis) for key, axis in strand.axes.items()},
            "trials": strand.size,
            **_dearest(costs, strand.line.variant.name, strand.point),
        }
        for strand in search.strands
    ]


def _dearest(
    costs: Sequence[_Costs], variant: str, point: Mapping[str, object]
) -> dict[str, object]:
    """What the dearest trial of a search costs, of those that stand in for its trials."""
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


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What was found out of the data.

    Attributes:
        sized: The sweep, its canaries settled where the data can be read.
        trials: Its trials, likewise.
        size: Of the data; None where they can't be read.
        facts: What the price depends on; the least there can be where the data can't be read.
        has_test_split: Whether test labels are public; None where the data can't be read.
        num_labels: N, to train on.
        spoiled: How many of them are made wrong on purpose, for audits.
        problems: Why the trials can't be run on these data.
    """

    sized: Sweep
    trials: Sequence[PlannedTrial]
    size: DataSize | None = None
    facts: DataFacts = field(default_factory=lambda: DataFacts(num_classes=2, with_estimates=False))
    has_test_split: bool | None = None
    num_labels: int = 0
    spoiled: int = 0
    problems: tuple[str, ...] = ()


def _look_at_data(sized: Sweep, trials: list[PlannedTrial], options: SweepOptions) -> _Seen:
    seen, first = _Seen(sized=sized, trials=trials), trials[0].config
    try:
        size = size_of_data(first.data, evaluation=first.evaluation)
        count, classes = size.num_labels, size.num_classes
        facts = DataFacts(
            num_classes=classes, with_estimates=size.held_out > 0, held_out=size.held_out
        )
        seen = replace(
            seen, size=size, facts=facts, has_test_split=size.has_test_split, num_labels=count
        )
        sized, trials = audited(sized, trials, options, num_labels=count, num_classes=classes)
        spoiled = trials[0].config.audit.spoiled
        seen = replace(seen, sized=sized, trials=trials, spoiled=spoiled)
        check_priors(trials, examples=count, num_classes=classes)
        for ensemble in ensembles_of(trials):
            ensemble.check_count(count)
    except (ValueError, FileNotFoundError) as error:
        return replace(seen, problems=(str(error),))
    return seen


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

"""What a sweep would run and cost, of which nothing is started: what `labeldp plan` does."""

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labeldp.mechanisms.ledger import BudgetExceeded, stated
from labeldp.platform.beforehand import notes_of
from labeldp.platform.cli.sweep_command import results_of, sweep_file
from labeldp.platform.configuration import ConfigurationError
from labeldp.platform.cost import check_priors
from labeldp.platform.data_size import size_of_data
from labeldp.platform.overrides import parse_overrides, read_yaml
from labeldp.platform.search.stand_ins import DataFacts, Search
from labeldp.platform.sweep import PlannedTrial, Sweep, ensembles_of
from labeldp.platform.sweep_options import SweepOptions, prepare
from labeldp.platform.sweep_price import audited, priced
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
        configurations: Settings of each trial that differ between trials; of a search its axes.
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
        configurations=_configurations(trials, known.search),
        over_budget=over_budget and len(problems) == 1,
        notes=notes_of(sweep, options, trials, held_out=seen.facts.held_out),
    )


def _configurations(
    trials: Sequence[PlannedTrial], search: Search | None
) -> list[dict[str, object]]:
    """A row for each trial; of a search for each of its strands, with the axes."""
    if search is None:
        return [{"variant": trial.variant, **trial.point} for trial in trials]
    return [
        {
            "variant": strand.line.variant.name,
            **strand.point,
            **{key: repr(axis) for key, axis in strand.axes.items()},
            "trials": strand.size,
        }
        for strand in search.strands
    ]


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What was found out of the data.

    Attributes:
        sized: The sweep, its canaries settled where the data can be read.
        trials: Its trials, likewise.
        facts: What the price depends on; the least there can be where the data can't be read.
        has_test_split: Whether test labels are public; None where the data can't be read.
        num_labels: N, to train on.
        spoiled: How many of them are made wrong on purpose, for audits.
        problems: Why the trials can't be run on these data.
    """

    sized: Sweep
    trials: Sequence[PlannedTrial]
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
        seen = replace(seen, facts=facts, has_test_split=size.has_test_split, num_labels=count)
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

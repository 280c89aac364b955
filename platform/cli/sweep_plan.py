"""`labeldp plan SWEEP.py`: a sweep's trials and cost; nothing is started or released."""

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labeldp.mechanisms.ledger import BudgetExceeded, stated
from labeldp.platform.cli.command import Answer, ExitCode, Words, table
from labeldp.platform.cli.sweep_command import plan_options
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.data_size import size_of_data
from labeldp.platform.sweep.overrides import read_yaml
from labeldp.platform.sweep.plan import Plan, plan_sweep, prepare
from labeldp.platform.sweep.planned_minutes import planned_minutes
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, SweepOptions, ensembles_of
from labeldp.trainers.data.files import FileRefused, read_bytes
from labeldp.trainers.performance import Device


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


def load_sweep(path: str) -> Sweep:
    """Return the `SWEEP` of a sweep file."""
    file = Path(path)
    try:
        if file.suffix != ".py":
            raise ValueError("its name does not end in .py")
        read_bytes(file)
    except FileRefused as error:
        raise ConfigurationError(f"{error}, one of sweeps/*.py") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"{path} is not a sweep file ({why}); name one of sweeps/*.py"
        ) from error
    spec = importlib.util.spec_from_file_location(f"labeldp_sweep_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{path} can't be run: {type(error).__name__}: {error}") from error
    sweep = getattr(module, "SWEEP", None)
    if isinstance(sweep, Sweep):
        return sweep
    if hasattr(module, "STUDY"):
        raise ConfigurationError(
            f"{path} is a study, not a sweep: it has no trials to plan; `python {path} --smoke` "
            "runs it at its small size, --help shows the rest"
        )
    raise ConfigurationError(f"{path} defines no SWEEP; see sweeps/quickstart.py for one")


def plan(*, sweep: str, config: str | None, **given: Any) -> Answer:
    """List a sweep's trials and their cost: `labeldp plan`.

    Args:
        sweep: The sweep file.
        config: YAML file of settings, below `key=value`.
        **given: Values of PLAN_OPTIONS.
    """
    loaded = load_sweep(sweep)
    options = plan_options(loaded, given)
    below = read_yaml(Path(config)) if config else {}
    found = plan_of(loaded, replace(options, overrides={**below, **options.overrides}))
    code = ExitCode.OVER_BUDGET if found.over_budget else ExitCode.CANNOT_FIT
    return Answer(facts=found, words=words(found), code=ExitCode.DONE if found.fits else code)


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
    minutes = planned_minutes(trials, size, results=options.results)
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
        configurations=_configurations(known, minutes.trials),
        minutes=minutes.total,
        shared_minutes=minutes.shared,
        minutes_source=minutes.source,
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
            seeds = ("seed", "draw")  # by any name: trials that differ in them are repetitions
            point = {k: v for k, v in trial.point.items() if k.rpartition(".")[2] not in seeds}
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
    if any(trial.config.performance.device is Device.CUDA for trial in trials):
        import torch  # more than a second, which plans without a GPU do without

        if not torch.cuda.is_available():
            problems.append("performance.device is cuda, but this machine has no GPU")
    return problems


def words(plan: PlanResult) -> Words:
    """Return a plan for a person."""
    facts = (
        ("trials", str(plan.trials)),
        ("labels made wrong", _spoiled(plan)),
        ("epsilon of a trial", ", ".join(dict.fromkeys(f"{each:.4g}" for each in plan.epsilons))),
        ("releases", str(plan.releases)),
        ("epsilon of all together", f"{plan.epsilon_total:.4g} at delta {plan.delta:g}"),
        ("processor minutes", _minutes(plan)),
        ("GPU hours", f"{plan.gpu_hours:g}"),
        ("fits", "yes" if plan.fits else "NO"),
    )
    rows = plan.configurations
    last = [key for key in ("trials", "epsilon", "releases", "minutes") if rows and key in rows[0]]
    keys = [*dict.fromkeys(key for row in rows for key in row if key not in last), *last]
    cells = [(str(n), *(_cell(row.get(key)) for key in keys)) for n, row in enumerate(rows, 1)]
    bad = {} if plan.fits else {len(facts) - 1: "bold red"}
    return [
        *table(("#", *keys), cells, title="trials"),
        *table(("sweep", ""), facts, styles=bad),
        plan.minutes_source,
        *plan.notes,
        *(f"problem: {problem}" for problem in plan.problems),
    ]


def _spoiled(plan: PlanResult) -> str:
    return f"{plan.spoiled_labels:,} of {plan.labels:,}, for audits" if plan.labels else "-"


def _minutes(plan: PlanResult) -> str:
    if plan.minutes is None or plan.shared_minutes is None:
        return "-"
    return f"{plan.minutes:.1f}, of which {plan.shared_minutes:.1f} for what trials share"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)

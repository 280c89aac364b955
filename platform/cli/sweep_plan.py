"""`labeldp plan SWEEP.py`: a sweep's trials and cost; nothing is started or released."""

import importlib.util
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labeldp.mechanisms.ledger import BudgetExceeded, stated
from labeldp.platform.cli.command import ExitCode, Table
from labeldp.platform.cli.sweep_command import plan_options, results_of
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.data_size import size_of_data
from labeldp.platform.sweep.overrides import read_yaml
from labeldp.platform.sweep.plan import Plan, plan_sweep, prepare
from labeldp.platform.sweep.planned_minutes import planned_minutes
from labeldp.platform.sweep.search import Search
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
            keys that differ between rows (of a search its axes), how many trials it stands for, the
            epsilon and releases of each, and the processor minutes of each (null if unknown).
        minutes: Processor minutes of all trials, as this machine took before; None if unknown.
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
    minutes: float | None = None
    over_budget: bool = False
    notes: list[str] = field(default_factory=list)


def load_sweep(path: str) -> Sweep:
    """Return the `SWEEP` of a sweep file."""
    file = Path(path)
    try:
        read_bytes(file)
    except FileRefused as error:
        raise ConfigurationError(f"{error}, one of sweeps/*.py") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"{path} is not a sweep file ({why}); name one of sweeps/*.py"
        ) from error
    if file.suffix != ".py":
        raise ConfigurationError(
            f"{path} is not a sweep file: its name does not end in .py; name one of sweeps/*.py"
        )
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


def plan(*, sweep: str, config: str | None, **given: Any) -> PlanResult:
    """List a sweep's trials and their cost: `labeldp plan`.

    Args:
        sweep: The sweep file.
        config: YAML file of settings, below `key=value`.
        **given: Values of PLAN_OPTIONS.

    Raises:
        ConfigurationError: A key or value that can't be used.
    """
    loaded = load_sweep(sweep)
    results = results_of(loaded, **{key: given[key] for key in ("results", "preset", "smoke")})
    options = plan_options(loaded, given, results=results)
    below = read_yaml(Path(config)) if config else {}
    return plan_of(loaded, replace(options, overrides={**below, **options.overrides}))


def plan_of(sweep: Sweep, options: SweepOptions) -> PlanResult:
    """List a sweep's trials and their cost, as it would be run with these options."""
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
    minutes = planned_minutes(trials, results=options.results)
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
        configurations=_configurations(_costs(known, minutes), known.searches),
        minutes=None if None in minutes else math.fsum(filter(None, minutes)),
        over_budget=over_budget and len(problems) == 1,
        notes=list(known.notes),
    )


#: Cost of a trial: epsilon, releases, processor minutes.
_Cost = dict[str, Any]


def _costs(plan: Plan, minutes: Sequence[float | None]) -> list[tuple[PlannedTrial, _Cost]]:
    found = []
    for trial, epsilon, each in zip(plan.trials, plan.cost.epsilons, minutes, strict=True):
        requests = releases_of(trial, num_classes=plan.size.num_classes).values()
        releases = sum(part.releases for part in requests)
        if plan.size.held_out:
            releases += trial.estimates_each
        cost = {"epsilon": float(f"{epsilon:.12g}"), "releases": releases, "minutes": each}
        found.append((trial, cost))
    return found


def _configurations(
    costs: Sequence[tuple[PlannedTrial, _Cost]], searches: Sequence[Search]
) -> list[dict[str, Any]]:
    if not searches:
        rows: dict[str, dict[str, Any]] = {}
        hidden = _repetition_keys([trial for trial, _ in costs])
        for trial, cost in costs:
            own = hidden.get(trial.variant, frozenset())
            point = {key: value for key, value in trial.point.items() if key not in own}
            row = {"variant": trial.variant, **point, "trials": 0, **cost}
            first = rows.setdefault(repr((trial.variant, point, cost["epsilon"])), row)
            first["trials"] += 1
        return list(rows.values())
    found = []
    for search in searches:
        own_costs = [
            cost
            for trial, cost in costs
            if trial.variant == search.variant.name and search.point.items() <= trial.point.items()
        ]
        found.append(
            {
                "variant": search.variant.name,
                **search.point,
                **{key: repr(axis) for key, axis in search.axes.items()},
                "trials": search.size,
                **max(own_costs, key=lambda cost: cost["epsilon"], default={}),
            }
        )
    return found


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


def code(found: PlanResult) -> ExitCode:
    """Return the exit code of a plan."""
    if found.over_budget:
        return ExitCode.OVER_BUDGET
    return ExitCode.DONE if found.fits else ExitCode.CANNOT_FIT


def words(plan: PlanResult) -> list[Table | str]:
    """Return a plan for a person."""
    facts = (
        ("trials", str(plan.trials)),
        ("epsilon of a trial", ", ".join(f"{epsilon:.4g}" for epsilon in plan.epsilons)),
        ("releases", str(plan.releases)),
        ("epsilon of all together", f"{plan.epsilon_total:.4g} at delta {plan.delta:g}"),
        ("processor minutes", _cell(plan.minutes, "minutes")),
        ("GPU hours", f"{plan.gpu_hours:g}"),
        ("fits", "yes" if plan.fits else "NO"),
    )
    rows = plan.configurations
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if all(row.get("trainer.epsilon", row.get("epsilon")) == row.get("epsilon") for row in rows):
        keys = [key for key in keys if key != "trainer.epsilon"]  # the same number twice
    last = [key for key in ("trials", "epsilon", "releases", "minutes") if key in keys]
    keys = [*(key for key in keys if key not in last), *last]
    cells = [
        (str(number), *(_cell(row.get(key), key) for key in keys))
        for number, row in enumerate(rows, start=1)
    ]
    return [
        Table(title="trials", columns=("#", *keys), rows=cells),
        Table(
            columns=("sweep", ""),
            rows=facts,
            styles={} if plan.fits else {len(facts) - 1: "bold red"},
        ),
        *plan.notes,
        *(f"problem: {problem}" for problem in plan.problems),
    ]


def _cell(value: object, key: str) -> str:
    if value is None:
        return "-"
    if key == "minutes" and isinstance(value, float):
        return f"{value:.1f}" if value >= 0.05 else "< 0.1"
    return f"{value:.3g}" if isinstance(value, float) else str(value)

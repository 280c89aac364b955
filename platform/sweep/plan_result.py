"""A sweep's plan as a result: its trials, what each costs, and what stands in the way."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.mechanisms.ledger import BudgetExceeded, stated
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.plan import Plan, plan_sweep, prepare, size_of_data
from labeldp.platform.sweep.space import without_seeds
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, SweepOptions, ensembles_of
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
            epsilon and releases of each.
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
        configurations=_configurations(known),
        over_budget=over_budget and len(problems) == 1,
        notes=list(known.notes),
    )


def _configurations(plan: Plan) -> list[dict[str, Any]]:
    costs: list[tuple[PlannedTrial, dict[str, Any]]] = []
    for trial, epsilon in zip(plan.trials, plan.cost.epsilons, strict=True):
        requests = releases_of(trial, num_classes=plan.size.num_classes).values()
        counts = trial.estimates_each if plan.size.held_out else 0
        releases = sum(part.releases for part in requests) + counts
        cost = {"epsilon": float(f"{epsilon:.12g}"), "releases": releases}
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

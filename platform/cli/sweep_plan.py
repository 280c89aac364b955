"""`labeldp plan SWEEP.py`: a sweep's trials and cost; nothing is started or released."""

from typing import Any

from labeldp.platform.cli.command import Answer, ExitCode, Words, table
from labeldp.platform.cli.sweep_command import plan_options
from labeldp.platform.sweep.overrides import load_sweep
from labeldp.platform.sweep.plan_result import PlanResult, plan_of


def plan(*, sweep: str, **given: Any) -> Answer:
    """List the trials of a sweep file and their cost; `given` are values of PLAN_OPTIONS."""
    loaded = load_sweep(sweep)
    found = plan_of(loaded, plan_options(loaded, given))
    code = ExitCode.OVER_BUDGET if found.over_budget else ExitCode.CANNOT_FIT
    return Answer(facts=found, words=words(found), code=ExitCode.DONE if found.fits else code)


def words(plan: PlanResult) -> Words:
    """Return a plan for a person."""
    spoiled = f"{plan.spoiled_labels:,} of {plan.labels:,}"
    facts = (
        ("trials", str(plan.trials)),
        ("labels made wrong", f"{spoiled}, for audits" if plan.labels else "-"),
        ("epsilon of a trial", ", ".join(dict.fromkeys(f"{each:.4g}" for each in plan.epsilons))),
        ("releases", str(plan.releases)),
        ("epsilon of all together", f"{plan.epsilon_total:.4g} at delta {plan.delta:g}"),
        ("GPU hours", f"{plan.gpu_hours:g}"),
        ("fits", "yes" if plan.fits else "NO"),
    )
    rows = plan.configurations
    last = [key for key in ("trials", "epsilon", "releases") if rows and key in rows[0]]
    keys = [*dict.fromkeys(key for row in rows for key in row if key not in last), *last]
    cells = [(str(n), *(_cell(row.get(key)) for key in keys)) for n, row in enumerate(rows, 1)]
    bad = {} if plan.fits else {len(facts) - 1: "bold red"}
    return [
        *table(("#", *keys), cells, title="trials"),
        *table(("sweep", ""), facts, styles=bad),
        *plan.notes,
        *(f"problem: {problem}" for problem in plan.problems),
    ]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)

"""`labeldp plan SWEEP.py`: what a sweep would run and cost; nothing is started or released."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.exit_codes import ExitCode
from labeldp.platform.cli.sweep_arguments import add_plan_arguments, plan_options
from labeldp.platform.cli.sweep_command import results_of, sweep_file
from labeldp.platform.cli.verb import Verb

if TYPE_CHECKING:
    from labeldp.platform.cli.sweep_plan import PlanResult
    from labeldp.platform.cli.tables import Table


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sweep", metavar="SWEEP.py")
    add_plan_arguments(parser)
    parser.add_argument("--config", metavar="FILE.yaml", help="settings, below key=value")


def _plan(options: argparse.Namespace) -> Any:
    sweep_file(options.sweep)  # the next line takes ten seconds
    from labeldp.platform.cli.sweep_plan import load_sweep, plan_of
    from labeldp.platform.sweep.overrides import read_yaml

    sweep = load_sweep(options.sweep)
    results = results_of(sweep, named=options.results, preset=options.preset, smoke=options.smoke)
    asked = plan_options(sweep, options, results=results)
    below = read_yaml(Path(options.config)) if options.config else {}
    return plan_of(sweep, replace(asked, overrides={**below, **asked.overrides}))


def _code(found: Any) -> ExitCode:
    if found.over_budget:
        return ExitCode.OVER_BUDGET
    return ExitCode.DONE if found.fits else ExitCode.CANNOT_FIT


def _told(plan: "PlanResult") -> "list[Table | str]":
    from labeldp.platform.cli.tables import Mood, Table

    epsilons = ", ".join(f"{epsilon:.4g}" for epsilon in plan.epsilons)
    facts = (
        ("trials", str(plan.trials)),
        ("epsilon of a trial", epsilons),
        ("releases", str(plan.releases)),
        ("epsilon of all together", f"{plan.epsilon_total:.4g} at delta {plan.delta:g}"),
        ("processor minutes", _minutes(plan)),
        ("GPU hours", f"{plan.gpu_hours:g}"),
        ("fits", "yes" if plan.fits else "NO"),
    )
    rows = plan.configurations
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if all(row.get("trainer.epsilon", row.get("epsilon")) == row.get("epsilon") for row in rows):
        keys = [key for key in keys if key != "trainer.epsilon"]  # the same number twice
    keys = [*(key for key in keys if key not in _COSTS), *(key for key in _COSTS if key in keys)]
    trials = Table(
        title="trials",
        columns=("#", *keys),
        rows=tuple(
            (str(number), *(_cell(row.get(key), key) for key in keys))
            for number, row in enumerate(rows, start=1)
        ),
    )
    moods = {} if plan.fits else {len(facts) - 1: Mood.BAD}
    summary = Table(columns=("sweep", ""), rows=facts, moods=moods)
    said = [plan.minutes_source] if plan.minutes_source else []
    return [
        trials,
        summary,
        *said,
        *plan.notes,
        *(f"problem: {problem}" for problem in plan.problems),
    ]


def _minutes(plan: "PlanResult") -> str:
    if plan.minutes is None or plan.shared_minutes is None:
        return "-"
    return f"{plan.minutes:.1f}, of which {plan.shared_minutes:.1f} for what trials share"


#: Columns of a row's costs, after its settings.
_COSTS = ("trials", "epsilon", "releases", "minutes")


def _cell(value: object, key: str) -> str:
    if value is None:
        return "-"
    if key == "minutes" and isinstance(value, float):
        return f"{value:.1f}" if value >= 0.05 else "< 0.1"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


VERBS = (
    Verb(
        name="plan",
        summary="a sweep's trials and cost; starts nothing",
        example="labeldp plan sweeps/quickstart.py trainer.epochs=5",
        arguments=_arguments,
        run=_plan,
        tables=_told,
        code=_code,
    ),
)

"""`labeldp plan SWEEP.py`: what a sweep would run and cost; nothing is started or released."""

import argparse
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.sweep_command import sweep_file
from labeldp.platform.cli.verb import Verb

if TYPE_CHECKING:
    from labeldp.platform.cli.sweep_plan import PlanResult
    from labeldp.platform.cli.tables import Table


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sweep", metavar="SWEEP.py")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--smoke", action="store_true", help="the sweep's small size")
    parser.add_argument("--config", metavar="FILE.yaml", help="settings, below key=value")


def _plan(options: argparse.Namespace) -> Any:
    sweep_file(options.sweep)  # the next line takes ten seconds
    from labeldp.platform.cli.sweep_plan import plan

    return plan(
        options.sweep, overrides=options.overrides, smoke=options.smoke, config=options.config
    )


def _told(plan: "PlanResult") -> "list[Table | str]":
    from labeldp.platform.cli.tables import Mood, Table

    epsilons = ", ".join(f"{epsilon:.4g}" for epsilon in plan.epsilons)
    facts = (
        ("trials", str(plan.trials)),
        ("epsilon of a trial", epsilons),
        ("releases", str(plan.releases)),
        ("epsilon of all together", f"{plan.epsilon_total:.4g} at delta {plan.delta:g}"),
        ("GPU hours", f"{plan.gpu_hours:g}"),
        ("fits", "yes" if plan.fits else "NO"),
    )
    keys = list(dict.fromkeys(key for trial in plan.configurations for key in trial))
    trials = Table(
        title="trials",
        columns=("#", *(key.removeprefix("trainer.") for key in keys)),
        rows=tuple(
            (str(number), *(_cell(trial.get(key)) for key in keys))
            for number, trial in enumerate(plan.configurations, start=1)
        ),
    )
    moods = {} if plan.fits else {len(facts) - 1: Mood.BAD}
    summary = Table(columns=("sweep", ""), rows=facts, moods=moods)
    return [trials, summary, *(f"problem: {problem}" for problem in plan.problems)]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


VERBS = (
    Verb(
        name="plan",
        summary="a sweep's trials and cost; starts nothing",
        arguments=_arguments,
        run=_plan,
        tables=_told,
    ),
)

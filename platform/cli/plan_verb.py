"""`labeldp plan SWEEP.py`: what a sweep would run and cost; nothing is started or released."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from labeldp.platform.cli.exit_codes import ExitCode
from labeldp.platform.cli.sweep_arguments import add_plan_arguments, plan_options
from labeldp.platform.cli.sweep_command import sweep_file
from labeldp.platform.cli.verb import Verb


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sweep", metavar="SWEEP.py")
    add_plan_arguments(parser)
    parser.add_argument("--config", metavar="FILE.yaml", help="settings, below key=value")


def _plan(options: argparse.Namespace) -> Any:
    sweep_file(options.sweep)  # the next line takes ten seconds
    from labeldp.platform.cli.sweep_plan import load_sweep, plan_of
    from labeldp.platform.overrides import read_yaml

    sweep = load_sweep(options.sweep)
    asked = plan_options(sweep, options, results=Path())
    below = read_yaml(Path(options.config)) if options.config else {}
    return plan_of(sweep, replace(asked, overrides={**below, **asked.overrides}))


def _code(found: Any) -> ExitCode:
    if found.over_budget:
        return ExitCode.OVER_BUDGET
    return ExitCode.DONE if found.fits else ExitCode.CANNOT_FIT


VERBS = (
    Verb(
        name="plan",
        summary="a sweep's trials and cost; starts nothing",
        arguments=_arguments,
        run=_plan,
        code=_code,
    ),
)

"""`labeldp plan SWEEP.py`: what a sweep would run and cost; nothing is started or released."""

import argparse
from typing import Any

from labeldp.platform.cli.sweep_command import sweep_file
from labeldp.platform.cli.verb import Verb


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


VERBS = (
    Verb(
        name="plan",
        summary="a sweep's trials and cost; starts nothing",
        arguments=_arguments,
        run=_plan,
    ),
)

"""`labeldp report EXPERIMENT`: the report of a sweep that is in the tracking store."""

import argparse
from typing import Any

from labeldp.platform.cli.verb import Verb


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT")
    parser.add_argument("--tracking-uri", metavar="U", help="tracking store (default: the sweep's)")
    parser.add_argument("--out", metavar="DIR", default=".", help="where to write")


def _report(options: argparse.Namespace) -> Any:
    from labeldp.platform.cli.tracked_report import report

    return report(options.experiment, tracking_uri=options.tracking_uri, out=options.out)


VERBS = (
    Verb(
        name="report",
        summary="HTML, Pareto plot and CSV of a tracked sweep",
        arguments=_arguments,
        run=_report,
    ),
)

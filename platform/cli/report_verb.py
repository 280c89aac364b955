"""`labeldp report WHAT`: the report of a results folder, or of a sweep in the tracking store."""

import argparse
from typing import Any

from labeldp.platform.cli.verb import Verb


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment",
        metavar="FOLDER|EXPERIMENT",
        help="results folder, or name of a tracked experiment",
    )
    parser.add_argument(
        "--tracking-uri",
        metavar="U",
        help="tracking store of the experiment (default: the sweep's)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="where to write (default: the results folder; of an experiment, this folder)",
    )


def _report(options: argparse.Namespace) -> Any:
    from labeldp.platform.cli.folder_report import is_results, report_folder

    if options.tracking_uri is None and is_results(options.experiment):
        return report_folder(options.experiment, out=options.out)
    from labeldp.platform.cli.tracked_report import report

    uri, out = options.tracking_uri, options.out or "."
    return report(options.experiment, tracking_uri=uri, out=out)


VERBS = (
    Verb(
        name="report",
        summary="HTML page, Pareto plot and CSV of a results folder or a tracked sweep",
        arguments=_arguments,
        run=_report,
    ),
)

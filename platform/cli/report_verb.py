"""`labeldp report EXPERIMENT`: the report of a sweep that is in the tracking store."""

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.verb import Verb
from labeldp.trainers.regular_files import open_regular

if TYPE_CHECKING:
    from labeldp.platform.cli.tables import Table
    from labeldp.platform.cli.tracked_report import ReportFiles


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT")
    parser.add_argument("--tracking-uri", metavar="U", help="tracking store (default: the sweep's)")
    parser.add_argument("--out", metavar="DIR", default=".", help="where to write")


def _report(options: argparse.Namespace) -> Any:
    from labeldp.platform.cli.tracked_report import report

    return report(options.experiment, tracking_uri=options.tracking_uri, out=options.out)


def _told(files: "ReportFiles") -> "list[Table | str]":
    from labeldp.platform.cli.tables import Table

    page = Path(files.html)
    with open_regular(page.with_name("pareto.csv")) as file:
        lines = list(csv.reader(file.read().decode().splitlines()))
    said = [f"{files.rows} rows in the page {page}", f"figure: {files.pareto_png}"]
    if not lines:
        return [*said]
    columns, rows = tuple(lines[0]), tuple(tuple(map(_cell, line)) for line in lines[1:])
    return [Table(title="accuracy against epsilon", columns=columns, rows=rows), *said]


def _cell(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text


VERBS = (
    Verb(
        name="report",
        summary="HTML, Pareto plot and CSV of a tracked sweep",
        arguments=_arguments,
        run=_report,
        tables=_told,
    ),
)

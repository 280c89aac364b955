"""`labeldp report WHAT`: the report of a results folder, or of a sweep in the tracking store."""

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.verb import Verb
from labeldp.trainers.data.regular_files import open_regular

if TYPE_CHECKING:
    from labeldp.platform.cli.folder_report import ReportFiles
    from labeldp.platform.cli.tables import Table
    from labeldp.platform.report.publish import PublicReport


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

    parser.add_argument(
        "--edition",
        choices=("owner", "public"),
        default="owner",
        help="for whom: the owner of the labels (default), or the public, in a folder of its own",
    )


def is_results(named: str) -> bool:
    """Whether what somebody named is a folder of results, and not an experiment's name.

    Raises:
        ValueError: It is a path where there is no folder.
    """
    folder = Path(named).expanduser()
    if any((folder / name).exists() for name in ("sweep.json", "trials", "vault.db")):
        return True
    if "/" not in named and named not in (".", "..", "~"):
        return False
    # Told before anything is imported that takes its time.
    if not folder.is_dir():
        raise ValueError(f"there is no folder {named}; name the results of a sweep")
    return True


def _report(options: argparse.Namespace) -> Any:
    if options.edition == "public":
        return _public(options)
    if options.tracking_uri is None and is_results(options.experiment):
        from labeldp.platform.cli.folder_report import report_folder

        return report_folder(options.experiment, out=options.out)
    from labeldp.platform.cli.tracked_report import report

    uri, out = options.tracking_uri, options.out or "."
    return report(options.experiment, tracking_uri=uri, out=out)


def _public(options: argparse.Namespace) -> Any:
    if options.out is None or options.tracking_uri is not None:
        raise ValueError(
            "the public edition is made of a results folder and has a folder of its own, so that "
            "nothing else goes out with it: labeldp report RESULTS --edition public --out DIR"
        )
    from labeldp.platform.report.publish import public_report

    return public_report(Path(options.experiment), to=Path(options.out))


def _told(written: "ReportFiles | PublicReport") -> "list[Table | str]":
    from labeldp.platform.cli.folder_report import ReportFiles
    from labeldp.platform.cli.tables import Table

    if not isinstance(written, ReportFiles):
        return [
            f"{written.trials} trials in the public page {written.html}; {written.left_out} left "
            f"out; epsilon {written.epsilon:.6g} at delta {written.delta:g}"
        ]
    files = written
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
        summary="HTML page, Pareto plot and CSV of a results folder or a tracked sweep",
        example="labeldp report results/quickstart",
        arguments=_arguments,
        run=_report,
        tables=_told,
    ),
)

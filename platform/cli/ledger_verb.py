"""`labeldp ledger FOLDER...`: what was released of labels, when, for whom, and what it costs."""

import argparse
from pathlib import Path
from typing import Any

from labeldp.platform.cli.verb import Verb


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="results of a sweep")
    parser.add_argument("--csv", metavar="FILE", help="write every line to this table")
    parser.add_argument(
        "--delta", type=float, metavar="D", help="at which epsilon is stated (default: the trials')"
    )


def _ledger(options: argparse.Namespace) -> Any:
    for folder in options.folders:  # the next lines take a second
        if not Path(folder).is_dir():
            raise ValueError(f"there is no folder {folder}; name the results of a sweep")
    from labeldp.platform.report.ledger_words import ledger_report

    return ledger_report(options.folders, csv=options.csv, delta=options.delta)


def _text(report: Any) -> str:
    return "\n".join(report["words"])


VERBS = (
    Verb(
        name="ledger",
        summary="what was released of labels, when and at what price, over several folders",
        example="labeldp ledger results/quickstart --csv ledger.csv",
        arguments=_arguments,
        run=_ledger,
        text=_text,
    ),
)

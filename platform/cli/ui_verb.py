"""`labeldp ui RESULTS`: MLflow's pages on a results folder, on a free port, until Ctrl-C."""

import argparse
from typing import Any

from labeldp.platform.cli.verb import Verb


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", metavar="RESULTS", help="a results folder")
    parser.add_argument("--port", type=int, metavar="P", help="default: 5000, or one that is free")


def _ui(options: argparse.Namespace) -> Any:
    from labeldp.platform.cli.tracking_server import serve

    return serve(options.results, port=options.port)


VERBS = (
    Verb(
        name="ui",
        summary="tracking pages of a results folder, on this machine, until Ctrl-C",
        example="labeldp ui results/quickstart",
        arguments=_arguments,
        run=_ui,
    ),
)

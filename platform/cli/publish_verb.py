"""`labeldp publish RESULTS --trial T --to FOLDER`: what may leave the house, and nothing else."""

import argparse
from pathlib import Path
from typing import Any

from labeldp.platform.cli.verb import Verb


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", metavar="RESULTS", help="results folder of a sweep")
    parser.add_argument(
        "--trial",
        required=True,
        metavar="T",
        help="the beginning of a trial's hash, or best: the most accurate private one",
    )
    parser.add_argument("--to", required=True, metavar="FOLDER", help="folder to write")
    parser.add_argument(
        "--at-epsilon", type=float, metavar="E", help="the most that the best trial may cost"
    )
    parser.add_argument(
        "--choose-by", choices=("test", "estimated"), help="accuracy that decides on the best"
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        choices=("failed", "non-private", "seeded"),
        help="say a second time that such a trial is meant",
    )
    parser.add_argument("--without-model", action="store_true", help="leave the model out")


def _publish(options: argparse.Namespace) -> Any:
    if not Path(options.results).is_dir():  # the next lines take seconds
        raise ValueError(f"there is no folder {options.results}; name the results of a sweep")
    from labeldp.platform.report.publish import publish
    from labeldp.platform.report.selection import Reservation
    from labeldp.platform.sweep.accuracy_figures import ChooseBy

    return publish(
        Path(options.results),
        trial=options.trial,
        to=Path(options.to),
        at_epsilon=options.at_epsilon,
        choose_by=ChooseBy(options.choose_by) if options.choose_by else None,
        accepted=frozenset(Reservation(each) for each in options.accept),
        with_model=not options.without_model,
    )


def _text(published: Any) -> str:
    lines = [
        f"{published.folder} may leave the house: {', '.join(published.files)}",
        f"trial {published.trial} is called {published.name} there; epsilon "
        f"{published.epsilon:.4g} at delta {published.delta:g}",
    ]
    if published.chosen_among > 1 or published.epsilon_with_choice > published.epsilon:
        lines.append(
            f"with the choice among {published.chosen_among} trials (failed ones count): epsilon "
            f"{published.epsilon_with_choice:.4g} at delta {published.delta_with_choice:g}"
        )
    if published.doubt:
        lines.append(f"chosen by estimates, and {published.doubt}")
    return "\n".join([*lines, f"left out: {', '.join(published.left_out)}"])


VERBS = (
    Verb(
        name="publish",
        summary="write a folder of what may leave the house: a model, its card and its ledger",
        example="labeldp publish results/quickstart --trial best --at-epsilon 1 --to public",
        arguments=_arguments,
        run=_publish,
        text=_text,
    ),
)

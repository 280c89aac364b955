"""`labeldp epsilon pate` and `labeldp calibrate pate`: the answers of a teacher ensemble."""

import argparse
from typing import Any

from labeldp.platform.cli.privacy_verbs import CALIBRATE, EPSILON, numbers
from labeldp.platform.cli.verb import Verb


def _epsilon(options: argparse.Namespace) -> dict[str, Any]:
    from labeldp.platform.cli.pate_prices import epsilon

    return epsilon(options)


def _calibrate(options: argparse.Namespace) -> dict[str, Any]:
    from labeldp.platform.cli.pate_prices import calibrate

    return calibrate(options)


def _epsilon_arguments(parser: argparse.ArgumentParser) -> None:
    _votes(parser)
    parser.add_argument("--aggregator", choices=("confident", "gnmax", "lnmax"), required=True)
    numbers(parser, "--sigma1", "--threshold", required=False)
    text = (
        "of the noise on every count of an answer: its standard deviation; of lnmax the Laplace "
        "scale, which is a sweep's trainer.sigma2 divided by sqrt 2"
    )
    parser.add_argument("--sigma2", type=float, required=True, metavar="X", help=text)
    numbers(parser, "--delta")
    parser.add_argument("--conversion", choices=("improved", "mironov"), default="improved")
    _accounting(parser)
    parser.add_argument("--answer", type=int, metavar="K", help="stop after so many answers")
    parser.add_argument("--seed", type=int, metavar="N", help="of the realised answers")


def _calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    _votes(parser)
    numbers(parser, "--epsilon", "--delta")
    _accounting(parser)
    parser.add_argument("--answer", type=int, required=True, metavar="K")


def _votes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--votes", required=True, metavar="FILE[:key]", help="[N, K] counts")


def _accounting(parser: argparse.ArgumentParser) -> None:
    text = "price what leaves (decision) or, as published, all noisy counts (counts)"
    parser.add_argument(
        "--accounting", choices=("decision", "counts"), default="decision", help=text
    )


VERBS = (
    Verb(
        group=EPSILON,
        name="pate",
        summary="answers of a teacher ensemble",
        example="labeldp epsilon pate --votes VOTES.npy --aggregator confident "
        "--sigma1 200 --sigma2 40 --threshold 300 --delta 1e-5",
        arguments=_epsilon_arguments,
        run=_epsilon,
    ),
    Verb(
        group=CALIBRATE,
        name="pate",
        summary="aggregator noise for an epsilon",
        example="labeldp calibrate pate --votes VOTES.npy --epsilon 1 --delta 1e-5 --answer 300",
        arguments=_calibrate_arguments,
        run=_calibrate,
    ),
)

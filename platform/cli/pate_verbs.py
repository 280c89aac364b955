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
    _queries(parser)
    parser.add_argument("--conversion", choices=("improved", "mironov"), default="improved")
    _accounting(parser)
    text = "stop after so many answers; needed without --votes"
    parser.add_argument("--answer", type=int, metavar="K", help=text)
    parser.add_argument("--seed", type=int, metavar="N", help="of the realised answers")


def _calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    _votes(parser)
    numbers(parser, "--epsilon", "--delta")
    text = "confident if not given; --votes are for confident alone"
    parser.add_argument("--aggregator", choices=("confident", "gnmax", "lnmax"), help=text)
    _queries(parser)
    text = "T, of which the threshold is a share where there are no votes to choose it from"
    parser.add_argument("--teachers", type=int, metavar="T", help=text)
    _accounting(parser)
    parser.add_argument("--answer", type=int, required=True, metavar="K")


def _votes(parser: argparse.ArgumentParser) -> None:
    text = "[N, K] counts; leave it out for the price of any votes"
    parser.add_argument("--votes", metavar="FILE[:key]", help=text)


def _queries(parser: argparse.ArgumentParser) -> None:
    text = "how many are asked, without --votes; as many as answers if not given"
    parser.add_argument("--queries", type=int, metavar="Q", help=text)


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
        example="labeldp epsilon pate --aggregator confident --sigma1 200 --sigma2 40 "
        "--queries 1000 --answer 300 --delta 1e-5",
        arguments=_epsilon_arguments,
        run=_epsilon,
    ),
    Verb(
        group=CALIBRATE,
        name="pate",
        summary="aggregator noise for an epsilon",
        example="labeldp calibrate pate --epsilon 1 --delta 1e-5 --answer 300 --queries 1000",
        arguments=_calibrate_arguments,
        run=_calibrate,
    ),
)

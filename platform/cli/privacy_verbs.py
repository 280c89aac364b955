"""`labeldp epsilon ...` and `labeldp calibrate ...`: from settings to their cost, and back."""

import argparse
from typing import TYPE_CHECKING

from labeldp.platform.cli.verb import Group, Verb

if TYPE_CHECKING:
    from labeldp.mechanisms.calibration import GaussianSetting, LaplaceSetting
    from labeldp.mechanisms.calibration import RandomizedResponseSetting as RRSetting
    from labeldp.mechanisms.selection import SelectionPrice

EPSILON = Group(name="epsilon", summary="what a setting costs")
CALIBRATE = Group(name="calibrate", summary="the noise for a target epsilon")


def epsilon_laplace(options: argparse.Namespace) -> "LaplaceSetting":
    """Price of Laplace noise on one-hot labels."""
    from labeldp.mechanisms import calibration

    return calibration.price_laplace(scale=options.scale, noise_std=options.noise_std)


def epsilon_gaussian(options: argparse.Namespace) -> "GaussianSetting":
    """Price of Gaussian noise on one-hot labels."""
    from labeldp.mechanisms import calibration

    return calibration.price_gaussian(noise_std=options.noise_std, delta=options.delta)


def epsilon_rr(options: argparse.Namespace) -> "RRSetting":
    """Price of randomized response."""
    from labeldp.mechanisms import calibration

    return calibration.price_randomized_response(
        keep_probability=options.keep_probability, num_classes=options.classes
    )


def epsilon_select(options: argparse.Namespace) -> "SelectionPrice":
    """Price of the best of a random number of trials."""
    from labeldp.mechanisms import selection

    return selection.selection_price(
        epsilon=options.epsilon,
        mean_trials=options.mean_trials,
        distribution=options.distribution,
        delta=options.delta or 0.0,
        trial_delta=options.trial_delta or 0.0,
    )


def calibrate_laplace(options: argparse.Namespace) -> "LaplaceSetting":
    """Laplace noise for an epsilon."""
    from labeldp.mechanisms import calibration

    return calibration.calibrate_laplace(epsilon=options.epsilon)


def calibrate_gaussian(options: argparse.Namespace) -> "GaussianSetting":
    """Gaussian noise for an epsilon at a delta."""
    from labeldp.mechanisms import calibration

    return calibration.calibrate_gaussian(epsilon=options.epsilon, delta=options.delta)


def calibrate_rr(options: argparse.Namespace) -> "RRSetting":
    """Randomized response for an epsilon."""
    from labeldp.mechanisms import calibration

    return calibration.calibrate_randomized_response(
        epsilon=options.epsilon, num_classes=options.classes
    )


def numbers(parser: argparse.ArgumentParser, *names: str, required: bool = True) -> None:
    """Add options that each take a number."""
    for name in names:
        parser.add_argument(name, type=float, required=required, metavar="X")


def _laplace_noise(parser: argparse.ArgumentParser) -> None:
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--scale", type=float, metavar="B")
    one.add_argument("--noise-std", type=float, metavar="S", help="B * sqrt 2")


def _kept_labels(parser: argparse.ArgumentParser) -> None:
    numbers(parser, "--keep-probability")
    parser.add_argument("--classes", type=int, required=True, metavar="K")


def _selection(parser: argparse.ArgumentParser) -> None:
    numbers(parser, "--epsilon", "--mean-trials")
    numbers(parser, "--delta", "--trial-delta", required=False)
    parser.add_argument(
        "--distribution", choices=("geometric", "logarithmic", "poisson"), required=True
    )


def _target(parser: argparse.ArgumentParser) -> None:
    numbers(parser, "--epsilon")
    _delta_of_no_use(parser)


def _target_of_classes(parser: argparse.ArgumentParser) -> None:
    numbers(parser, "--epsilon")
    parser.add_argument("--classes", type=int, default=10, metavar="K")
    _delta_of_no_use(parser)


def _delta_of_no_use(parser: argparse.ArgumentParser) -> None:
    """Every `calibrate` takes the same target; scripts give it whole."""
    text = "changes nothing: this noise is pure, and its epsilon holds at delta 0 already"
    parser.add_argument("--delta", type=float, metavar="X", help=text)


VERBS = (
    Verb(
        group=EPSILON,
        name="laplace",
        summary="Laplace noise on one-hot labels",
        example="labeldp epsilon laplace --scale 1",
        arguments=_laplace_noise,
        run=epsilon_laplace,
    ),
    Verb(
        group=EPSILON,
        name="gaussian",
        summary="Gaussian noise on one-hot labels",
        example="labeldp epsilon gaussian --noise-std 5.3 --delta 1e-5",
        arguments=lambda parser: numbers(parser, "--noise-std", "--delta"),
        run=epsilon_gaussian,
    ),
    Verb(
        group=EPSILON,
        name="rr",
        summary="randomized response",
        example="labeldp epsilon rr --keep-probability .7 --classes 10",
        arguments=_kept_labels,
        run=epsilon_rr,
    ),
    Verb(
        group=EPSILON,
        name="select",
        summary="picking the best of a random number of trials",
        example="labeldp epsilon select --epsilon 1 --mean-trials 10 --distribution geometric",
        arguments=_selection,
        run=epsilon_select,
    ),
    Verb(
        group=CALIBRATE,
        name="laplace",
        summary="laplace noise for an epsilon",
        example="labeldp calibrate laplace --epsilon 2",
        arguments=_target,
        run=calibrate_laplace,
    ),
    Verb(
        group=CALIBRATE,
        name="gaussian",
        summary="gaussian noise for an epsilon",
        example="labeldp calibrate gaussian --epsilon 1 --delta 1e-5",
        arguments=lambda parser: numbers(parser, "--epsilon", "--delta"),
        run=calibrate_gaussian,
    ),
    Verb(
        group=CALIBRATE,
        name="rr",
        summary="rr noise for an epsilon",
        example="labeldp calibrate rr --epsilon 2 --classes 10",
        arguments=_target_of_classes,
        run=calibrate_rr,
    ),
)

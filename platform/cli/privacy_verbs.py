"""`labeldp epsilon ...` and `labeldp calibrate ...`: from settings to their cost, and back."""

import argparse
from typing import Any

from labeldp.mechanisms import calibration, selection
from labeldp.mechanisms.calibration import GaussianSetting, LaplaceSetting
from labeldp.mechanisms.calibration import RandomizedResponseSetting as RRSetting
from labeldp.mechanisms.selection import SelectionPrice


def epsilon_laplace(options: argparse.Namespace) -> LaplaceSetting:
    """Price of Laplace noise on one-hot labels."""
    return calibration.price_laplace(scale=options.scale, noise_std=options.noise_std)


def epsilon_gaussian(options: argparse.Namespace) -> GaussianSetting:
    """Price of Gaussian noise on one-hot labels."""
    return calibration.price_gaussian(noise_std=options.noise_std, delta=options.delta)


def epsilon_rr(options: argparse.Namespace) -> RRSetting:
    """Price of randomized response."""
    return calibration.price_randomized_response(
        keep_probability=options.keep_probability, num_classes=options.classes
    )


def epsilon_select(options: argparse.Namespace) -> SelectionPrice:
    """Price of the best of a random number of trials."""
    return selection.selection_price(
        epsilon=options.epsilon,
        mean_trials=options.mean_trials,
        distribution=options.distribution,
        delta=options.delta or 0.0,
        trial_delta=options.trial_delta or 0.0,
    )


def calibrate_laplace(options: argparse.Namespace) -> LaplaceSetting:
    """Laplace noise for an epsilon."""
    return calibration.calibrate_laplace(epsilon=options.epsilon)


def calibrate_gaussian(options: argparse.Namespace) -> GaussianSetting:
    """Gaussian noise for an epsilon at a delta."""
    return calibration.calibrate_gaussian(epsilon=options.epsilon, delta=options.delta)


def calibrate_rr(options: argparse.Namespace) -> RRSetting:
    """Randomized response for an epsilon."""
    return calibration.calibrate_randomized_response(
        epsilon=options.epsilon, num_classes=options.classes
    )


def epsilon_pate(options: argparse.Namespace) -> dict[str, Any]:
    """Price of an ensemble's answers: expected, realised, data-independent, sanitized."""
    from labeldp.platform.cli.pate_verbs import epsilon

    return epsilon(options)


def calibrate_pate(options: argparse.Namespace) -> dict[str, Any]:
    """Noise of an ensemble's answers for an epsilon."""
    from labeldp.platform.cli.pate_verbs import calibrate

    return calibrate(options)

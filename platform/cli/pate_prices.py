"""PATE's answers, priced or aimed at: what `labeldp epsilon pate` and `calibrate pate` do.

With a file of votes they say what these votes cost; without one what any votes cost.
"""

import argparse
import dataclasses
from typing import Any

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import Conversion
from labeldp.mechanisms.ledger import epsilon_of_prices
from labeldp.mechanisms.pate.aggregators import Answers, ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.calibration import (
    PatePrice,
    calibrate_confident_gnmax,
    price_for_any_votes,
    price_of_answers,
)
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.published_cost import ConditionsFailed
from labeldp.mechanisms.pate.releases import (
    PateAnswers,
    PublishedCost,
    epsilon_of_counts,
    released_of,
)
from labeldp.mechanisms.pate.votes import checked_votes
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.platform.cli.array_files import read_array
from labeldp.trainers.settings.pate import AggregatorKind, EnsembleConfig, PateConfig


def epsilon(options: argparse.Namespace) -> dict[str, Any]:
    """Price the answers to a file of votes: expected, realised, data-independent, sanitized.

    All but the expected price depend on which queries are answered. That is drawn here, and so is
    the noise of the sanitized price: they say what such answers may cost, and are marked simulated.

    Without votes it is the price for any votes alone, which a ledger charges.

    Raises:
        ValueError: Votes or settings that can't be used.
    """
    if options.votes is None:
        return _epsilon_of_any_votes(options)
    _refuse("--queries", options.queries)
    votes = checked_votes(read_array(options.votes, what="--votes"), name="--votes")
    aggregator = _aggregator(options)
    accounting = Accounting(options.accounting)
    generator = OsEntropy().generator("") if options.seed is None else _seeded(options.seed)
    answers = aggregator.respond(votes, generator=generator, max_answers=options.answer)
    other = next(each for each in Accounting if each is not accounting)
    price, beside = (
        price_of_answers(
            aggregator,
            votes,
            answers,
            delta=options.delta,
            max_answers=options.answer,
            conversion=Conversion(options.conversion),
            accounting=each,
        )
        for each in (accounting, other)
    )
    seed = options.seed
    noise = "fresh noise" if seed is None else f"noise of --seed {seed}, which its knower can undo"
    return {
        "accounting": accounting.value,
        **_prices(price),
        **(_note(price, beside) if accounting is Accounting.DECISION else {}),
        f"by_{other.value}": _prices(beside),
        **_sanitized(aggregator, votes, answers, options, generator),
        "note": (
            f"what is marked simulated is about answers drawn here with {noise}, and not about any "
            "that were given; expected and realised are made of the votes, and not for publication"
        ),
    }


def _refuse(name: str, value: object) -> None:
    """Refuse what a file of votes says already."""
    if value is not None:
        raise ValueError(f"{name} is {value}, and --votes says it already; leave one of them out")


def _epsilon_of_any_votes(options: argparse.Namespace) -> dict[str, Any]:
    if options.answer is None:
        raise ValueError(
            "without --votes a price needs the number of answers: --answer K (and --queries Q, of "
            "which so many are answered)"
        )
    confident = options.aggregator == "confident"
    if confident and options.threshold is None:
        options.threshold = 0.0  # changes no price
    request = PateAnswers(
        aggregator=_aggregator(options),
        queries=options.queries or options.answer,
        max_answers=options.answer,
    )
    prices = {
        Accounting.DECISION: epsilon_of_prices([request], delta=options.delta),
        Accounting.COUNTS: epsilon_of_counts([request], delta=options.delta),
    }
    accounting = Accounting(options.accounting)
    other = next(each for each in Accounting if each is not accounting)
    return {
        "accounting": accounting.value,
        "queries": request.queries,
        "answer": request.max_answers,
        "epsilon": prices[accounting],
        "delta": options.delta,
        f"by_{other.value}": prices[other],
        "note": "for any votes, of all checks and answers: what a ledger charges; with --votes it "
        "is said what these votes cost, which is less and private",
    }


def _prices(price: PatePrice) -> dict[str, dict[str, Any]]:
    return {
        "expected": dataclasses.asdict(price.expected),
        "realised": {**dataclasses.asdict(price.realised), "simulated": True},
        "data_independent": {
            "epsilon": price.data_independent.epsilon,
            "order": price.data_independent.order,
            "epsilon_exact": price.data_independent_exact,
            "simulated": True,
        },
    }


def _note(price: PatePrice, beside: PatePrice) -> dict[str, str]:
    """Say so where the noise is too little for decisions to cost less than their counts."""
    decisions, counts = (each.data_independent.epsilon for each in (price, beside))
    if decisions < counts * (1 - 1e-9):
        return {}
    return {
        "accounting_note": "with so little noise, or noise of this kind, decisions are priced as "
        "their counts"
    }


def calibrate(options: argparse.Namespace) -> dict[str, Any]:
    """Find an aggregator's noise for an epsilon, guaranteed for any votes.

    Without votes it is the noise that a sweep has with this `trainer.epsilon`.

    Raises:
        ValueError: Votes or a target that can't be used.
    """
    if options.votes is None:
        return _calibrated(options)
    _refuse("--queries", options.queries)
    _refuse("--teachers", options.teachers)
    if options.aggregator not in (None, "confident"):
        raise ValueError(
            f"--aggregator is {options.aggregator}, and only the noise of confident is chosen from "
            "votes; leave --votes out"
        )
    votes = checked_votes(read_array(options.votes, what="--votes"), name="--votes")
    accounting = Accounting(options.accounting)
    found = calibrate_confident_gnmax(
        votes,
        epsilon=options.epsilon,
        delta=options.delta,
        max_answers=options.answer,
        accounting=accounting,
    )
    price = price_for_any_votes(
        found,
        checked=len(votes),
        answered=options.answer,
        delta=options.delta,
        accounting=accounting,
    )
    return {
        "aggregator": "confident",
        "accounting": accounting.value,
        "threshold": found.threshold,
        "sigma1": found.sigma1,
        "sigma2": found.sigma2,
        "answer": options.answer,
        "epsilon": price.epsilon,
        "delta": options.delta,
        "chosen_from_votes": True,
    }


def _calibrated(options: argparse.Namespace) -> dict[str, Any]:
    kind = AggregatorKind(options.aggregator or "confident")
    if options.accounting != Accounting.DECISION:
        raise ValueError("without --votes noise is calibrated to the price of decisions alone")
    queries = options.queries or options.answer
    ensemble = EnsembleConfig(teachers=options.teachers or 1, queries=queries)
    found = PateConfig(
        ensemble=ensemble,
        aggregator=kind,
        epsilon=options.epsilon,
        delta=options.delta,
        answers=options.answer,
    ).calibrated()
    assert found.sigma2 is not None, "calibrated"
    scale = found.sigma2 / (2**0.5 if kind is AggregatorKind.LNMAX else 1)
    return {
        "aggregator": kind.value,
        "accounting": options.accounting,
        "threshold": found.threshold if options.teachers else None,
        "sigma1": found.sigma1,
        "sigma2": scale,
        "queries": queries,
        "answer": options.answer,
        "epsilon": found.price,
        "delta": options.delta,
        "chosen_from_votes": False,
    }


def _aggregator(options: argparse.Namespace) -> LNMax | GNMax | ConfidentGNMax:
    if options.aggregator == "confident":
        missing = [
            name
            for name, value in (("--sigma1", options.sigma1), ("--threshold", options.threshold))
            if value is None
        ]
        if missing:
            raise ValueError(f"--aggregator confident needs {' and '.join(missing)}")
        return ConfidentGNMax(
            threshold=options.threshold, sigma1=options.sigma1, sigma2=options.sigma2
        )
    if options.sigma1 is not None or options.threshold is not None:
        raise ValueError(
            f"--aggregator {options.aggregator} has no check, so --sigma1 and --threshold mean "
            "nothing; leave them out, or take --aggregator confident"
        )
    if options.aggregator == "lnmax":
        return LNMax(scale=options.sigma2)  # sweeps state the deviation, scale * sqrt 2
    return GNMax(noise_std=options.sigma2)


def _seeded(seed: int) -> np.random.Generator:
    _validate.whole(seed=seed)
    return np.random.default_rng(seed)


def _sanitized(
    aggregator: LNMax | GNMax | ConfidentGNMax,
    votes: Any,
    answers: Answers,
    options: argparse.Namespace,
    generator: np.random.Generator,
) -> dict[str, Any]:
    if isinstance(aggregator, LNMax):
        reason = "smooth sensitivity is proven for Gaussian noise, not for lnmax"
        return {"sanitized": None, "sanitized_reason": reason}
    # As a sweep asks and publishes, so that both print one number for the same answers.
    request = PateAnswers(
        aggregator=aggregator, queries=len(votes), max_answers=options.answer or len(votes)
    )
    published = PublishedCost.of(
        request, teachers=int(votes[0].sum()), classes=votes.shape[1], delta=options.delta
    )
    assert published is not None, "all but lnmax have a bound"
    try:
        found = published.sanitize(
            votes,
            released_of(answers),
            generator=generator,
            conversion=Conversion(options.conversion),
        )
    except ConditionsFailed as error:
        return {"sanitized": None, "sanitized_reason": str(error)}
    return {
        "sanitized": {
            "epsilon": published.capped(found.epsilon, request),
            "delta": found.delta,
            "beta": found.beta,
            "noise_std": found.noise_std,
            "simulated": True,
        }
    }

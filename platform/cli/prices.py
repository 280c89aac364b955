"""`labeldp epsilon ...` and `labeldp calibrate ...`: from settings to their cost, and back.

Answers of a teacher ensemble are priced for a file of votes, or for any votes without one.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate, calibration
from labeldp.mechanisms.accounting import Conversion
from labeldp.mechanisms.calibration import LaplaceSetting, RandomizedResponseSetting
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

Aggregator = LNMax | GNMax | ConfidentGNMax


def epsilon_rr(*, keep_probability: float, classes: int) -> RandomizedResponseSetting:
    """Price of randomized response."""
    return calibration.price_randomized_response(
        keep_probability=keep_probability, num_classes=classes
    )


def calibrate_rr(*, epsilon: float, classes: int, delta: float | None) -> RandomizedResponseSetting:
    """Randomized response for an epsilon; it is pure, so delta changes nothing."""
    return calibration.calibrate_randomized_response(epsilon=epsilon, num_classes=classes)


def calibrate_laplace(*, epsilon: float, delta: float | None) -> LaplaceSetting:
    """Laplace noise for an epsilon; it is pure, so delta changes nothing."""
    return calibration.calibrate_laplace(epsilon=epsilon)


def epsilon_pate(
    *,
    votes: str | None,
    queries: int | None,
    delta: float,
    conversion: str,
    accounting: str,
    answer: int | None,
    seed: int | None,
    **noise: Any,
) -> dict[str, Any]:
    """Price the answers to a file of votes: expected, realised, data-independent, sanitized.

    All but the expected price depend on which queries are answered. That is drawn here, and so is
    the noise of the sanitized price: they say what such answers may cost, and are marked simulated.

    Without votes it is the price for any votes alone, which a ledger charges. `noise` has the
    options of `aggregator_of`.
    """
    ours = Accounting(accounting)
    other = next(each for each in Accounting if each is not ours)
    if votes is None:
        if noise["aggregator"] == "confident" and noise["threshold"] is None:
            noise["threshold"] = 0.0  # changes no price
        mechanism = aggregator_of(**noise)
        return _of_any_votes(mechanism, ours, queries=queries, answer=answer, delta=delta)
    _refuse_beside_votes(queries=queries)
    counts = checked_votes(read_array(votes, what="--votes"), name="--votes")
    mechanism = aggregator_of(**noise)
    if seed is not None:
        _validate.whole(seed=seed)
    generator = OsEntropy().generator("") if seed is None else np.random.default_rng(seed)
    settings: dict[str, Any] = {
        "delta": delta,
        "max_answers": answer,
        "conversion": Conversion(conversion),
    }
    answers = mechanism.respond(counts, generator=generator, max_answers=answer)
    price, beside = (
        price_of_answers(mechanism, counts, answers, accounting=each, **settings)
        for each in (ours, other)
    )
    drawn = "fresh noise" if seed is None else f"noise of --seed {seed}, which its knower can undo"
    note = {}
    if ours is Accounting.DECISION and not (
        price.data_independent.epsilon < beside.data_independent.epsilon * (1 - 1e-9)
    ):
        note["accounting_note"] = (
            "with so little noise, or noise of this kind, decisions are priced as their counts"
        )
    return {
        "accounting": ours.value,
        **_prices(price),
        **note,
        f"by_{other.value}": _prices(beside),
        **_sanitized(mechanism, counts, answers, generator, **settings),
        "note": (
            f"prices marked simulated are about answers drawn here with {drawn}, and not about any "
            "that were given; expected and realised are made of the votes, and not for publication"
        ),
    }


def calibrate_pate(
    *,
    votes: str | None,
    epsilon: float,
    delta: float,
    aggregator: str | None,
    queries: int | None,
    teachers: int | None,
    accounting: str,
    answer: int,
) -> dict[str, Any]:
    """Find an aggregator's noise for an epsilon, guaranteed for any votes.

    Without votes it is the noise that a sweep has with this `trainer.epsilon`.
    """
    if votes is not None:
        _refuse_beside_votes(queries=queries, teachers=teachers)
        if aggregator not in (None, "confident"):
            raise ValueError(
                f"--aggregator is {aggregator}, and only the noise of confident is chosen from "
                "votes; leave --votes out"
            )
        counts = checked_votes(read_array(votes, what="--votes"), name="--votes")
        priced_as = Accounting(accounting)
        chosen = calibrate_confident_gnmax(
            counts, epsilon=epsilon, delta=delta, max_answers=answer, accounting=priced_as
        )
        price = price_for_any_votes(
            chosen, checked=len(counts), answered=answer, delta=delta, accounting=priced_as
        )
        return {
            "aggregator": "confident",
            "accounting": accounting,
            "threshold": chosen.threshold,
            "sigma1": chosen.sigma1,
            "sigma2": chosen.sigma2,
            "answer": answer,
            "epsilon": price.epsilon,
            "delta": delta,
            "chosen_from_votes": True,
        }
    if accounting != Accounting.DECISION:
        raise ValueError("without --votes noise is calibrated to the price of decisions alone")
    kind = AggregatorKind(aggregator or "confident")
    found = PateConfig(
        ensemble=EnsembleConfig(teachers=teachers or 1, queries=queries or answer),
        aggregator=kind,
        epsilon=epsilon,
        delta=delta,
        answers=answer,
    ).calibrated()
    assert found.sigma2 is not None, "calibrated"
    return {
        "aggregator": kind.value,
        "accounting": accounting,
        "threshold": found.threshold if teachers else None,
        "sigma1": found.sigma1,
        "sigma2": found.sigma2 / (2**0.5 if kind is AggregatorKind.LNMAX else 1),
        "queries": queries or answer,
        "answer": answer,
        "epsilon": found.price,
        "delta": delta,
        "chosen_from_votes": False,
    }


def aggregator_of(
    aggregator: str, *, sigma1: float | None, sigma2: float, threshold: float | None
) -> Aggregator:
    """Return the options' aggregator; LNMax takes a scale, where sweeps state a deviation."""
    if aggregator == "confident":
        if sigma1 is None or threshold is None:
            options = {"--sigma1": sigma1, "--threshold": threshold}
            missing = [name for name, value in options.items() if value is None]
            raise ValueError(f"--aggregator confident needs {' and '.join(missing)}")
        return ConfidentGNMax(threshold=threshold, sigma1=sigma1, sigma2=sigma2)
    if sigma1 is not None or threshold is not None:
        raise ValueError(
            f"--aggregator {aggregator} has no check, so --sigma1 and --threshold mean nothing; "
            "leave them out, or use --aggregator confident"
        )
    return LNMax(scale=sigma2) if aggregator == "lnmax" else GNMax(noise_std=sigma2)


def _refuse_beside_votes(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"--{name} is {value}, but --votes determines it; leave one out")


def _of_any_votes(
    aggregator: Aggregator,
    accounting: Accounting,
    *,
    queries: int | None,
    answer: int | None,
    delta: float,
) -> dict[str, Any]:
    if answer is None:
        raise ValueError(
            "without --votes a price needs the number of answers: --answer K (and --queries Q, of "
            "which so many are answered)"
        )
    request = PateAnswers(aggregator=aggregator, queries=queries or answer, max_answers=answer)
    prices = {
        Accounting.DECISION: epsilon_of_prices([request], delta=delta),
        Accounting.COUNTS: epsilon_of_counts([request], delta=delta),
    }
    other = next(each for each in Accounting if each is not accounting)
    return {
        "accounting": accounting.value,
        "queries": request.queries,
        "answer": request.max_answers,
        "epsilon": prices[accounting],
        "delta": delta,
        f"by_{other.value}": prices[other],
        "note": "for any votes, of all checks and answers: the price that a ledger charges; with "
        "--votes the command states the cost of these votes, which is less and private",
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


def _sanitized(
    aggregator: Aggregator,
    votes: NDArray[Any],
    answers: Answers,
    generator: np.random.Generator,
    *,
    delta: float,
    max_answers: int | None,
    conversion: Conversion,
) -> dict[str, Any]:
    if isinstance(aggregator, LNMax):
        reason = "smooth sensitivity is proven for Gaussian noise, not for lnmax"
        return {"sanitized": None, "sanitized_reason": reason}
    # As a sweep asks and publishes, so that both print one number for the same answers.
    request = PateAnswers(
        aggregator=aggregator, queries=len(votes), max_answers=max_answers or len(votes)
    )
    published = PublishedCost.of(
        request, teachers=int(votes[0].sum()), classes=votes.shape[1], delta=delta
    )
    assert published is not None, "all but lnmax have a bound"
    try:
        found = published.sanitize(
            votes, released_of(answers), generator=generator, conversion=conversion
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

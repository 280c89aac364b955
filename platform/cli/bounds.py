"""`labeldp epsilon`, `calibrate` and `audit`: epsilon from above by price, from below by attack.

Answers of a teacher ensemble are priced for a file of votes, or for any votes without one. Audits
read saved confidences, scores and answers, from `.npy` and `.npz[:key]` and never from a pickle.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import auditing, calibration
from labeldp.mechanisms._validate import checked_votes
from labeldp.mechanisms.accounting import L2_SENSITIVITY, Conversion, epsilon_of
from labeldp.mechanisms.channels import SubsetSelection
from labeldp.mechanisms.guess_risk import guesses_after, risk_in_words
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.ledger import epsilon_of_prices
from labeldp.mechanisms.pate.aggregators import (
    Answers,
    ConfidentGNMax,
    GNMax,
    LNMax,
    price_for_any_votes,
)
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.published_cost import ConditionsFailed
from labeldp.mechanisms.pate.releases import (
    PateAnswers,
    PublishedCost,
    epsilon_of_counts,
    released_of,
)
from labeldp.mechanisms.pate.vote_leakage import reconstruct
from labeldp.mechanisms.randomized_response import epsilon_from_keep_probability
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.selection import selection_price
from labeldp.trainers.data.own_files import npy_array, npz_arrays
from labeldp.trainers.methods.pate_settings import AggregatorKind, EnsembleConfig, PateConfig


def epsilon_gaussian(*, noise_std: float, delta: float) -> dict[str, Any]:
    """Price of Gaussian noise."""
    epsilon = calibration.price_gaussian(noise_std=noise_std, delta=delta)
    facts = {"noise_std": noise_std, "epsilon": epsilon, "delta": delta}
    return _with_risk(facts, mu=L2_SENSITIVITY / noise_std)


def epsilon_laplace(*, scale: float | None, noise_std: float | None = None) -> dict[str, Any]:
    """Price of Laplace noise."""
    epsilon = calibration.price_laplace(scale=scale, noise_std=noise_std)
    if scale is None:
        scale = (noise_std or 0.0) / 2**0.5
    noise_std = noise_std or scale * 2**0.5
    return _with_risk({"scale": scale, "noise_std": noise_std, "epsilon": epsilon, "delta": 0.0})


def epsilon_rr(*, keep_probability: float, classes: int) -> dict[str, Any]:
    """Price of randomized response."""
    epsilon = epsilon_from_keep_probability(keep_probability=keep_probability, num_classes=classes)
    facts = {"keep_probability": keep_probability, "num_classes": classes}
    return _with_risk({**facts, "epsilon": epsilon, "delta": 0.0})


def epsilon_select(*, delta: float, **options: Any) -> dict[str, Any]:
    """Price of picking the best of a random number of trials."""
    return _with_risk({"epsilon": selection_price(delta=delta, **options), "delta": delta})


def calibrate_gaussian(*, epsilon: float, delta: float) -> dict[str, Any]:
    """Gaussian noise for an epsilon."""
    noise_std = calibration.calibrate_gaussian(epsilon=epsilon, delta=delta)
    return epsilon_gaussian(noise_std=noise_std, delta=delta)


def calibrate_rr(*, epsilon: float, classes: int, delta: float | None) -> dict[str, Any]:
    """Randomized response for an epsilon; it is pure, so delta changes nothing."""
    kept = calibration.calibrate_randomized_response(epsilon=epsilon, num_classes=classes)
    return epsilon_rr(keep_probability=kept, classes=classes)


def calibrate_laplace(*, epsilon: float, delta: float | None) -> dict[str, Any]:
    """Laplace noise for an epsilon; it is pure, so delta changes nothing."""
    return epsilon_laplace(scale=calibration.calibrate_laplace(epsilon=epsilon))


def calibrate_subset(*, epsilon: float, classes: int, delta: float | None) -> dict[str, Any]:
    """Subset selection for an epsilon; it is pure, so delta changes nothing."""
    best = SubsetSelection(epsilon=epsilon, num_classes=classes)
    facts = {"subset_size": best.size, "epsilon": epsilon}
    return {**facts, "keep_probability": best.keep_probability, "nats": best.information}


def epsilon_pate(
    *,
    votes: str | None,
    queries: int | None,
    delta: float,
    conversion: str,
    accounting: str,
    answer: int | None,
    seed: int | None,
    figures: str | None = None,
    **noise: Any,
) -> dict[str, Any]:
    """Price the answers to a file of votes: expected, realised, data-independent, sanitized.

    All but the expected price depend on which queries are answered. That is drawn here, and so is
    the noise of the sanitized price: they show possible costs, and are marked simulated.

    Args:
        votes: File of vote counts [N, K]; without it, the price is that of any votes alone, which a
            ledger charges.
        queries: Number of checked queries, without `votes`; None for as many as answers.
        delta: Delta of the prices.
        conversion: From Renyi privacy to epsilon.
        accounting: Name of an `Accounting`.
        answer: Largest number of answers; required without `votes`.
        seed: Seed of what is simulated; None for the system's entropy.
        figures: Folder for figures of `votes`.
        **noise: Options of `aggregator_of`.
    """
    if votes is None:
        if figures is not None:
            raise ValueError(f"--figures {figures} draws votes: name their file with --votes")
        if noise["aggregator"] == "confident" and noise["threshold"] is None:
            noise["threshold"] = 0.0  # changes no price
        if answer is None:
            raise ValueError("without --votes a price needs the number of answers: --answer K")
        mechanism = aggregator_of(**noise)
        queries = answer if queries is None else queries
        request = PateAnswers(aggregator=mechanism, queries=queries, max_answers=answer)
        priced = epsilon_of_counts if accounting == Accounting.COUNTS else epsilon_of_prices
        facts = {
            "accounting": accounting,
            "queries": queries,
            "answer": answer,
            "epsilon": priced([request], delta=delta),
            "delta": delta,
            "note": "the price for any votes, which a ledger charges",
        }
        return _with_risk(facts)
    counts = _read_votes(votes, queries=queries)
    mechanism = aggregator_of(**noise)
    generator = OsEntropy().generator("") if seed is None else np.random.default_rng(seed)
    answers = mechanism.respond(counts, generator=generator, max_answers=answer)
    checked = answers.checked
    stated: dict[str, Any] = {"delta": delta, "conversion": Conversion(conversion)}
    costs = mechanism.costs(counts, Accounting(accounting))
    realised = costs.head(checked).cost(answered=answers.by_teachers[:checked], **stated)
    done: dict[str, Any] = {"checked": checked, "answered": answers.answered}
    done["accounting"] = Accounting(accounting)
    any_votes = price_for_any_votes(mechanism, **done, **stated)
    exact = epsilon_of(mechanism.events(**done), delta=delta)
    most = len(counts) if answer is None else answer
    request = PateAnswers(aggregator=mechanism, queries=len(counts), max_answers=most)
    if figures is not None:
        from labeldp.platform.report.paper_figures import write_vote_figures

        std = noise["sigma2"] * (2**0.5 if noise["aggregator"] == "lnmax" else 1)
        how: dict[str, Any] = {"noise_std": std, "delta": delta, "generator": generator}
        write_vote_figures(counts, mechanism, Path(figures), **how)
    drawn = "fresh noise" if seed is None else "noise that anybody can repeat with --seed"
    return {
        "accounting": accounting,
        "expected": asdict(costs.until(answer).cost(**stated)),
        "realised": {**asdict(realised), "simulated": True},
        "data_independent": {
            "epsilon": any_votes.epsilon,
            "order": any_votes.order,
            "epsilon_exact": min(exact, any_votes.epsilon),
            "simulated": True,
            "risk": risk_in_words(epsilon=any_votes.epsilon, delta=delta),
        },
        **_sanitized(request, counts, answers, generator=generator, **stated),
        "note": (
            f"prices marked simulated are for answers drawn here with {drawn}; expected and "
            "realised depend on the secret votes: do not publish them"
        ),
    }


def calibrate_pate(
    *,
    votes: str | None,
    aggregator: str,
    queries: int | None,
    teachers: int | None,
    answer: int,
    **price: Any,
) -> dict[str, Any]:
    """Find an aggregator's noise for an epsilon of all answers, guaranteed for any votes.

    It is the noise that a sweep has with this `trainer.epsilon`. Of `votes` the shape and the
    number of teachers are read, which are public.
    """
    if votes is not None:
        counts = _read_votes(votes, queries=queries, teachers=teachers)
        queries = len(counts)
        teachers = int(counts[0].sum())
    kind = AggregatorKind(aggregator)
    queries = answer if queries is None else queries
    ensemble = EnsembleConfig(teachers=1 if teachers is None else teachers, queries=queries)
    found = PateConfig(ensemble=ensemble, aggregator=kind, answers=answer, **price).calibrated()
    assert found.sigma2 is not None, "calibrated"
    return {
        "aggregator": aggregator,
        "accounting": Accounting.DECISION,
        "answer": answer,
        "delta": price["delta"],
        "threshold": found.threshold if teachers else None,
        "sigma1": found.sigma1,
        "sigma2": found.sigma2 / (2**0.5 if kind is AggregatorKind.LNMAX else 1),
        "queries": queries,
        "epsilon": found.price,
        "chosen_from_votes": False,
    }


def aggregator_of(
    aggregator: str, *, sigma1: float | None, sigma2: float, threshold: float | None
) -> LNMax | GNMax | ConfidentGNMax:
    """Return the options' aggregator; LNMax takes a scale, where sweeps state a deviation."""
    if aggregator == "confident":
        if sigma1 is None or threshold is None:
            raise ValueError("--aggregator confident needs --sigma1, and with --votes --threshold")
        return ConfidentGNMax(threshold=threshold, sigma1=sigma1, sigma2=sigma2)
    if sigma1 is not None or threshold is not None:
        raise ValueError(
            f"--aggregator {aggregator} has no check, so --sigma1 and --threshold have no effect; "
            "leave them out, or use --aggregator confident"
        )
    return LNMax(scale=sigma2) if aggregator == "lnmax" else GNMax(noise_std=sigma2)


def _with_risk(facts: dict[str, Any], *, mu: float | None = None) -> dict[str, Any]:
    """Add how often a guess of one label is right, after each of two guesses before."""
    paid = {"epsilon": facts["epsilon"], "delta": facts["delta"], "mu": mu}
    return {
        **facts,
        **({} if mu is None else {"mu": mu}),
        "guess_at_most": {f"{p:g}": q for p, q in guesses_after(**paid).items()},
        "risk": f"best guess of one label {risk_in_words(**paid)}",
    }


def _read_votes(file: str, **without: object) -> NDArray[Any]:
    for name, value in without.items():
        if value is not None:
            raise ValueError(f"--{name} is {value}, but --votes determines it; leave one out")
    return checked_votes(read_array(file, what="--votes"), name="--votes")


def _sanitized(
    request: PateAnswers, votes: NDArray[Any], answers: Answers, *, delta: float, **how: Any
) -> dict[str, Any]:
    # As a sweep requests and publishes, so that both print one number for the same answers.
    published = PublishedCost.of(
        request, teachers=int(votes[0].sum()), classes=votes.shape[1], delta=delta
    )
    if published is None:
        reason = "smooth sensitivity is proven for Gaussian noise, not for lnmax"
        return {"sanitized": None, "sanitized_reason": reason}
    try:
        found = published.sanitize(votes, released_of(answers), **how)
    except ConditionsFailed as error:
        return {"sanitized": None, "sanitized_reason": str(error)}
    capped = published.capped(found.epsilon, request)
    return {"sanitized": {**asdict(found), "epsilon": capped, "simulated": True}}


# --- audits -------------------------------------------------------------------------------------


def memorization(
    *, confidences: str, canary_labels: str, true_labels: str, confidence: float
) -> auditing.MemorizationAudit:
    """Interval of the memorization attack, as published and corrected."""
    return auditing.memorization_interval(
        read_array(confidences, what="--confidences"),
        read_array(canary_labels, what="--canary-labels"),
        read_array(true_labels, what="--true-labels"),
        confidence=confidence,
    )


def one_run(
    *,
    family: str | None,
    classes: int,
    guesses_fixed: bool,
    delta: float,
    confidence: float,
    **counts: Any,
) -> dict[str, Any]:
    """Bound the epsilon of one training run from below, from counts or from scores.

    `family` also bounds epsilon as if each label had noise of this family by itself. Of scores,
    fixed fractions of all canaries are guessed.
    """
    files = {name: counts.pop(name) for name in ("scores", "truth")}
    given = {name for name, value in {**counts, **files}.items() if value is not None}
    if given not in (set(counts), set(files)):
        named = " and ".join(f"--{name}" for name in [*counts, *files] if name in given)
        raise ValueError(
            f"{named or 'nothing to audit'} is given; give --canaries, --guesses and --correct, or "
            "--scores and --truth"
        )
    settings: dict[str, Any] = {"delta": delta, "confidence": confidence}
    # The best size never exceeds half of the classes, but changes with epsilon, and with it what an
    # attacker can guess: what is refuted for each size is refuted for the best one.
    sizes = range(1, max(2, classes // 2 + 1)) if family == "subset" else (1,)
    sets = [auditing.SubsetFamily(num_classes=classes, subset_size=size) for size in sizes]
    families: dict[str | None, Sequence[auditing.Family]] = {
        None: (),
        "gaussian": (auditing.GaussianFamily(),),
        "laplace": (auditing.LaplaceFamily(),),
        "rr": sets,
        "subset": sets,
    }
    if files.keys() != given:
        result = {
            "epsilon_low": auditing.one_run_lower_bound(**counts, **settings),
            "ceiling": auditing.one_run_ceiling(canaries=counts["canaries"], **settings),
            **counts,
        }
        if family is not None:
            settings["guesses_fixed"] = guesses_fixed
            result["epsilon_tight"] = min(
                auditing.tight_lower_bound(**counts, **settings, family=each)
                for each in families[family]
            )
        return result
    values, coins = (read_array(file, what=f"--{name}") for name, file in files.items())
    result = asdict(auditing.one_run_audit(values, coins, **settings))
    if family is not None:
        right = auditing.right_guesses(values, coins)
        tries = [(count, int(right[:count].sum())) for count in auditing.guess_counts(len(right))]
        settings["canaries"] = len(right)
        result["epsilon_tight"] = min(
            auditing.best_tight_bound(tries, **settings, family=each) for each in families[family]
        )
    return result


def moments(
    *, epsilon: float, delta: float, classes: int, seed: int | None, **how: Any
) -> dict[str, Any]:
    """Bound the epsilon of moment labels' noise by Dirac canaries, beside the charged one."""
    noise_std = calibration.calibrate_gaussian(epsilon=epsilon, delta=delta)
    mechanism = LabelMoments(noise_std=noise_std, num_classes=classes)
    generator = np.random.default_rng(seed)
    found = auditing.audit_moments(mechanism, delta=delta, generator=generator, **how)
    charged = calibration.price_gaussian(noise_std=noise_std, delta=delta)
    return {"epsilon": charged, "noise_std": noise_std, **asdict(found)}


def observational(
    *, confidences: str, labels: str, proxy: str, seed: int | None, **assumed: float
) -> auditing.ObservationalAudit:
    """Bound a model's epsilon from labels that nobody spoiled, given a good proxy."""
    return auditing.observational_audit(
        read_array(confidences, what="--confidences"),
        labels=read_array(labels, what="--labels"),
        proxy=read_array(proxy, what="--proxy"),
        generator=np.random.default_rng(seed),
        **assumed,
    )


def vote_leakage(*, counts: str, noise_std: float, teachers: int) -> dict[str, Any]:
    """Vote histograms from counts of a service's answers, and how long it took."""
    rows = np.atleast_2d(read_array(counts, what="--counts"))
    started = time.perf_counter()
    histograms = reconstruct(rows, noise_std, teachers)
    seconds = time.perf_counter() - started
    one_class = np.flatnonzero((rows > 0).sum(axis=1) == 1)
    notes = [f"row {row}: all answers are one class; other shares are open" for row in one_class]
    return {"histograms": histograms.tolist(), "seconds": seconds, "notes": notes}


def read_array(address: str, *, what: str) -> NDArray[Any]:
    """Return the array at `FILE.npy`, `FILE.npz` or `FILE.npz:key`."""
    path, *key = re.split(r"(?<=\.npz):", address, maxsplit=1, flags=re.IGNORECASE)
    file = Path(path)
    try:
        packed = file.suffix.lower() == ".npz"
        array = _of_archive(file, "".join(key)) if packed else npy_array(file)
    except OSError as error:
        raise ValueError(f"{what}: {file} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
    real = np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    if not (real or array.dtype == bool):
        raise ValueError(f"{what}: {file} holds {array.dtype} values; real numbers are needed")
    if array.size == 0:
        raise ValueError(f"{what}: {file} is empty; it must hold at least one number")
    return array


def _of_archive(file: Path, key: str) -> NDArray[Any]:
    arrays = npz_arrays(file)
    names = ", ".join(arrays) or "nothing"
    if key and key not in arrays:
        raise ValueError(f"{file} holds no {key!r}; it holds {names}")
    if not key and len(arrays) != 1:
        raise ValueError(f"{file} holds {names}; name one as {file.name}:KEY")
    return arrays[key or names]

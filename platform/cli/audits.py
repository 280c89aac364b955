"""`labeldp audit ...`: attacks on saved confidences, scores and answers."""

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from labeldp.mechanisms import auditing
from labeldp.mechanisms.calibration import calibrate_gaussian, price_gaussian
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.pate.vote_leakage import reconstruct
from labeldp.platform.cli.array_files import read_array


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
    scores: str | None,
    truth: str | None,
    family: str | None,
    classes: int,
    guesses_fixed: bool,
    delta: float,
    confidence: float,
    **counts: Any,
) -> dict[str, Any]:
    """Bound the epsilon of one training run from below, from counts or from scores.

    Args:
        scores: File of scores, of which fixed fractions of all canaries are guessed.
        truth: File of the canaries' true sides, with `scores`.
        family: Also bound epsilon as if each label had noise of this family by itself.
        classes: Number of classes of the families on labels.
        guesses_fixed: Whether the number of guesses was fixed before the release.
        delta: Delta of the bound.
        confidence: Probability that the bound holds.
        **counts: canaries, guesses and correct, or all None.
    """
    files = {"scores": scores, "truth": truth}
    given = {name for name, value in {**counts, **files}.items() if value is not None}
    if given not in (set(counts), set(files)):
        named = " and ".join(f"--{name}" for name in [*counts, *files] if name in given)
        raise ValueError(
            f"{named or 'nothing to audit'} is given; give --canaries, --guesses and --correct, or "
            "--scores and --truth"
        )
    settings: dict[str, Any] = {"delta": delta, "confidence": confidence}
    families: dict[str | None, auditing.Family] = {
        "gaussian": auditing.GaussianFamily(),
        "laplace": auditing.LaplaceFamily(),
        "rr": auditing.SubsetFamily(num_classes=classes, subset_size=1),
        "subset": auditing.SubsetFamily(num_classes=classes),
    }
    if scores is None or truth is None:
        result = {
            "epsilon_low": auditing.one_run_lower_bound(**counts, **settings),
            "ceiling": auditing.one_run_ceiling(canaries=counts["canaries"], **settings),
            **counts,
        }
        if family is not None:
            result["epsilon_tight"] = auditing.tight_lower_bound(
                **counts, guesses_fixed=guesses_fixed, family=families[family], **settings
            )
        return result
    values = read_array(scores, what="--scores")
    coins = read_array(truth, what="--truth")
    result = asdict(auditing.one_run_audit(values, coins, **settings))
    if family is not None:
        right = auditing.right_guesses(values, coins)
        tries = [(count, int(right[:count].sum())) for count in auditing.guess_counts(len(right))]
        result["epsilon_tight"] = auditing.best_tight_bound(
            tries, canaries=len(right), family=families[family], **settings
        )
    return result


def moments(
    *, epsilon: float, delta: float, classes: int, seed: int | None, **how: Any
) -> dict[str, Any]:
    """Bound the epsilon of moment labels' noise by Dirac canaries, beside the charged one."""
    noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta)
    mechanism = LabelMoments(noise_std=noise_std, num_classes=classes)
    generator = np.random.default_rng(seed)
    found = auditing.audit_moments(mechanism, delta=delta, generator=generator, **how)
    charged = price_gaussian(noise_std=noise_std, delta=delta)
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
    return {
        "histograms": histograms.tolist(),
        "seconds": seconds,
        "notes": [
            f"row {row}: all answers are one class; other shares are open" for row in one_class
        ],
    }

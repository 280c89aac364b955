"""`labeldp audit ...`: attacks on saved confidences, scores and answers."""

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from labeldp.mechanisms import auditing
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.pate.vote_leakage import reconstruct
from labeldp.platform.cli.array_files import read_array


def memorization(
    *, confidences: str, canary_labels: str, true_labels: str, confidence: float
) -> dict[str, Any]:
    """Interval of the memorization attack, as published and corrected."""
    found = auditing.memorization_interval(
        read_array(confidences, what="--confidences"),
        read_array(canary_labels, what="--canary-labels"),
        read_array(true_labels, what="--true-labels"),
        confidence=confidence,
    )
    keys = ("epsilon_low", "epsilon_high", "threshold", "guesses")
    return {
        "paper": {key: getattr(found.paper, key) for key in keys},
        "corrected": {key: getattr(found.corrected, key) for key in keys},
        "ceiling": found.ceiling,
        "canaries": found.canaries,
    }


def one_run(
    *,
    scores: str | None,
    truth: str | None,
    delta: float,
    confidence: float,
    family: str | None,
    classes: int,
    guesses_fixed: bool,
    **counts: Any,
) -> dict[str, Any]:
    """Bound the epsilon of one training run from below, from counts or from scores.

    With a family, also what it proves if each label had noise of that family by itself. From
    scores, fixed fractions of all canaries are guessed. Without `guesses_fixed`, the number of
    guesses may follow the release. `counts` are canaries, guesses and correct, or all None.
    """
    _check_input(counts, {"scores": scores, "truth": truth})
    settings: dict[str, Any] = {"delta": delta, "confidence": confidence}
    families: dict[str, auditing.Family] = {
        "gaussian": auditing.GaussianFamily(),
        "laplace": auditing.LaplaceFamily(),
        "rr": auditing.SubsetFamily(num_classes=classes, subset_size=1),
        "subset": auditing.SubsetFamily(num_classes=classes),
    }
    if scores is None or truth is None:
        result = {
            "epsilon_low": auditing.one_run_lower_bound(**counts, **settings),
            "ceiling": auditing.one_run_ceiling(canaries=counts["canaries"], **settings),
            **{key: counts[key] for key in ("guesses", "correct", "canaries")},
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
    *,
    epsilon: float,
    delta: float | None,
    canaries: int,
    classes: int,
    confidence: float,
    seed: int | None,
) -> dict[str, Any]:
    """Bound the epsilon of moment labels' noise by Dirac canaries, beside the charged one."""
    delta = USUAL_DELTA if delta is None else delta
    noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta).noise_std
    audit = auditing.audit_moments(
        LabelMoments(noise_std=noise_std, num_classes=classes),
        canaries=canaries,
        delta=delta,
        confidence=confidence,
        generator=np.random.default_rng(seed),
    )
    return {"epsilon": audit.epsilon, "noise_std": noise_std, **asdict(audit.found)}


def observational(
    *,
    confidences: str,
    labels: str,
    proxy: str,
    proxy_log_error: float,
    confidence: float,
    seed: int | None,
) -> dict[str, Any]:
    """Bound a model's epsilon from labels that nobody spoiled, given a good proxy."""
    found = auditing.observational_audit(
        read_array(confidences, what="--confidences"),
        labels=read_array(labels, what="--labels"),
        proxy=read_array(proxy, what="--proxy"),
        proxy_log_error=proxy_log_error,
        confidence=confidence,
        generator=np.random.default_rng(seed),
    )
    return asdict(found)


def vote_leakage(*, counts: str, noise_std: float, teachers: int) -> dict[str, Any]:
    """Vote histograms from counts of a service's answers, and how long it took."""
    answers = read_array(counts, what="--counts")
    rows = answers[None] if answers.ndim == 1 else answers
    started = time.perf_counter()
    histograms = reconstruct(rows, noise_std, teachers)
    seconds = time.perf_counter() - started
    one_class = np.flatnonzero((rows > 0).sum(axis=1) == 1)
    return {
        "histograms": histograms.tolist(),
        "seconds": seconds,
        "notes": [
            f"row {row}: all answers are class {int(rows[row].argmax())}; that class leads by far, "
            "but the shares of the other classes can't be determined"
            for row in one_class
        ],
    }


def _check_input(counts: dict[str, Any], files: dict[str, Any]) -> None:
    """Refuse anything but all counts and no file, or all files and no count."""
    given = {name for name, value in {**counts, **files}.items() if value is not None}
    if given in (set(counts), set(files)):
        return
    ways = "--canaries, --guesses and --correct, or --scores and --truth"
    if not given:
        raise ValueError(f"nothing to audit is given; give {ways}")
    started = counts if given & set(counts) else files
    missing = [f"--{name}" for name in started if name not in given]
    without = f" without {' and '.join(missing)}" if missing else ""
    named = ", ".join(f"--{name}" for name in [*counts, *files] if name in given)
    raise ValueError(f"{named} can't be used together{without}; give {ways}")

"""`labeldp audit ...`: attacks on saved confidences, scores and answers."""

import argparse
import time
from typing import Any

from labeldp.platform.cli.verb import Group, Verb

AUDIT = Group(name="audit", summary="how private it is really")


def memorization(options: argparse.Namespace) -> dict[str, Any]:
    """Interval of the memorization attack, as published and corrected."""
    from labeldp.mechanisms import auditing
    from labeldp.platform.cli.array_files import read_array

    found = auditing.memorization_interval(
        read_array(options.confidences, what="--confidences"),
        read_array(options.canary_labels, what="--canary-labels"),
        read_array(options.true_labels, what="--true-labels"),
        confidence=options.confidence,
    )
    keys = ("epsilon_low", "epsilon_high", "threshold", "guesses")
    return {
        "paper": {key: getattr(found.paper, key) for key in keys},
        "corrected": {key: getattr(found.corrected, key) for key in keys},
        "ceiling": found.ceiling,
        "canaries": found.canaries,
    }


def one_run(options: argparse.Namespace) -> dict[str, Any]:
    """What one training run proves about its epsilon, from counts of guesses or from scores.

    Raises:
        ValueError: Neither all of one kind of input nor all of the other; what the audit refuses.
    """
    from labeldp.mechanisms import auditing
    from labeldp.platform.cli.array_files import read_array

    counts = {name: getattr(options, name) for name in ("canaries", "guesses", "correct")}
    files = {name: getattr(options, name) for name in ("scores", "truth")}
    _one_kind_of_input(counts, files)
    if options.scores is not None:
        found = auditing.one_run_audit(
            read_array(options.scores, what="--scores"),
            read_array(options.truth, what="--truth"),
            delta=options.delta,
            confidence=options.confidence,
        )
        keys = ("epsilon_low", "ceiling", "guesses", "correct", "canaries")
        return {key: getattr(found, key) for key in keys}
    settings = {"delta": options.delta, "confidence": options.confidence}
    return {
        "epsilon_low": auditing.one_run_lower_bound(**counts, **settings),
        "ceiling": auditing.one_run_ceiling(canaries=options.canaries, **settings),
        **{key: counts[key] for key in ("guesses", "correct", "canaries")},
    }


def vote_leakage(options: argparse.Namespace) -> dict[str, Any]:
    """Vote histograms from counts of a service's answers, and how long it took."""
    import numpy as np

    from labeldp.mechanisms.pate.vote_leakage import reconstruct
    from labeldp.platform.cli.array_files import read_array

    counts = read_array(options.counts, what="--counts")
    rows = counts[None] if counts.ndim == 1 else counts
    started = time.perf_counter()
    histograms = reconstruct(rows, options.noise_std, options.teachers)
    seconds = time.perf_counter() - started
    one_class = np.flatnonzero((rows > 0).sum(axis=1) == 1)
    return {
        "histograms": histograms.tolist(),
        "seconds": seconds,
        "notes": [
            f"row {row}: all answers are class {int(rows[row].argmax())}; that class leads by far, "
            "but how the rest of the votes are shared among the others can't be told"
            for row in one_class
        ],
    }


def _one_kind_of_input(counts: dict[str, Any], files: dict[str, Any]) -> None:
    """Refuse anything but all counts and no file, or all files and no count."""
    given = [f"--{name}" for name, value in {**counts, **files}.items() if value is not None]
    for kind, other in ((counts, files), (files, counts)):
        if all(value is not None for value in kind.values()):
            if all(value is None for value in other.values()):
                return
            break
    ways = "--canaries, --guesses and --correct, or --scores and --truth"
    if not given:
        raise ValueError(f"nothing to audit is given; give {ways}")
    started = counts if any(value is not None for value in counts.values()) else files
    missing = [f"--{name}" for name, value in started.items() if value is None]
    without = f" without {' and '.join(missing)}" if missing else ""
    raise ValueError(f"{', '.join(given)} can't be used together{without}; give {ways}")


def _memorization_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("--confidences", "--canary-labels", "--true-labels"):
        parser.add_argument(name, required=True, metavar="FILE[:key]")
    parser.add_argument("--confidence", type=float, default=0.95)


def _one_run_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("--canaries", "--guesses", "--correct"):
        parser.add_argument(name, type=int, metavar="N")
    for name in ("--scores", "--truth"):
        parser.add_argument(name, metavar="FILE[:key]")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--confidence", type=float, default=0.95)


def _vote_leakage_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--counts", required=True, metavar="FILE[:key]", help="[N, K] answers")
    parser.add_argument("--noise-std", type=float, required=True)
    parser.add_argument("--teachers", type=int, required=True)


VERBS = (
    Verb(
        group=AUDIT,
        name="memorization",
        summary="the paper's attack from saved confidences",
        arguments=_memorization_arguments,
        run=memorization,
    ),
    Verb(
        group=AUDIT,
        name="one-run",
        summary="a valid lower bound from one model",
        arguments=_one_run_arguments,
        run=one_run,
    ),
    Verb(
        group=AUDIT,
        name="vote-leakage",
        summary="vote histograms from a service's answers",
        arguments=_vote_leakage_arguments,
        run=vote_leakage,
    ),
)

"""`labeldp audit ...`: attacks on saved confidences, scores and answers."""

import argparse
import time
from dataclasses import asdict
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

    With a family, also what it proves if each label had noise of that family by itself. From
    scores, fixed fractions of all canaries are guessed. Without --guesses-fixed, the number of
    guesses may follow the release.

    Raises:
        ValueError: Neither all of one kind of input nor all of the other; what the audit refuses.
    """
    from labeldp.mechanisms import auditing
    from labeldp.platform.cli.array_files import read_array

    counts = {name: getattr(options, name) for name in ("canaries", "guesses", "correct")}
    files = {name: getattr(options, name) for name in ("scores", "truth")}
    _one_kind_of_input(counts, files)
    settings = {"delta": options.delta, "confidence": options.confidence}
    families: dict[str, auditing.Family] = {
        "gaussian": auditing.GaussianFamily(),
        "laplace": auditing.LaplaceFamily(),
        "rr": auditing.RandomizedResponseFamily(num_classes=options.classes),
    }
    within = None if options.family is None else {"family": families[options.family], **settings}
    if options.scores is None:
        result = {
            "epsilon_low": auditing.one_run_lower_bound(**counts, **settings),
            "ceiling": auditing.one_run_ceiling(canaries=options.canaries, **settings),
            **{key: counts[key] for key in ("guesses", "correct", "canaries")},
        }
        if within is not None:
            result["epsilon_tight"] = auditing.tight_lower_bound(
                **counts, guesses_fixed=options.guesses_fixed, **within
            )
        return result
    scores, truth = (read_array(files[name], what=f"--{name}") for name in ("scores", "truth"))
    found = auditing.one_run_audit(scores, truth, **settings)
    result = asdict(found)
    if within is not None:
        right = auditing.right_guesses(scores, truth)
        tries = [(count, int(right[:count].sum())) for count in auditing.guess_counts(len(right))]
        result["epsilon_tight"] = auditing.best_tight_bound(tries, canaries=len(right), **within)
    return result


def moments(options: argparse.Namespace) -> dict[str, Any]:
    """What Dirac canaries prove of the noise of moment labels, beside what is charged for it."""
    import numpy as np

    from labeldp.mechanisms.accounting import USUAL_DELTA
    from labeldp.mechanisms.auditing import audit_moments
    from labeldp.mechanisms.calibration import calibrate_gaussian
    from labeldp.mechanisms.label_moments import LabelMoments

    delta = USUAL_DELTA if options.delta is None else options.delta
    noise_std = calibrate_gaussian(epsilon=options.epsilon, delta=delta).noise_std
    audit = audit_moments(
        LabelMoments(noise_std=noise_std, num_classes=options.classes),
        canaries=options.canaries,
        delta=delta,
        confidence=options.confidence,
        generator=np.random.default_rng(options.seed),
    )
    return {"epsilon": audit.epsilon, "noise_std": noise_std, **asdict(audit.found)}


def observational(options: argparse.Namespace) -> dict[str, Any]:
    """What a model proves by labels that nobody spoiled, if the proxy is as good as is said."""
    import numpy as np

    from labeldp.mechanisms.auditing import observational_audit
    from labeldp.platform.cli.array_files import read_array

    found = observational_audit(
        read_array(options.confidences, what="--confidences"),
        labels=read_array(options.labels, what="--labels"),
        proxy=read_array(options.proxy, what="--proxy"),
        proxy_log_error=options.proxy_log_error,
        confidence=options.confidence,
        generator=np.random.default_rng(options.seed),
    )
    return asdict(found)


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
    parser.add_argument(
        "--family",
        choices=("gaussian", "laplace", "rr"),
        help="also bound epsilon tightly, if noise of this family was put on each label by itself",
    )
    parser.add_argument(
        "--classes", type=int, default=2, help="of --family rr; 2 is careful for any number"
    )
    parser.add_argument(
        "--guesses-fixed",
        action="store_true",
        help="--guesses was fixed before anything released was seen: a larger bound of --family, "
        "and the only one of gaussian",
    )


def _moments_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--epsilon", type=float, default=1.0, help="that is charged")
    parser.add_argument("--delta", type=float, help="1e-5, the usual one, if not given")
    parser.add_argument("--canaries", type=int, default=2000, metavar="N")
    parser.add_argument("--classes", type=int, default=10, metavar="K")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--seed", type=int, help="of a repeatable audit")


def _observational_arguments(parser: argparse.ArgumentParser) -> None:
    for name, what in (
        ("--confidences", "[N, K] of the model"),
        ("--labels", "[N] that it was trained on"),
        ("--proxy", "[N, K] of a model that never saw these labels"),
    ):
        parser.add_argument(name, required=True, metavar="FILE[:key]", help=what)
    parser.add_argument(
        "--proxy-log-error",
        type=float,
        required=True,
        metavar="TAU",
        help="largest |log p - log proxy|, p the law of true labels: an assumption of yours",
    )
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--seed", type=int, help="of a repeatable audit")


def _vote_leakage_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--counts", required=True, metavar="FILE[:key]", help="[N, K] answers")
    parser.add_argument("--noise-std", type=float, required=True)
    parser.add_argument("--teachers", type=int, required=True)


VERBS = (
    Verb(
        group=AUDIT,
        name="memorization",
        summary="the paper's attack from saved confidences",
        example="labeldp audit memorization --confidences "
        "C.npy --canary-labels P.npy --true-labels T.npy",
        arguments=_memorization_arguments,
        run=memorization,
    ),
    Verb(
        group=AUDIT,
        name="one-run",
        summary="a valid lower bound from one model",
        example="labeldp audit one-run --canaries 1000 --guesses 400 --correct 300",
        arguments=_one_run_arguments,
        run=one_run,
    ),
    Verb(
        group=AUDIT,
        name="moments",
        summary="is the noise of moment labels what is charged?",
        example="labeldp audit moments --epsilon 1 --delta 1e-5",
        arguments=_moments_arguments,
        run=moments,
    ),
    Verb(
        group=AUDIT,
        name="observational",
        summary="a bound without canaries, given a proxy's error",
        example="labeldp audit observational --confidences C.npy "
        "--labels Y.npy --proxy Q.npy --proxy-log-error .2",
        arguments=_observational_arguments,
        run=observational,
    ),
    Verb(
        group=AUDIT,
        name="vote-leakage",
        summary="vote histograms from a service's answers",
        example="labeldp audit vote-leakage --counts ANSWERS.npy --noise-std 60 --teachers 250",
        arguments=_vote_leakage_arguments,
        run=vote_leakage,
    ),
)

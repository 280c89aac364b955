"""`labeldp audit ...`: attacks on saved confidences, scores and answers."""

import argparse
from typing import Any

from labeldp.mechanisms import auditing
from labeldp.platform.array_files import read_array


def memorization(options: argparse.Namespace) -> dict[str, Any]:
    """Interval of the memorization attack, as published and corrected."""
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

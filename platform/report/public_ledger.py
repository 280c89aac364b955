"""Lines of a ledger as anybody may see them: what was done to labels and what it cost.

Whoever trusts the arithmetic of this project, or has some of their own, can compute epsilon from
them. Neither sweep nor folder is named, times are days, and a seed of noise is never told.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from labeldp.mechanisms.release_store import write_event
from labeldp.platform.report.folder_ledger import LedgerLine
from labeldp.platform.report.ledger_words import is_ours, what_of

#: Of parameters that mechanisms of ours have; those of other code are left out, whatever its name.
_PARAMETERS = (
    *("epsilon", "num_classes", "noise_std", "scale"),
    *("queries", "max_answers", "threshold", "sigma1", "sigma2", "confidence"),
    *("order", "delta", "tail"),
)


def public_lines(lines: Iterable[LedgerLine]) -> list[dict[str, Any]]:
    """Return lines as plain values that anybody may see."""
    return [_public(line) for line in lines]


def _public(line: LedgerLine) -> dict[str, Any]:
    mechanism = line.charge.mechanism
    name = str(mechanism.get("name"))
    ours = is_ours(mechanism)
    noise = "none" if line.noise is None else line.noise.value
    return {
        "release": line.charge.key,
        "what": what_of(name if ours else "", ours=ours).partition(" ")[2],
        "mechanism": name if ours else "other",
        "parameters": _numbers(mechanism) if ours else {},
        "noise": noise,
        "made": "unknown" if line.made is None else line.made.partition("T")[0],
        "labels": "all" if line.labels is None else line.labels,
        "event": json.loads(write_event(line.charge.event)),
        "failure_probability": line.charge.failure_probability,
        "epsilon": line.epsilon,
        "delta": line.delta,
    }


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Named parameters that are numbers, those of an aggregator inside among them."""
    found = {
        name: values[name]
        for name in _PARAMETERS
        if isinstance(values.get(name), int | float) and not isinstance(values[name], bool)
    }
    inner = values.get("aggregator")
    if isinstance(inner, Mapping):
        found |= {f"aggregator.{name}": value for name, value in _numbers(inner).items()}
    return found

"""Trials as a DataFrame: one row for each, what it was, how accurate, at what price.

What only the labels' owner may see (`accuracy_figures.py`) is left out unless requested.
Only the interval of epsilon_m, which is the owner's too, stands in every row: as in a sweep's
report, it is one of the three numbers that are shown side by side, and the table is for the owner.
"""

from collections.abc import Iterable, Sequence
from statistics import stdev
from typing import TYPE_CHECKING, Any

from labeldp.platform.api.method_names import name_of
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.sweep.accuracy_figures import ChooseBy, chosen_by, is_owners, refuse_lottery

if TYPE_CHECKING:
    import pandas as pd

#: Of every row, in this order, where any trial has them.
_FIRST = (
    "method",
    "variant",
    "epsilon",
    "delta",
    "accuracy",
    "accuracy_spread",
    "accuracy_estimated",
    "accuracy_estimated_error",
    "epsilon_m_low",
    "epsilon_m_high",
    "seed",
)
_LAST = ("train_seconds", "noise", "league", "status", "reason", "trial")
_SEEDS = ("seed", "draw")


def trial_table(records: Iterable[TrialRecord], *, private: bool = False) -> "pd.DataFrame":
    """Return trials as rows, by epsilon and accuracy; those that failed last.

    Args:
        records: Trials of one sweep.
        private: With columns that are the labels' owner's alone.
    """
    import pandas as pd

    every = list(records)
    spreads = _spreads(every)
    rows = [_row(record, spreads.get(record.hash), private=private) for record in every]
    rows.sort(key=lambda row: _order(row))
    known = {name for row in rows for name in row}
    axes = list(dict.fromkeys(key for record in every for key in record.point))
    middle = [name for name in axes if name in known and name not in _FIRST]
    own = sorted(name for name in known if is_owners(name) and name not in _FIRST)
    columns = [name for name in (*_FIRST, *middle, *own, *_LAST) if name in known]
    return pd.DataFrame(
        [{name: row.get(name) for name in columns} for row in rows], columns=columns
    )


def best_of(records: Iterable[TrialRecord], *, by: ChooseBy | None) -> TrialRecord:
    """Return a trial of the settings that are most accurate.

    Settings are compared by their mean over seeds, and the first seed stands for them: the best of
    several seeds would look better than it is.

    Args:
        records: Those trials of one sweep that may be chosen; failed ones are not.
        by: Which accuracy; that on the public test split, where there is one, if None.

    Raises:
        ValueError: None has finished, or noise would choose.
    """
    finished = [record for record in records if record.finished]
    if not finished:
        raise ValueError(
            "no trial has finished, so that none is the best; wait for the sweep, or start it again"
        )
    found = chosen_by((record.metrics for record in finished), by)
    refuse_lottery((each.metrics for each in finished), by=found)
    metric = found.metric
    groups = _groups(finished)
    mean = {
        key: sum(record.metrics[metric] for record in group) / len(group)
        for key, group in groups.items()
    }
    best = groups[max(mean, key=lambda key: mean[key])]
    return min(best, key=lambda record: (int(record.config.get("seed", 0)), record.hash))


def _row(record: TrialRecord, spread: float | None, *, private: bool) -> dict[str, Any]:
    metrics = record.metrics
    row: dict[str, Any] = {
        "method": name_of(record.config),
        "variant": record.variant,
        **dict(record.point),
        "seed": record.config.get("seed"),
        "noise": record.noise.value,
        "league": record.features_from.league.words,
        "status": "finished" if record.finished else "failed",
        "trial": record.hash,
    }
    if not record.finished:
        row["reason"] = record.reason
    if spread is not None:
        row["accuracy_spread"] = spread
    row |= {name: metrics[name] for name in (*_FIRST, *_LAST) if name in metrics}
    if private:
        row |= {name: value for name, value in metrics.items() if is_owners(name)}
    return row


def _groups(records: Sequence[TrialRecord]) -> dict[str, list[TrialRecord]]:
    """Trials that differ in nothing but their seeds."""
    groups: dict[str, list[TrialRecord]] = {}
    for record in records:
        point = {k: v for k, v in record.point.items() if k.rpartition(".")[2] not in _SEEDS}
        groups.setdefault(repr((record.variant, point)), []).append(record)
    return groups


def _spreads(records: Sequence[TrialRecord]) -> dict[str, float]:
    """Standard deviation of the accuracy over seeds, by trial, where there are several."""
    found: dict[str, float] = {}
    finished = [record for record in records if record.finished and "accuracy" in record.metrics]
    for group in _groups(finished).values():
        if len(group) > 1:
            spread = stdev(record.metrics["accuracy"] for record in group)
            found |= {record.hash: spread for record in group}
    return found


def _order(row: dict[str, Any]) -> tuple[bool, float, float]:
    accuracy = row.get("accuracy", row.get("accuracy_estimated", 0.0))
    return (row["status"] == "failed", row.get("epsilon", 0.0), -accuracy)

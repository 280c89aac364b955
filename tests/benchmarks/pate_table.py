"""What a sweep of PATE came to, as the Markdown tables of docs/reproduction/pate.md.

    python -m tests.benchmarks.pate_table results/pate_mnist
    python -m tests.benchmarks.pate_table results/pate_adult --facts

reads the records of a results folder. A row is an ensemble, sigma2 and K over all settings of the
check and all partitions: accuracy as mean, standard deviation and range, epsilons as ranges, the
guaranteed one included. `--facts` prints every figure over all trials instead.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.interruption import ended

_ROW = ("trainer.ensemble.teachers", "trainer.sigma2", "trainer.answers")
_RANGES = {
    "epsilon": "epsilon by decisions",
    "epsilon_sanitized": "sanitized",
    "private/epsilon_data_dependent": "data-dependent",
    "private/epsilon_expected_of_counts": "expected, by counts",
}


def read(results: Path) -> list[dict[str, Any]]:
    """Return the finished trials' records."""
    records = [json.loads(path.read_text()) for path in sorted(results.glob("trials/*.json"))]
    return [record for record in records if record["finished"]]


def settings_table(records: Iterable[Mapping[str, Any]]) -> str:
    """Return a line for each ensemble, sigma2 and K."""
    groups: dict[tuple[float, ...], list[Mapping[str, float]]] = defaultdict(list)
    for record in records:
        groups[tuple(record["config"][key] for key in _ROW)].append(record["metrics"])
    head = ["T", "sigma2", "K", "accuracy, %", *_RANGES.values(), "right answers"]
    rows = [[*head, "epsilon_m"], ["---"] * (len(head) + 1)]
    for key in sorted(groups, key=lambda key: (key[0], -key[1], key[2])):
        trials = groups[key]
        rows.append(
            [
                *(f"{value:g}" for value in key),
                _spread([100 * trial["accuracy"] for trial in trials]),
                *(_range([trial[name] for trial in trials]) for name in _RANGES),
                f"{100 * np.mean([trial['vote_label_accuracy'] for trial in trials]):.0f}%",
                _interval(trials),
            ]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def facts_table(records: Iterable[Mapping[str, Any]]) -> str:
    """Return mean, standard deviation and range of every figure over all trials."""
    metrics = [record["metrics"] for record in records]
    lines = ["| figure | mean ± standard deviation (range) |", "| --- | --- |"]
    for name in sorted(set.intersection(*(set(each) for each in metrics))):
        lines.append(f"| `{name}` | {_spread([each[name] for each in metrics], digits=3)} |")
    return "\n".join(lines)


def _spread(values: list[float], digits: int = 2) -> str:
    if not all(map(math.isfinite, values)):
        return "no statement"
    spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
    bounds = f"{min(values):.{digits - 1}f} to {max(values):.{digits - 1}f}"
    return f"{np.mean(values):.{digits}f}±{spread:.{digits}f} ({bounds})"


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _interval(trials: list[Mapping[str, float]]) -> str:
    """All intervals of the attack together."""
    low = min(trial["epsilon_m_low"] for trial in trials)
    return f"{low:.1f} to {max(trial['epsilon_m_high'] for trial in trials):.1f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="results folder of the sweep")
    parser.add_argument("--facts", action="store_true", help="every figure over all trials")
    wanted = parser.parse_args()
    records = read(wanted.results)
    if not records:
        parser.error(
            f"there is no record of a finished trial in {wanted.results / 'trials'}; name the "
            "folder that a sweep of PATE wrote"
        )
    table = facts_table if wanted.facts else settings_table
    print(table(records))


if __name__ == "__main__":
    ended(main)

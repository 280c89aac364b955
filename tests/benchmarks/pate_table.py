"""Print results of a PATE sweep as the Markdown tables of docs/reproduction/pate.md.

    python -m tests.benchmarks.pate_table results/pate_mnist

reads the records of a results folder. A row is an ensemble, sigma2 and K over all settings of the
check and all partitions.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

_ROW = ("trainer.ensemble.teachers", "trainer.sigma2", "trainer.answers")
#: Between the ends of a range.
_TO = "\N{EN DASH}"
_RANGES = {
    "epsilon": "epsilon by decisions",
    "epsilon_sanitized": "sanitized",
    "private/epsilon_data_dependent": "data-dependent",
    "private/epsilon_expected_of_counts": "expected, by counts",
}


def read(results: Path) -> list[dict[str, Any]]:
    records = [json.loads(path.read_text()) for path in sorted(results.glob("trials/*.json"))]
    return [record for record in records if record["finished"]]


def settings_table(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    flat = pd.DataFrame([{**r["metrics"], **{k: r["config"][k] for k in _ROW}} for r in records])
    lines = []
    for key, trials in sorted(flat.groupby(list(_ROW)), key=lambda e: (e[0][0], -e[0][1], e[0][2])):
        lines.append(
            {
                **{
                    name: f"{value:g}"
                    for name, value in zip(("T", "sigma2", "K"), key, strict=True)
                },
                "accuracy, %": _spread(100 * trials["accuracy"]),
                **{t: _range(trials[name]) for name, t in _RANGES.items() if name in trials},
                "right answers": f"{100 * trials['vote_label_accuracy'].mean():.0f}%",
                # All intervals of the attack together.
                "epsilon_m": f"{trials['epsilon_m_low'].min():.1f}{_TO}"
                f"{trials['epsilon_m_high'].max():.1f}",
            }
        )
    return pd.DataFrame(lines)


def _spread(values: pd.Series) -> str:
    spread = values.std() if len(values) > 1 else 0.0
    bounds = f"{values.min():.1f}{_TO}{values.max():.1f}"
    return f"{values.mean():.2f}±{spread:.2f} ({bounds})"


def _range(values: pd.Series) -> str:
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return low if low == high else f"{low}{_TO}{high}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="results folder of the sweep")
    wanted = parser.parse_args()
    records = read(wanted.results)
    if not records:
        parser.error(
            f"no record of a finished trial is in {wanted.results / 'trials'}; name the "
            "folder that a sweep of PATE wrote"
        )
    table = settings_table(records)
    rows = [table.columns, ["---"] * len(table.columns), *table.to_numpy()]
    print("\n".join("| " + " | ".join(row) + " |" for row in rows))


if __name__ == "__main__":
    main()

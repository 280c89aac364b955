"""Accuracy of a comparison of methods, as the Markdown tables of docs/reproduction.md.

    python -m tests.benchmarks.comparison_table results/compare_mnist mnist

reads `pareto.csv` of a results folder: accuracy of every method at every epsilon, and the best
published number.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from tests.benchmarks.interruption import ended

#: Best published accuracy in percent at each epsilon without outside data. LabelDP-Pro holds at a
#: delta, the others are pure.
PUBLISHED = {
    "mnist": {
        0.01: "68.2, LabelDP-Pro",
        0.1: "91.1, LabelDP-Pro",
        0.2: "92.9, LabelDP-Pro",
        0.5: "94.1, LabelDP-Pro",
        1.0: "95.82, LP-2ST",
        2.0: "98.78, LP-2ST",
    },
    "fashion_mnist": {
        0.01: "63.0, LabelDP-Pro",
        0.1: "75.7, LabelDP-Pro",
        0.2: "77.9, LabelDP-Pro",
        0.5: "79.8, LabelDP-Pro",
        1.0: "83.26, LP-2ST",
        2.0: "91.24, LP-2ST",
        4.0: "94.10, LP-2ST",
    },
    "cifar10": {
        0.5: "87.4, LabelDP-Pro on SimCLR",
        1.0: "63.67, LP-2ST",
        2.0: "86.05, LP-2ST",
        4.0: "93.4, LP-2ST",
    },
    "cifar100": {
        4.0: "65.0, ALIBI",
        8.0: "74.4, ALIBI",
    },
}
#: Epsilons are the ledger's: .99999 and 1.0 stand in one column.
_DIGITS = 2

Cells: TypeAlias = dict[str, dict[float, dict[str, str]]]


def read(results: Path) -> Cells:
    """Return the rows of `pareto.csv`: method -> epsilon, rounded -> row."""
    with (results / "pareto.csv").open(newline="", encoding="utf-8") as file:
        cells: Cells = defaultdict(dict)
        for row in csv.DictReader(file):
            cells[row["variant"]][round(float(row["epsilon"]), _DIGITS)] = row
    return cells


def methods_table(cells: Cells, data: str) -> str:
    """Return mean and standard deviation over the seeds, in percent; methods in falling order.

    The best of a column is chosen by the test split. The last row is the best published number.
    """
    epsilons = sorted({epsilon for row in cells.values() for epsilon in row})

    def mean(method: str) -> float:
        return sum(float(row["accuracy"]) for row in cells[method].values()) / len(cells[method])

    lines = ["method", *(f"{epsilon:g}" for epsilon in epsilons)], ["---"] * (len(epsilons) + 1)
    methods = sorted(cells, key=mean, reverse=True)
    rows = [
        [method, *(_cell(cells[method].get(epsilon)) for epsilon in epsilons)] for method in methods
    ]
    for column, epsilon in enumerate(epsilons, start=1):
        best = methods.index(_best_at(cells, epsilon))
        rows[best][column] = f"**{rows[best][column]}**"
    published = [PUBLISHED[data].get(epsilon, "") for epsilon in epsilons]
    return _table([*lines, *rows, ["best published", *published]])


def _best_at(cells: Cells, epsilon: float) -> str:
    """The method with the highest mean accuracy there."""
    at = [method for method, row in cells.items() if epsilon in row]
    return max(at, key=lambda method: float(cells[method][epsilon]["accuracy"]))


def _cell(row: dict[str, str] | None) -> str:
    if row is None:
        return ""
    return f"{100 * float(row['accuracy']):.2f}±{100 * float(row['accuracy_std']):.2f}"


def _table(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="results folder of the comparison")
    parser.add_argument("data", choices=sorted(PUBLISHED), help="whose published numbers to add")
    wanted = parser.parse_args()
    try:
        cells = read(wanted.results)
    except OSError as error:
        parser.error(
            f"{wanted.results / 'pareto.csv'} can't be read ({error.strerror}); name the folder "
            "that a comparison wrote (`labeldp report FOLDER` makes the file again)"
        )
    print(methods_table(cells, wanted.data))


if __name__ == "__main__":
    ended(main)

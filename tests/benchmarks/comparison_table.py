"""Accuracy of a comparison of methods, as the Markdown tables of docs/reproduction.md.

    python -m tests.benchmarks.comparison_table results/compare_mnist mnist

reads `pareto.csv` of a results folder: accuracy of every method at every epsilon, and the best
published number.
"""

import argparse
from pathlib import Path

import pandas as pd

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
        4.0: "99.24, LP-2ST",
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
        1.0: "71.0, ALIBI",
        2.0: "88.1, LP-2ST",
        4.0: "94.2, LP-2ST",
    },
    "cifar100": {4.0: "65.0, ALIBI", 8.0: "74.4, ALIBI"},
}


def table(rows: pd.DataFrame, data: str) -> str:
    """Return mean and standard deviation over the seeds, in percent; methods in falling order.

    The best of a column is chosen by the test split. The last row is the best published number.
    """
    # Epsilons are the ledger's: .99999 and 1.0 stand in one column.
    rows = rows.assign(epsilon=rows["epsilon"].round(2))
    mean = 100 * rows.pivot_table("accuracy", "variant", "epsilon")
    spread = 100 * rows.pivot_table("accuracy_std", "variant", "epsilon")
    lines = [["method", *(f"{epsilon:g}" for epsilon in mean)], ["---"] * (len(mean.columns) + 1)]
    for method in mean.mean(axis=1).sort_values(ascending=False).index:
        cells = [str(method)]
        for epsilon in mean:
            value, best = mean.at[method, epsilon], mean[epsilon].idxmax() == method
            cell = "" if pd.isna(value) else f"{value:.2f}±{spread.at[method, epsilon]:.2f}"
            cells.append(f"**{cell}**" if best else cell)
        lines.append(cells)
    lines.append(["best published", *(PUBLISHED[data].get(epsilon, "") for epsilon in mean)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="results folder of the comparison")
    parser.add_argument("data", choices=sorted(PUBLISHED), help="whose published numbers to add")
    wanted = parser.parse_args()
    try:
        rows = pd.read_csv(wanted.results / "pareto.csv")
    except OSError as error:
        parser.error(
            f"{wanted.results / 'pareto.csv'} can't be read ({error.strerror}); name the folder "
            "that a comparison wrote (`labeldp report FOLDER` makes the file again)"
        )
    print(table(rows, wanted.data))


if __name__ == "__main__":
    main()

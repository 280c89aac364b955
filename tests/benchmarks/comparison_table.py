"""Accuracy of a comparison of methods, as the Markdown tables of docs/reproduction.md.

    python -m tests.benchmarks.comparison_table results/compare_mnist mnist

reads `pareto.csv` of a results folder: accuracy of every method at every epsilon, and the best
published number of docs/leaderboard.json.
"""

import argparse
from pathlib import Path

import pandas as pd

from docs import leaderboard


def published(data: str) -> dict[float, str]:
    """Return the best published accuracy at each epsilon without outside data, with its method."""
    best: dict[float, tuple[float, str]] = {}
    for entry in leaderboard.entries(leaderboard.FILE.read_text()):
        same = entry.data.replace("-", "").lower() == data.replace("_", "")
        comparable = entry.league == "no outside data" and entry.holds == "for any data"
        if same and entry.source and comparable:
            for epsilon, value, *_ in entry.results:
                best[epsilon] = max(best.get(epsilon, (0.0, "")), (value, entry.method))
    return {epsilon: f"{value:g}, {method}" for epsilon, (value, method) in best.items()}


def table(rows: pd.DataFrame, data: str) -> str:
    """Return mean and standard deviation over the seeds, in percent; methods in falling order.

    The best of a column is chosen by the test split. The last row is the best published number.
    """
    # Epsilons are the ledger's: .99999 and 1.0 stand in one column.
    rows = rows.assign(epsilon=rows["epsilon"].round(2))
    mean = 100 * rows.pivot_table("accuracy", "variant", "epsilon")
    spread = 100 * rows.pivot_table("accuracy_std", "variant", "epsilon")
    best_published = published(data)
    lines = [["method", *(f"{epsilon:g}" for epsilon in mean)], ["---"] * (len(mean.columns) + 1)]
    for method in mean.mean(axis=1).sort_values(ascending=False).index:
        cells = [str(method)]
        for epsilon in mean:
            value, best = mean.at[method, epsilon], mean[epsilon].idxmax() == method
            cell = "" if pd.isna(value) else f"{value:.2f}±{spread.at[method, epsilon]:.2f}"
            cells.append(f"**{cell}**" if best else cell)
        lines.append(cells)
    lines.append(["best published", *(best_published.get(epsilon, "") for epsilon in mean)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="results folder of the comparison")
    sets = ("cifar10", "cifar100", "fashion_mnist", "mnist")
    parser.add_argument("data", choices=sets, help="whose published numbers to add")
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

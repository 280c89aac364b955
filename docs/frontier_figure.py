"""Draw docs/frontier.svg from the tables of reproduction.md: `python docs/frontier_figure.py`."""

import math
import re
from pathlib import Path

from matplotlib import pyplot

PAGE = Path(__file__).with_name("reproduction.md")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def margins(text: str, dataset: str) -> list[tuple[float, float, float]]:
    """Epsilon, accuracy of moment labels and best published accuracy, of a data set's table."""
    section = text.split(f"### {dataset}\n", 1)[1].split("\n![", 1)[0]
    rows = {}
    for line in section.splitlines():
        name, *cells = line.strip("|").split("|")
        found = [NUMBER.search(cell) for cell in cells]
        rows[name.strip()] = [float(each[0]) if each else math.nan for each in found]
    table = zip(rows["method"], rows["moment labels"], rows["best published"], strict=True)
    return [row for row in table if not math.isnan(sum(row))]


def main() -> None:
    """Write the figure beside this file."""
    text = PAGE.read_text()
    pyplot.rcParams.update({"svg.hashsalt": "labeldp", "svg.fonttype": "none"})
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for axes, dataset in zip(panels, ("MNIST", "Fashion-MNIST"), strict=True):
        epsilon, ours, published = zip(*margins(text, dataset), strict=True)
        axes.plot(epsilon, ours, "o-", color="#00796b", label="labeldp")
        axes.plot(epsilon, published, "s--", color="#b0562c", label="best published")
        axes.set(title=dataset, xscale="log", xlabel="epsilon", ylabel="test accuracy, %")
        axes.set_xticks(epsilon, [f"{each:g}" for each in epsilon])
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(PAGE.with_name("frontier.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()

"""Draw docs/frontier.svg from the tables of reproduction.md: `python docs/frontier_figure.py`."""

import re
from pathlib import Path

from matplotlib import pyplot

PAGE = Path(__file__).with_name("reproduction.md")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def margins(text: str, dataset: str) -> list[tuple[float, float, float]]:
    """Epsilon, our accuracy and the best published one, of a data set's table of margins."""
    section = text.split(f"### {dataset}\n", 1)[1].split("\n## ", 1)[0]
    table = section.split("| epsilon | best here |", 1)[1].splitlines()[2:]
    rows = []
    for line in table:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) < 5:
            break
        epsilon, ours, published = (NUMBER.match(cells[place]) for place in (0, 2, 3))
        if epsilon and ours and published:
            rows.append((float(epsilon[0]), float(ours[0]), float(published[0])))
    return rows


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

"""Draw docs/label_noise.svg and print the page's table: `python docs/label_noise_figure.py`."""

import math
from pathlib import Path

import numpy as np
from matplotlib import pyplot

from labeldp.mechanisms import LaplaceNoise, SubsetSelection

CLASSES = (2, 10, 100, 1000)
DRAWS = 20_000
IN_TABLE = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
COLORS = {"Laplace noise": "#7a7a7a", "randomized response": "#b0562c", "subset": "#00796b"}


def laplace_nats(epsilon: float, classes: int) -> float:
    """Estimate the nats that a one-hot label with Laplace noise has about a uniform label."""
    mechanism = LaplaceNoise(epsilon=epsilon, num_classes=classes)
    total = 0.0
    rows = max(1, 2_000_000 // classes)
    generator = np.random.default_rng(0)
    for start in range(0, DRAWS, rows):
        labels = np.zeros(min(rows, DRAWS - start), dtype=np.int64)
        likelihood = mechanism.log_likelihood(mechanism.release(labels, generator=generator))
        shifted = likelihood - likelihood[:, :1]  # the true label is class 0
        total += float((math.log(classes) - np.log(np.exp(shifted).sum(axis=1))).sum())
    return total / DRAWS


def subset_nats(epsilon: float, classes: int, size: int | None = None) -> float:
    """Return the nats of a set; of one class it is randomized response."""
    return SubsetSelection(epsilon=epsilon, num_classes=classes, subset_size=size).information


def main() -> None:
    """Write the figure beside this file, and print the table."""
    pyplot.rcParams.update({"svg.hashsalt": "labeldp", "svg.fonttype": "none"})
    figure, panels = pyplot.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
    grid = np.geomspace(0.25, 10, 25)
    print("| classes | epsilon | Laplace | randomized response | subset | size of the best set |")
    print("|---|---|---|---|---|---|")
    for axes, classes in zip(panels, CLASSES, strict=True):
        curves = {
            "Laplace noise": [laplace_nats(epsilon, classes) for epsilon in grid],
            "randomized response": [subset_nats(epsilon, classes, 1) for epsilon in grid],
            "subset": [subset_nats(epsilon, classes) for epsilon in grid],
        }
        for name, nats in curves.items():
            axes.plot(grid, nats, color=COLORS[name], label=name)
        axes.set(title=f"{classes:,} classes", xscale="log", yscale="log", xlabel="epsilon")
        axes.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
        for epsilon in IN_TABLE:
            best = SubsetSelection(epsilon=epsilon, num_classes=classes)
            print(
                f"| {classes:,} | {epsilon:g} | {laplace_nats(epsilon, classes):.3f} | "
                f"{subset_nats(epsilon, classes, 1):.3f} | {best.information:.3f} | {best.size} |"
            )
    panels[0].set_ylabel("nats of one noisy label")
    panels[0].legend()
    figure.savefig(Path(__file__).with_name("label_noise.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()

"""Figures of PATE's votes, for a notebook: what Papernot et al. 2018 drew of theirs."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.platform.report.figures import COLORS, SOFT

#: Bins of the largest count.
_BINS = 20
Votes = NDArray[np.integer[Any]]


def plurality(votes: Votes, aggregator: ConfidentGNMax, *, delta: float) -> Figure:
    """Draw votes [N, K]: the largest counts, the share answered, and the cost of both steps.

    Papernot et al. 2018, Figures 1 and 5. Costs are the papers': expected, of these votes, private.
    """
    costs = aggregator.costs(votes, Accounting.COUNTS)
    largest = votes.max(1)
    likely = np.exp(costs.log_probability)
    edges = np.linspace(0, int(votes[0].sum()), _BINS + 1)
    counts, _ = np.histogram(largest, edges)
    passed, _ = np.histogram(largest, edges, weights=likely)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    width = edges[1]
    left.bar(edges[:-1], counts, width, align="edge", color=COLORS["mb"], label="queries")
    left.bar(edges[:-1], passed, width, align="edge", color=COLORS["m0"], label="answered")
    left.axvline(aggregator.threshold, color=SOFT, linestyle="--")
    left.set(xlabel="votes for the plurality", ylabel="queries")
    left.legend(title=f"{likely.mean():.0%} answered", fontsize="small")
    checks = costs.cost(delta=delta, answered=np.zeros(len(costs), dtype=np.bool_))
    prices = [checks.epsilon, costs.cost(delta=delta).epsilon]
    right.bar(["checks", "with answers"], prices, color=COLORS["m0"])
    right.set(ylabel=f"epsilon at delta {delta:g}, of these votes")
    return figure


def noisy_maxima(
    votes: Votes, noise_stds: Iterable[float], *, delta: float, generator: np.random.Generator
) -> Figure:
    """Draw the share of answers that are the plurality against epsilon, for LNMax and GNMax.

    Papernot et al. 2018, Figure 4: both answer all votes [N, K], with equal noise. Costs as in
    `plurality`.
    """
    figure = Figure(figsize=(7.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    plural = votes.argmax(1)
    every = sorted(noise_stds)
    for name, aggregators in (
        ("GNMax", [GNMax(noise_std=std) for std in every]),
        ("LNMax", [LNMax(scale=std / 2**0.5) for std in every]),
    ):
        epsilons = []
        right = []
        for aggregator in aggregators:
            epsilons.append(aggregator.costs(votes, Accounting.COUNTS).cost(delta=delta).epsilon)
            right.append(float((aggregator.answer(votes, generator=generator) == plural).mean()))
        axes.plot(epsilons, right, marker="o", label=name)
    axes.set(xscale="log", xlabel=f"epsilon at delta {delta:g}", ylabel="answers by plurality")
    axes.legend()
    return figure

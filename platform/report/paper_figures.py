"""For papers and from them: figures, a table, two sweeps compared, and published accuracies.

Figures are drawn from a sweep's records or from a study's rows. Each returns None where there are
no data for it. Those in `FOR_OWNER` show what canaries' true labels decided.

`published.csv` has a row for each published accuracy: its source, the accuracy in percent, and the
settings that it is for. An empty cell stands for any value: network, batch and epochs are the
sweep's to choose.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray
from scipy.special import stdtrit

from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.platform.records.progress import trial_name
from labeldp.platform.records.results import TrialRecord, csv_text
from labeldp.platform.report.figures import (
    COLORS,
    OF_PAPER,
    RC,
    SOFT,
    MethodStyle,
    column,
    save,
    spread,
    styles_of,
)
from labeldp.platform.report.pareto import Point, points, same_epsilon, settings_beside_epsilon
from labeldp.platform.report.wording import bound, number, short_key
from labeldp.platform.settings.metrics import DAGGER, ChooseBy, figure_text
from labeldp.platform.settings.sweep import without_seeds
from labeldp.trainers.data.files import inner_folder, make_folder

#: Figures for a paper by name, and the formats that they are written in.
FIGURES = ("accuracy_vs_epsilon", "epsilon_m_vs_epsilon")
FORMATS = ("pdf", "svg", "png")
#: Formats of the other figures.
KINDS = ("svg", "png")
#: Settings that no published number has another value of, where a method has them.
_AS_PUBLISHED: Mapping[str, Any] = {
    "trainer.randomizer": "rr_with_prior",
    "trainer.prior.source": "uniform",
    "trainer.post_processing": "map_with_prior",
}
#: Trials in a figure of canaries.
_MOST_VIOLINS = 12
#: In a line of a figure's text.
_MOST_LETTERS = 66
#: Bins of the largest count.
_BINS = 20
#: A line in a figure has so many places at most; an axis of more values is drawn by its ends.
_JOINED = 8
#: Trials in a figure of parallel coordinates.
_MOST_LINES = 200
Votes = NDArray[np.integer[Any]]


def canaries(records: Sequence[TrialRecord], folder: Path) -> Figure | None:
    """Draw confidences in canaries' labels beside those in other wrong labels, a pair per trial.

    Malek et al. 2021, Figure 1. The confidences lie in `private/evidence/HASH.npz`.
    """
    found = []
    for record in records:
        file = folder / "private" / "evidence" / f"{record.hash}.npz"
        if record.finished and file.is_file():
            with np.load(file, allow_pickle=False) as kept:
                found.append((record, kept["own"], kept["others"].ravel()))
    found.sort(key=lambda each: (each[0].variant, each[0].metrics["epsilon"]))
    shown = spread(found, _MOST_VIOLINS)
    if not shown:
        return None
    figure, (axes,) = _panels(1, height=0.8 + 0.75 * len(shown))
    for row, (_, own, others) in enumerate(shown):
        for confidences, side, color in ((others, "low", "mb"), (own, "high", "m0")):
            if len(confidences):
                how: dict[str, Any] = {"side": side, "widths": 0.4, "showextrema": False}
                parts = axes.violinplot([confidences], [row], orientation="horizontal", **how)
                parts["bodies"][0].set(facecolor=COLORS[color], alpha=0.8)
        settings = without_seeds(shown[row][0].point)
        settings.pop("trainer.epsilon", None)
        name = fill(trial_name(_line(shown[row][0]), settings), _MOST_LETTERS)
        axes.text(0.02, row + 0.26, name, fontsize="small", transform=axes.get_yaxis_transform())
    axes.set(yticks=(), xlabel="confidence in canaries' labels; below: in others")
    axes.set_ylim(top=len(shown))
    return figure


def heat_map(records: Sequence[TrialRecord]) -> Figure | None:
    """Draw mean accuracy over the first two axes of a sweep.

    Ghazi et al. 2021, Figure 4, has splits and temperature, and mixup of both stages.
    """
    found = points(records)
    table = _table(found)
    axes_there = _axes_of(table)
    if len(axes_there) < 2:
        return None
    # Epsilon has figures of its own.
    rows, columns, *_ = sorted(axes_there, key=lambda key: key == "trainer.epsilon")
    grid = table.pivot_table("accuracy", rows, columns)
    if grid.empty:  # no line has both
        return None
    figure, (axes,) = _panels(1, height=1.2 + 0.45 * len(grid))
    axes.grid(visible=False)
    drawn = axes.imshow(grid, aspect="auto", cmap="cividis")
    axes.set_xticks(range(len(grid.columns)), [str(value) for value in grid.columns])
    axes.set_yticks(range(len(grid)), [str(value) for value in grid.index])
    for place, value in np.ndenumerate(grid.to_numpy()):
        if math.isfinite(value):
            ink = COLORS["ink" if drawn.norm(value) > 0.6 else "card"]
            axes.text(*reversed(place), f"{value:.1f}", ha="center", va="center", color=ink)
    axes.set(xlabel=columns, ylabel=rows)
    figure.colorbar(drawn, label=_words(found))
    return figure


def settings(records: Sequence[TrialRecord]) -> Figure | None:
    """Draw `learned` of a folder's records."""
    found = points(records)
    return learned(found, styles_of(found))


def learned(found: Sequence[Point], styles: Mapping[str, MethodStyle]) -> Figure | None:
    """Draw what settings do: shares of the variance, all axes at once, and accuracy along each.

    The line is an axis too. For PATE the lower panels are threshold, answers and teachers
    (Papernot et al. 2018, Figure 4), means over the other axes. None without an axis.
    """
    table = _table(found)
    keys = [key for key in ("line", *_axes_of(table)) if table[key].nunique() > 1]
    # Accuracy against epsilon is a figure of its own.
    beside = [key for key in keys if key in settings_beside_epsilon(found)]
    numeric = [key for key in beside if pd.api.types.is_numeric_dtype(table[key])]
    several = len(keys) > 1
    rows = several + math.ceil(len(numeric) / 3)
    if not rows:
        return None
    words = _words(found)
    figure = Figure(figsize=(10.5, 3.4 * rows), layout="constrained")
    parts = figure.subfigures(rows, squeeze=False)[:, 0]
    if several:
        left, right = parts[0].subplots(1, 2, width_ratios=(1, 2))
        every = shares(table, keys)
        names = [short_key(key) for key in every]
        left.barh(names, [100 * share for share in every.values()], color=COLORS["mb"])
        left.set(xlabel=f"share of the variance of {words.removesuffix(', %')}, %", xlim=(0, 100))
        left.invert_yaxis()
        _parallel(right, table, [*keys, "accuracy"], styles, words)
    for row, place in enumerate(range(0, len(numeric), 3)):
        own = numeric[place : place + 3]
        panels = parts[several + row].subplots(1, min(3, len(numeric)), squeeze=False)[0]
        for axes in panels[len(own) :]:
            axes.set_visible(False)
        for axes, key in zip(panels, own, strict=False):
            for variant, mine in table.dropna(subset=[key]).groupby("line"):
                line = mine.groupby(key)["accuracy"].mean()
                joined = "-" if len(line) <= _JOINED else "none"
                look = styles[str(variant)]
                axes.plot(line.index, line, joined, color=look.color, marker=look.marker)
            axes.set(xlabel=short_key(key), ylabel=words)
            if _is_wide(table[key]):
                axes.set_xscale("log")
    return figure


def shares(table: pd.DataFrame, keys: Iterable[str]) -> dict[str, float]:
    """Return each axis' share of the variance of accuracy by itself, adjusted for chance (ANOVA).

    It is of the rows that have the axis. Many numbers are taken by quarters. An axis that has no
    value twice is left out.
    """
    found = {}
    for key in keys:
        mine = table.dropna(subset=[key])
        levels = mine[key]
        if levels.nunique() > _JOINED and pd.api.types.is_numeric_dtype(levels):
            levels = pd.qcut(levels, 4, labels=False, duplicates="drop")
        inner = mine["accuracy"] - mine.groupby(levels)["accuracy"].transform("mean")
        spare = len(mine) - levels.nunique()
        total = mine["accuracy"].var()
        if spare > 0 and total > 0:
            found[key] = max(0.0, 1 - float((inner**2).sum()) / spare / total)
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _parallel(
    axes: Any,
    table: pd.DataFrame,
    keys: Sequence[str],
    styles: Mapping[str, MethodStyle],
    words: str,
) -> None:
    """Draw parallel coordinates: a row of the table is a line, the better the stronger."""
    heights = {}
    # Lines cross the values.
    behind = {"facecolor": COLORS["card"], "alpha": 0.8, "linewidth": 0, "pad": 0.5}
    for place, key in enumerate(keys):
        values = table[key]
        numbers = pd.api.types.is_numeric_dtype(values)
        order = sorted(values.dropna().unique(), key=None if numbers else str)
        scaled = values if numbers else values.map({each: at for at, each in enumerate(order)})
        if numbers and _is_wide(values):
            scaled = np.log(values)
        heights[key] = (scaled - scaled.min()) / ((scaled.max() - scaled.min()) or 1.0)
        axes.axvline(place, color=COLORS["line"], zorder=0)
        ends = [values.min(), values.max()] if numbers and len(order) > _JOINED else order
        for each in ends:
            height = heights[key][values == each].iloc[0]
            text = f"{each:.4g}" if numbers else str(each)[:24]
            side = {"ha": "right", "x": place - 0.03} if place == 0 else {"x": place + 0.03}
            how: dict[str, Any] = {"va": "center", "fontsize": "small", "color": SOFT, **side}
            axes.text(y=height, s=text, bbox=behind, **how)
    rank = table["accuracy"].rank(pct=True)
    for row in spread(list(rank.sort_values().index), _MOST_LINES):
        look = styles[str(table["line"][row])]
        line = [heights[key][row] for key in keys]
        axes.plot(line, color=look.color, alpha=0.15 + 0.8 * rank[row] ** 2, linewidth=1.3)
    axes.set_xticks(range(len(keys)), [*map(short_key, keys[:-1]), words])
    axes.set_xlim(-0.15 * len(keys), len(keys) - 0.8)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _words(found: Sequence[Point]) -> str:
    by = found[0].accuracy_by if found else ChooseBy.TEST
    return by.words if by.of_scores else f"{by.words}, %"


def _is_wide(values: pd.Series) -> bool:
    return bool(values.min() > 0 and values.max() >= 5 * values.min())


def stages(records: Sequence[TrialRecord]) -> Figure | None:
    """Draw top-k accuracy before the last stage against final accuracy, and mean k* by stage.

    Ghazi et al. 2021, Figures 3 and 5: a trial with several stages is a point and a line.
    """
    name = "top_k_accuracy_stage_"
    found: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        if record.finished and f"{name}2" in record.metrics:
            found[_line(record)].append(record)
    if not found:
        return None
    figure, (left, right) = _panels(2)
    for variant, mine in found.items():
        last = [max(key for key in record.metrics if key.startswith(name)) for record in mine]
        top = [100 * record.metrics[key] for record, key in zip(mine, last, strict=True)]
        left.plot(top, [100 * r.metrics["accuracy"] for r in mine], "o", label=variant)
        every = pd.DataFrame([record.metrics for record in mine])
        sizes = every.filter(like="mean_top_k_stage_").mean()
        right.plot([int(key.rpartition("_")[2]) for key in sizes.index], sizes, marker="o")
    left.set(xlabel="top-k accuracy before the last stage, %", ylabel="final accuracy, %")
    right.set(xlabel="stage", ylabel="mean k*")
    right.set_xticks(sorted({int(stage) for line in right.lines for stage in line.get_xdata()}))
    _legend(figure, left)
    return figure


FOR_OWNER = ("canaries",)


def plurality(votes: Votes, aggregator: ConfidentGNMax, *, delta: float) -> Figure:
    """Draw votes [N, K]: the largest counts, the share answered, and the cost of both steps.

    Papernot et al. 2018, Figures 1 and 5. Costs are the papers': expected, of these votes, private.
    """
    costs = aggregator.costs(votes, Accounting.COUNTS)
    largest = votes.max(1)
    likely = np.exp(costs.log_probability)
    edges = np.linspace(0, int(votes[0].sum()), _BINS + 1)
    figure, (left, right) = _panels(2)
    left.hist(largest, edges, color=COLORS["mb"], label="queries")
    left.hist(largest, edges, weights=likely, color=COLORS["m0"], label="answered")
    left.axvline(aggregator.threshold, color=SOFT, linestyle="--", label="threshold")
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
    figure, (axes,) = _panels(1)
    plural = votes.argmax(1)
    every = sorted(noise_stds)
    for name, aggregators in (
        ("GNMax", [GNMax(noise_std=std) for std in every]),
        ("LNMax", [LNMax(scale=std / 2**0.5) for std in every]),
    ):
        costs = [each.costs(votes, Accounting.COUNTS) for each in aggregators]
        epsilons = [each.cost(delta=delta).epsilon for each in costs]
        right = [(x.answer(votes, generator=generator) == plural).mean() for x in aggregators]
        axes.plot(epsilons, right, marker="o", label=name)
    axes.set(xlabel=f"epsilon at delta {delta:g}", ylabel="answers by plurality")
    _logarithmic(axes, "x")
    _legend(figure, axes)
    return figure


@rc_context(RC)
def write_reconstruction(rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write the error of recovered votes against what the answers cost, by consensus group.

    Wang et al. 2022, Figure 5. Rows have `votes`, `consensus`, `epsilon` and `error`.
    """
    figure, (axes,) = _panels(1, height=4.2)
    for (votes, consensus), mine in pd.DataFrame(rows).groupby(["votes", "consensus"]):
        line = mine.sort_values("epsilon")
        axes.plot(line["epsilon"], line["error"], marker="o", label=f"{votes}, {consensus}")
    axes.set(
        xlabel="epsilon of the answers, of these votes", ylabel="share of votes in the wrong class"
    )
    _logarithmic(axes, "xy")
    _legend(figure, axes)
    save(figure, *(folder / f"reconstruction.{kind}" for kind in KINDS))


@rc_context(RC)
def write_figures(records: Sequence[TrialRecord], folder: Path) -> list[Path]:
    """Write every figure that records have data for, as SVG and PNG: into `figures/`.

    Those for the owner alone go into `private/figures/`.
    """
    drawn = {
        "canaries": canaries(records, folder),
        "heat_map": heat_map(records),
        "settings": settings(records),
        "stages": stages(records),
    }
    written = []
    for name, figure in drawn.items():
        place = folder / "private" if name in FOR_OWNER else folder
        if figure is not None:
            # Figures are private files; what else is in a folder of the user stays as it is.
            make_folder(place, mode=0o700)
            inner_folder(place / "figures")
            written += save(figure, *(place / "figures" / f"{name}.{kind}" for kind in KINDS))
    return written


@rc_context(RC)
def write_vote_figures(
    votes: Votes, aggregator: object, folder: Path, *, noise_std: float, **how: Any
) -> None:
    """Write figures of votes, for their owner alone: `noisy_maxima`, and `plurality` of a check.

    `noise_std` is the middle one of those that are drawn.
    """
    stds = [noise_std * factor for factor in (0.25, 0.5, 1.0, 2.0, 4.0)]
    drawn = {"noisy_maxima": noisy_maxima(votes, stds, **how)}
    if isinstance(aggregator, ConfidentGNMax):
        drawn["plurality"] = plurality(votes, aggregator, delta=how["delta"])
    make_folder(folder, mode=0o700)
    for name, figure in drawn.items():
        save(figure, *(folder / f"{name}.{kind}" for kind in KINDS))


@rc_context(OF_PAPER)
def write_figure(found: Sequence[Point], name: str, path: Path) -> None:
    """Write a figure of `FIGURES` to a .pdf, .svg or .png, for its owner alone.

    Points without an epsilon stand beyond a dotted line.

    Raises:
        ValueError: Another ending.
    """
    if path.suffix.removeprefix(".").lower() not in FORMATS:
        raise ValueError(f"--to is {str(path)!r}; name a file that ends in .{', .'.join(FORMATS)}")
    save(column(found, styles_of(found), attack=name == FIGURES[1]), path, dpi=300)


def table(found: Sequence[Point], *, kind: str) -> str:
    """Return points by epsilon as a table: `latex` (with booktabs), `markdown` or `csv`."""
    head = ("line", "epsilon", "delta", _words(found), "epsilon_m, at least", "seeds")
    rows = []
    for point in found:
        by = point.accuracy_by
        values = [point.accuracy, *([point.accuracy_std] if len(point.hashes) > 1 else [])]
        quality = " ± ".join(
            figure_text(by, value) if by.of_scores else f"{100 * value:.2f}" for value in values
        )
        attack = f"{point.epsilon_m_low:.2f}" if point.epsilon_m_ceiling else "-"
        # A program reads the .csv, which has delta beside it.
        attack += DAGGER if kind != "csv" and point.epsilon_m_ceiling and point.delta > 0 else ""
        price = (bound(point.epsilon), bound(point.delta))
        rows.append((point.variant, *price, quality, attack, str(len(point.hashes))))
    frame = pd.DataFrame(rows, columns=list(head))
    if kind == "csv":
        return csv_text(frame).rstrip()
    if kind == "markdown":
        cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
        lines = [f"| {' | '.join(row)} |" for row in cells]
        return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
    text: str = frame.to_latex(index=False, escape=True, column_format="lrrrrr")
    for sign, command in ("±", "pm"), ("∞", "infty"), (DAGGER, "dagger"):
        text = text.replace(sign, rf"$\{command}$")
    return text.rstrip()


def differences(first: Sequence[Point], second: Sequence[Point]) -> list[dict[str, Any]]:
    """Compare points of two sweeps of equal line, epsilon and league, the better ones of each.

    Returns:
        Rows of `line`, `epsilon`, `league`, the mean figures `a` and `b`, and of b - a the ends
        `low` and `high` of the 95% interval, Welch's over seeds: None where a side has one seed, or
        is the best of several settings, which looks better than it is.
    """
    mine: dict[Any, list[Point]] = defaultdict(list)
    others: dict[Any, list[Point]] = defaultdict(list)
    for own, found in ((mine, first), (others, second)):
        for each in found:
            own[same_epsilon(each.epsilon), each.variant, each.league].append(each)
    rows = []
    for key in sorted(mine.keys() & others.keys()):
        a = mine[key][0]
        b = others[key][0]
        alone = len(mine[key]) == len(others[key]) == 1 < min(len(a.hashes), len(b.hashes))
        row = {
            "line": key[1],
            "epsilon": key[0],
            "league": key[2],
            "a": a.accuracy,
            "b": b.accuracy,
        }
        rows.append({**row, **(_welch(a, b) if alone else {"low": None, "high": None})})
    return rows


def _welch(a: Point, b: Point) -> dict[str, float]:
    parts = [point.accuracy_std**2 / len(point.hashes) for point in (a, b)]
    middle = b.accuracy - a.accuracy
    if not any(parts):
        return {"low": middle, "high": middle}
    share = sum(
        part**2 / (len(point.hashes) - 1) for part, point in zip(parts, (a, b), strict=True)
    )
    half = float(stdtrit(sum(parts) ** 2 / share, 0.975)) * math.sqrt(sum(parts))
    return {"low": middle - half, "high": middle + half}


class Published(NamedTuple):
    """An accuracy in percent, and its paper and table."""

    percent: float
    source: str


@lru_cache
def published_rows() -> list[tuple[Published, dict[str, str]]]:
    """Return every published number, with its settings by dotted key."""
    found = []
    with Path(__file__).with_name("published.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            published = Published(float(row.pop("percent")), row.pop("source"))
            found.append((published, {key: value for key, value in row.items() if value}))
    return found


def published_for(config: Mapping[str, Any]) -> list[Published]:
    """Return the numbers that were published for a trial's settings, by dotted key."""
    if any(config.get(key, value) != value for key, value in _AS_PUBLISHED.items()):
        return []
    own = {k: f"{v:g}" if isinstance(v, int | float) else v for k, v in config.items()}
    return [published for published, asked in published_rows() if asked.items() <= own.items()]


def _panels(count: int, *, height: float = 3.2) -> tuple[Figure, Any]:
    """Return a figure and its axes, one below the other: it can be read on a telephone too."""
    figure = Figure(figsize=(5.6, count * height), layout="constrained")
    return figure, figure.subplots(count, squeeze=False)[:, 0]


def _logarithmic(axes: Any, names: str) -> None:
    """Scale the axes by powers of 10, with plain numbers: formulas are not set in figures."""
    for name in names:
        axis = getattr(axes, f"{name}axis")
        getattr(axes, f"set_{name}scale")("log")
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")


def _legend(figure: Figure, axes: Any) -> None:
    """Put the names of all lines below the figure, where they hide nothing."""
    handles, names = axes.get_legend_handles_labels()
    shown = [fill(name, _MOST_LETTERS) for name in names]
    columns = 2 if max(map(len, names)) < _MOST_LETTERS // 2 else 1
    figure.legend(handles, shown, loc="outside lower left", fontsize="small", ncols=columns)


def _line(record: TrialRecord) -> str:
    epsilon = record.metrics["epsilon"]
    price = "no privacy" if math.isinf(epsilon) else f"ε {bound(epsilon)}"
    return f"{record.variant}, {price}"


def _table(found: Iterable[Point]) -> pd.DataFrame:
    """A row for each point: its method, axes, and the figure that compares points, in percent."""
    rows = []
    for each in found:
        point = {
            key: value if type(value) in (int, float) else number(value)
            for key, value in each.point
        }
        unit = 1.0 if each.accuracy_by.of_scores else 100.0
        rows.append({"line": each.variant, **point, "accuracy": unit * each.accuracy})
    return pd.DataFrame(rows, columns=None if rows else ["line", "accuracy"])


def _axes_of(table: pd.DataFrame) -> list[str]:
    return [
        key for key in table.columns if key not in ("line", "accuracy") and table[key].nunique() > 1
    ]

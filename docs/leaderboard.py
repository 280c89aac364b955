"""Check docs/leaderboard.json; draw docs/frontier.svg from it, and make a page of the site.

    python docs/leaderboard.py           # checks, and draws
    python docs/leaderboard.py --page    # prints the page

A hook of mkdocs (`mkdocs.yml`): the page is in no folder.

An entry is one method on one data set: `results` has epsilon, value and, where it is known, the
standard deviation. Numbers of labeldp name the command, the time, and the commit whose pages first
held them; others name their paper. Add an entry, and run the command.
"""

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from matplotlib import pyplot
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

FILE = Path(__file__).with_name("leaderboard.json")
FIGURE = FILE.with_name("frontier.svg")
#: Epsilons at which the frontier is tabulated.
_EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
#: Where the figure ends.
_MOST = 10.0
_OWN_LEAGUE = "no outside data"
#: Sets of the figure, and the accuracies between which it shows them, in %.
_SHOWN = {
    "MNIST": (90, 100),
    "Fashion-MNIST": (70, 95),
    "CIFAR-10": (50, 100),
    "CIFAR-100": (20, 80),
}
_Text = Annotated[str, Field(min_length=2, pattern=r"^[^|\n]*$")]
_EXACT = ConfigDict(extra="forbid", frozen=True, strict=True)


class Run(BaseModel):
    """How a number of ours is repeated; `hours` are those of the whole command, or of a trial."""

    model_config = _EXACT

    command: Annotated[str, Field(pattern=r"^(python|labeldp) [^|\n]+$")]
    hours: Annotated[float, Field(gt=0)]
    of: Literal["the command", "a trial, at most"]
    processor: _Text
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{8,40}$")]
    page: Annotated[str, Field(pattern=r"^[a-z_/]+\.md$")]  # in docs


class Entry(BaseModel):
    """A method on a data set.

    Attributes:
        adjacency: The change between neighbors; numbers of several are not compared.
        delta: 0 where epsilon is pure.
        holds: Whether epsilon bounds all data, or is itself computed from the secret labels.
        tuned: Settings tuned on true labels, outside of epsilon.
        source: Of a published number: paper and table.
        run: Of a number of ours.
    """

    model_config = _EXACT

    data: _Text
    metric: Literal["accuracy, %", "RMSE"] = "accuracy, %"
    league: Literal["no outside data", "public encoder"]
    adjacency: Literal["one label is substituted"] = "one label is substituted"
    delta: Annotated[float, Field(ge=0, lt=0.01)]
    holds: Literal["for any data", "for the given data"] = "for any data"
    method: _Text
    network: _Text
    tuned: _Text
    source: _Text | None = None
    run: Run | None = None
    results: Annotated[
        list[Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2, max_length=3)]],
        Field(min_length=1),
    ]

    @model_validator(mode="after")
    def _of_somebody(self) -> Self:
        if (self.source is None) == (self.run is None):
            raise ValueError("an entry has either a source, or a run of ours")
        epsilons = [result[0] for result in self.results]
        if epsilons != sorted(set(epsilons)):
            raise ValueError(f"epsilons are {epsilons}; each stands once, in rising order")
        if self.metric == "accuracy, %" and max(result[1] for result in self.results) > 100:
            raise ValueError("an accuracy is above 100%")
        return self

    @property
    def board(self) -> tuple[str, str, str]:
        """Data set, league and guarantee: rows of equal ones may be compared."""
        kind = "pure" if self.delta == 0 else "at a delta"
        return self.data, self.league, kind if self.holds == "for any data" else self.holds


def entries(text: str) -> list[Entry]:
    """Return the entries in a JSON text; a `ValidationError` names what is wrong with one."""
    return TypeAdapter(list[Entry]).validate_json(text)


class Best(NamedTuple):
    """A result that no other reaches at its epsilon or a smaller one."""

    epsilon: float
    accuracy: float
    entry: Entry


def frontier(found: list[Entry], *, ours: bool, pure: bool) -> list[Best]:
    """Return the best results of entries, epsilon and accuracy rising.

    A pure guarantee holds at every delta: without `pure`, results at delta 0 are among them.
    """
    results = (
        Best(result[0], result[1], entry)
        for entry in found
        if entry.holds == "for any data"
        and (entry.run is not None) == ours
        and (entry.delta == 0 or not pure)
        for result in entry.results
    )
    best: list[Best] = []
    for each in sorted(results, key=lambda each: (each.epsilon, -each.accuracy)):
        if not best or each.accuracy > best[-1].accuracy:
            best.append(each)
    return best


#: Columns of the frontier, and how the figure draws them.
_FRONTIERS = {
    "labeldp, at a delta": {"ours": True, "pure": False},
    "published, at a delta": {"ours": False, "pure": False},
    "labeldp, pure": {"ours": True, "pure": True},
    "published, pure": {"ours": False, "pure": True},
}


def _frontier_table(members: list[Entry], rows: list[Entry]) -> Iterator[str]:
    """Lines of the table of a set and league; none without results of both sides."""
    columns = [frontier(members, **which) for which in _FRONTIERS.values()]
    if not (columns[0] and columns[1]):
        return
    yield from ("", f"### {members[0].data}: {members[0].league}", "")
    yield f"| epsilon | {' | '.join(_FRONTIERS)} |"
    yield "|---" * (1 + len(columns)) + "|"
    for epsilon in _EPSILONS:
        known = [[best for best in column if best.epsilon <= epsilon] for column in columns]
        most = [column[-1].accuracy if column else 0.0 for column in known]
        cells = []
        for place, column in enumerate(known):
            ahead = most[place] > most[place ^ 1]  # labeldp and published stand in pairs
            cells.append(_cell(column[-1], epsilon, rows, ahead=ahead) if column else "")
        if any(cells):
            yield f"| {epsilon:g} | {' | '.join(cells)} |"


def _cell(best: Best, epsilon: float, rows: list[Entry], *, ahead: bool) -> str:
    bold = "**" if ahead else ""
    smaller = f" at {best.epsilon:g}" if best.epsilon < epsilon else ""
    row = rows.index(best.entry) + 1
    return f"{bold}{best.accuracy:g}{bold}{smaller}, {best.entry.method} [{row}](#rows)"


def draw(found: list[Entry], file: Path) -> None:
    """Draw the frontier of each set without outside data."""
    pyplot.rcParams.update({"svg.hashsalt": "labeldp", "svg.fonttype": "none"})
    figure, panels = pyplot.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for axes, (data, shown) in zip(panels.flat, _SHOWN.items(), strict=True):
        members = [each for each in found if (each.data, each.league) == (data, _OWN_LEAGUE)]
        for name, which in _FRONTIERS.items():
            best = frontier(members, **which)
            axes.plot(
                [each.epsilon for each in best] + [_MOST],
                [each.accuracy for each in best] + [best[-1].accuracy],
                label=name,
                color="#00796b" if which["ours"] else "#b0562c",
                drawstyle="steps-post",
                linestyle="--" if which["pure"] else "-",
                marker="o",
                fillstyle="none" if which["pure"] else "full",
                markevery=range(len(best)),
            )
        axes.set(title=data, xscale="log", xlabel="epsilon", ylabel="test accuracy, %")
        axes.set(xlim=(0.04, _MOST), ylim=shown)
        axes.set_xticks(_EPSILONS, [f"{each:g}" for each in _EPSILONS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


#: Columns of the list of rows, next to their numbers.
_ROW_COLUMNS = (
    "data set",
    "league",
    "guarantee",
    "delta",
    "method",
    "network",
    "epsilon: accuracy, %",
    "tuned on true labels",
    "from",
)


def page(found: list[Entry]) -> str:
    """Return the page, in Markdown."""
    return "\n".join(_lines(sorted(found, key=lambda entry: entry.board))) + "\n"


def _lines(found: list[Entry]) -> Iterator[str]:
    yield from (
        "# Leaderboard of label differential privacy",
        "",
        "Compare published numbers with ours. This page is made of "
        "[leaderboard.json](../leaderboard.json), to which you can add.",
        "",
        "- Neighbors differ in **one label, which is substituted**. Features are public.",
        "- Two rows are comparable if they have the same data set, league and guarantee.",
        "- The league is the source of the features. The guarantee is pure, at a delta, or for the "
        "given data: then epsilon was computed from secret votes.",
        "- Below the frontier, bold marks labeldp's rows. Networks differ: a row is a method "
        "**and** its network.",
        "- Epsilon does not cover tuning on true labels; the list of rows states it.",
        "- Our rows name the commit whose pages first had them; hours are upper bounds.",
    )
    yield from ("", "## Frontier", "", "![test accuracy against epsilon](../frontier.svg)", "")
    yield (
        "Each cell is the best accuracy in % at this epsilon or a smaller one; test accuracy chose "
        "it among all rows below. A pure guarantee also holds at a delta. In this section bold "
        "marks the better of labeldp and published."
    )
    for _, group in groupby(found, key=lambda entry: entry.board[:2]):
        yield from _frontier_table(list(group), found)
    columns = ("", *_ROW_COLUMNS)
    yield from ("", "## Rows", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|")
    for number, entry in enumerate(found, start=1):
        yield f"| {number} | {' | '.join(_row(entry))} |"


def _row(entry: Entry) -> Iterator[str]:
    """Cells of an entry, as `_ROW_COLUMNS` names them."""
    data, league, kind = entry.board
    yield data if entry.metric == "accuracy, %" else f"{data} ({entry.metric})"
    yield from (league, kind, f"{entry.delta:.3g}")
    bold = "**" if entry.run else ""
    yield f"{bold}{entry.method}{bold}"
    yield entry.network
    results = (
        f"{epsilon:g}: {value:g}" + "".join(f"±{spread:g}" for spread in spreads)
        for epsilon, value, *spreads in entry.results
    )
    yield f"{bold}{'; '.join(results)}{bold}"
    yield entry.tuned
    if run := entry.run:
        yield (
            f"`{run.command}`: {run.hours:g} hours of {run.of}, {run.processor}; commit "
            f"{run.commit}, [{run.page}](../{run.page})"
        )
    else:
        yield entry.source or ""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to those of the site."""
    content = page(entries(FILE.read_text()))
    files.append(File.generated(config, "reference/leaderboard.md", content=content))
    return files


if __name__ == "__main__":
    FOUND = entries(FILE.read_text())
    if "--page" in sys.argv:
        print(page(FOUND), end="")
    else:
        draw(FOUND, FIGURE)

"""Check docs/leaderboard.json, and write docs/leaderboard.md from it.

    python docs/leaderboard.py

An entry is one method on one data set: `results` has epsilon, value and, where it is known, the
standard deviation. Numbers of labeldp name the command, the time, and the commit whose pages first
held them; others name their paper. Add an entry, and run the command.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

FILE = Path(__file__).with_name("leaderboard.json")
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
        """The table that it stands in: rows of one table may be compared."""
        kind = "pure" if self.delta == 0 else "at a delta"
        return self.data, self.league, kind if self.holds == "for any data" else self.holds


def entries(text: str) -> list[Entry]:
    """Return the entries in a JSON text; a `ValidationError` names what is wrong with one."""
    return TypeAdapter(list[Entry]).validate_json(text)


def page(found: list[Entry]) -> str:
    """Return the page, in Markdown."""
    return "\n".join(_lines(sorted(found, key=lambda entry: entry.board))) + "\n"


def _lines(found: list[Entry]) -> Iterator[str]:
    yield from (
        "# Leaderboard of label differential privacy",
        "",
        "Compare published numbers with ours. `python docs/leaderboard.py` writes this page from "
        "[leaderboard.json](leaderboard.json), to which you can add.",
        "",
        "- Neighbors differ in **one label, which is substituted**. Features are public.",
        "- Each table has one data set, league (source of the features) and guarantee: pure, at a "
        "delta, or for the given data (epsilon was computed from secret votes).",
        "- Bold rows are labeldp's. Networks differ: a row is a method **and** its network.",
        "- Epsilon does not cover tuning on true labels; the list of rows states it.",
        "- Our rows name the commit whose pages first had them; hours are upper bounds.",
    )
    for (data, league, kind), group in groupby(found, key=lambda entry: entry.board):
        members = list(group)
        metric = members[0].metric
        yield from ("", f"## {data}: {league}, {kind}", "")
        yield from (f"| epsilon | {metric} | method | network | |", "|---|---|---|---|---|")
        better = -1 if metric == "accuracy, %" else 1
        rows = [(result, entry) for entry in members for result in entry.results]
        for result, entry in sorted(rows, key=lambda row: (row[0][0], better * row[0][1])):
            bold = "**" if entry.run else ""
            value = f"{result[1]:g}" + "".join(f"±{spread:g}" for spread in result[2:])
            mark = f"[{found.index(entry) + 1}](#rows)"
            cells = [f"{result[0]:g}", f"{bold}{value}{bold}", f"{bold}{entry.method}{bold}"]
            yield f"| {' | '.join(cells)} | {entry.network} | {mark} |"
    yield from ("", "## Rows", "", "| | from | tuned on true labels | delta |", "|---|---|---|---|")
    for number, entry in enumerate(found, start=1):
        origin = entry.source
        if run := entry.run:
            origin = (
                f"`{run.command}`: {run.hours:g} hours of {run.of}, {run.processor}; commit "
                f"{run.commit}, [{run.page}]({run.page})"
            )
        yield f"| {number} | {origin} | {entry.tuned} | {entry.delta:.3g} |"


if __name__ == "__main__":
    FILE.with_suffix(".md").write_text(page(entries(FILE.read_text())))

r"""Results of a sweep for a paper: a figure of a column's width, a table, and two sweeps compared.

>>> print(table([("ALIBI & co", "1", "70.2 ± 1.1")], kind="latex").splitlines()[3])
ALIBI \& co & 1 & 70.2 $\pm$ 1.1 \\
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import rc_context
from scipy.stats import t as student_t

from labeldp.platform.records.results import csv_text
from labeldp.platform.report.figures import column, styles_of
from labeldp.platform.report.pareto import Point, same_epsilon
from labeldp.platform.report.wording import bound
from labeldp.trainers.data.files import replacing

#: Figures by name, and the formats that they are written in.
FIGURES = ("accuracy_vs_epsilon", "epsilon_m_vs_epsilon")
FORMATS = ("pdf", "svg", "png")
#: TrueType fonts, which conferences ask for, and text as text.
_RC: Any = {
    "font.size": 8,
    "legend.fontsize": 7,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "text.parse_math": False,
}
HEAD = ("line", "epsilon", "delta", "accuracy, %", "epsilon_m, at least", "seeds")
_LATEX = {each: f"\\{each}" for each in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
}


def write_figure(found: Sequence[Point], name: str, path: Path) -> None:
    """Write a figure to a file, for its owner alone; its ending is the format.

    Args:
        found: Points of a sweep; trials without an epsilon are a dashed line.
        name: One of `FIGURES`.
        path: File that ends in .pdf, .svg or .png.

    Raises:
        ValueError: Another ending, or nothing to draw.
    """
    ending = path.suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise ValueError(f"--to is {str(path)!r}; name a file that ends in .{', .'.join(FORMATS)}")
    if not found:
        raise ValueError("no trial of this sweep has finished: there is nothing to draw")
    metadata = {} if ending == "png" else {"CreationDate" if ending == "pdf" else "Date": None}
    with rc_context(_RC), replacing(path) as file:
        drawn = column(found, styles_of(found), attack=name == FIGURES[1])
        drawn.savefig(file, format=ending, dpi=300, metadata=metadata)


def rows_of(found: Sequence[Point]) -> list[tuple[str, ...]]:
    """Return the cells of a table under `HEAD`, by epsilon."""
    rows: list[tuple[str, ...]] = []
    for point in found:
        unit = 1.0 if point.accuracy_by.of_scores else 100.0
        spread = f" ± {unit * point.accuracy_std:.2f}" if len(point.hashes) > 1 else ""
        attack = f"{point.epsilon_m_low:.2f}" if point.epsilon_m_ceiling else "-"
        quality = f"{unit * point.accuracy:.2f}{spread}"
        seeds = str(len(point.hashes))
        rows.append(
            (point.variant, bound(point.epsilon), bound(point.delta), quality, attack, seeds)
        )
    return rows


def table(rows: Sequence[Sequence[str]], *, kind: str, head: Sequence[str] = HEAD) -> str:
    """Return rows of texts as `latex`, `markdown` or `csv`; LaTeX's own characters are escaped."""
    if kind == "csv":
        return csv_text(pd.DataFrame(rows, columns=list(head))).rstrip()
    if kind == "markdown":
        cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
        lines = [f"| {' | '.join(row)} |" for row in cells]
        return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
    lines = [" & ".join(map(_latex, row)) + r" \\" for row in (head[: len(rows[0])], *rows)]
    columns = "l" + "r" * (len(lines[0].split(" & ")) - 1)
    end = r"\hline\end{tabular}"
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}\hline", lines[0], r"\hline", *lines[1:], end]
    )


def _latex(text: str) -> str:
    return "".join(_LATEX.get(each, each) for each in text)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A line at an epsilon in two sweeps: B's mean figure minus A's, and its 95% interval.

    `low` and `high` are None where a side has one seed: nothing shows the spread then.
    """

    line: str
    epsilon: float
    a: float
    b: float
    low: float | None
    high: float | None


def differences(first: Sequence[Point], second: Sequence[Point]) -> list[Difference]:
    """Compare the points of two sweeps that agree in line and epsilon, the better ones of each.

    The interval is Welch's, over seeds.
    """
    mine = {(point.variant, same_epsilon(point.epsilon)): point for point in reversed(first)}
    others = {(point.variant, same_epsilon(point.epsilon)): point for point in reversed(second)}
    found = []
    for key in sorted(mine.keys() & others.keys(), key=lambda each: (each[1], each[0])):
        a = mine[key]
        b = others[key]
        ends = _welch(a, b)
        found.append(Difference(line=key[0], epsilon=key[1], a=a.accuracy, b=b.accuracy, **ends))
    return found


def _welch(a: Point, b: Point) -> dict[str, float | None]:
    if min(len(a.hashes), len(b.hashes)) < 2:
        return {"low": None, "high": None}
    parts = [point.accuracy_std**2 / len(point.hashes) for point in (a, b)]
    middle = b.accuracy - a.accuracy
    if not any(parts):
        return {"low": middle, "high": middle}
    share = sum(
        part**2 / (len(point.hashes) - 1) for part, point in zip(parts, (a, b), strict=True)
    )
    half = float(student_t.ppf(0.975, sum(parts) ** 2 / share)) * math.sqrt(sum(parts))
    return {"low": middle - half, "high": middle + half}

"""The page's table: a row for each point, and for each cell what it is sorted by."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate, BestOf
from labeldp.platform.report.edition import Edition
from labeldp.platform.report.pareto import Point, leagues_of, settings_beside_epsilon
from labeldp.platform.report.styles import MethodStyle
from labeldp.platform.report.wording import number, short_key
from labeldp.platform.sweep.accuracy_figures import ChoiceNoise, ChooseBy, beyond_text

#: Beside bounds that are proven at delta 0, of models whose epsilon holds at a larger one.
DAGGER = "†"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column's head.

    Attributes:
        title: Its words.
        term: The glossary's word for it, if it has one.
        text: Whether it holds words, not numbers.
    """

    title: str
    term: str = ""
    text: bool = False


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a row has in a column: words, in small print what belongs to them, and its rank."""

    words: str
    small: str = ""
    order: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A point of the table.

    Attributes:
        cells: One for each column; the first one is the method.
        style: The method's looks.
        front: Whether no other point costs less and is as accurate.
        card: The run card of its first trial.
    """

    cells: tuple[Cell, ...]
    style: MethodStyle
    front: bool
    card: str


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """Columns, rows, and what a reader must know of them."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]


def result_table(
    found: Sequence[Point],
    *,
    best: set[tuple[str, ...]],
    styles: Mapping[str, MethodStyle],
    edition: Edition,
) -> ResultTable:
    """Return the table of some points.

    Args:
        found: In the order of the rows.
        best: Hashes of the points on the front.
        styles: Looks by variant.
        edition: The public one has no column of what the attack proved.
    """
    settings = settings_beside_epsilon(found)
    rows = tuple(
        Row(
            cells=tuple(_cells(point, found, settings, edition)),
            style=styles[point.variant],
            front=point.hashes in best,
            card=point.hashes[0],
        )
        for point in found
    )
    return ResultTable(
        columns=tuple(_columns(found, settings, edition)),
        rows=rows,
        remarks=tuple(_remarks(found, edition)),
    )


def _columns(found: Sequence[Point], settings: Sequence[str], edition: Edition) -> list[Column]:
    # Epsilon and accuracy stand side by side on a telephone too, whichever accuracies there are.
    columns = [Column(title="method", text=True), Column(title="epsilon", term="epsilon")]
    if _measured(found):
        columns.append(Column(title="accuracy, %", term="accuracy"))
    if _estimated(found):
        columns.append(Column(title="estimated, %", term="estimated accuracy"))
    columns.append(Column(title="delta", term="delta"))
    if edition is Edition.OWNER:
        columns.append(Column(title="epsilon_m", term="epsilon_m"))
        columns.append(Column(title="ceiling", term="ceiling"))
    columns += [Column(title=short_key(key), text=True) for key in settings]
    columns.append(Column(title="seeds", term="seed"))
    columns.append(Column(title="noise", term="noise", text=True))
    mixed = len(leagues_of(found)) > 1
    return [*columns, Column(title="league", term="league", text=True)] if mixed else columns


def _cells(
    point: Point, found: Sequence[Point], settings: Sequence[str], edition: Edition
) -> list[Cell]:
    values = dict(point.point)
    cells = [Cell(words=point.variant, order=point.variant.casefold()), _number(point.epsilon)]
    if _measured(found):
        own = point.accuracy_by is ChooseBy.TEST
        cells.append(_share(point.accuracy_test, point.accuracy_std if own else 0.0, point))
    if _estimated(found):
        cells.append(_estimate(point.estimate))
    cells.append(_number(point.delta))
    if edition is Edition.OWNER:
        cells += _attack(point)
    for key in settings:
        value = values.get(key)
        cells.append(_number(value) if isinstance(value, int | float) else _words(value))
    cells += [_number(len(point.hashes)), _words(point.noise)]
    return [*cells, _words(point.league)] if len(leagues_of(found)) > 1 else cells


def _attack(point: Point) -> list[Cell]:
    if point.epsilon_m_ceiling == 0:
        return [Cell(words="not measured", order="-1"), Cell(words="", order="-1")]
    low, high = (number(round(end, 2)) for end in (point.epsilon_m_low, point.epsilon_m_high))
    interval = Cell(
        words=f"{low} to {high}{DAGGER if point.delta > 0 else ''}",
        order=f"{point.epsilon_m_low:.9g}",
    )
    return [interval, _number(round(point.epsilon_m_ceiling, 2))]


def _estimate(estimate: AccuracyEstimate | None) -> Cell:
    if estimate is None:
        return Cell(words="")
    return Cell(
        words=f"{100 * estimate.accuracy:.2f}",
        small=f"error {100 * estimate.error:.2f}"
        + (f"; {beyond_text(estimate.accuracy)}" if beyond_text(estimate.accuracy) else ""),
        order=f"{estimate.accuracy:.9g}",
    )


def _share(accuracy: float | None, spread: float, point: Point) -> Cell:
    if accuracy is None:
        return Cell(words="")
    small = f"± {100 * spread:.2f}" if len(point.hashes) > 1 and spread else ""
    return Cell(words=f"{100 * accuracy:.2f}", small=small, order=f"{accuracy:.9g}")


def _number(value: float) -> Cell:
    if isinstance(value, bool):
        return _words(value)
    order = "1e999" if math.isinf(value) else f"{value:.9g}"
    return Cell(words=number(value), order=order)


def _words(value: object) -> Cell:
    words = "" if value is None else str(value)
    return Cell(words=words, order=words.casefold())


def _remarks(found: Sequence[Point], edition: Edition) -> list[str]:
    """What the columns mean, and how good the best row is if it was chosen by estimates."""
    remarks = []
    if len(leagues_of(found)) > 1:
        remarks.append(
            "Rows are of several leagues, of features that have seen different things: they are "
            "not compared with each other, and each league has a front of its own."
        )
    if _measured(found):
        remarks.append(
            "Accuracy: on the public test split, after the last epoch; where there are several "
            "seeds, mean ± standard deviation over them."
        )
    if _estimated(found):
        remarks.append(
            "Estimated: accuracy on labels that were held out of the training, by what was "
            "released of them, with its standard error; that is part of the guarantee."
        )
    estimates = [point.estimate for point in found if point.estimate is not None]
    if found and found[0].accuracy_by is ChooseBy.ESTIMATED:
        best = BestOf.among(estimates)
        remarks.append(
            "Rows are compared by it, and no test label was looked at to choose one. The best of "
            f"{len(estimates)} looks better than it is: its accuracy lies between "
            f"{100 * best.low:.2f} and {100 * best.high:.2f} with 95% confidence, the choice "
            "corrected for."
        )
        noise = ChoiceNoise.among(estimates)
        if noise.swamps or noise.within_noise:
            how = "decides which row is best" if noise.swamps else "may decide which row is best"
            remarks.append(f"Noise {how}: {noise.text}.")
    if edition is Edition.OWNER and any(point.epsilon_m_ceiling > 0 for point in found):
        remarks.append(
            "epsilon_m: from what the attack proved to the most that it got. Of several seeds the "
            "smallest lower and the largest upper end, so that each end keeps its confidence. It "
            "is measured on labels that were replaced at random, outside of the guarantee: leave "
            "it out, here and in pareto.csv, where these go beyond the labels' owner."
        )
    if edition is Edition.OWNER and any(p.delta > 0 and p.epsilon_m_ceiling > 0 for p in found):
        remarks.append(
            f"{DAGGER} The lower end is proven for delta 0 only: in rows that hold at a delta "
            "above 0 it says that the model is not private at delta 0 with less, and refutes no "
            "epsilon there."
        )
    return remarks


def _measured(found: Sequence[Point]) -> bool:
    return any(point.accuracy_test is not None for point in found) or not found


def _estimated(found: Sequence[Point]) -> bool:
    return any(point.estimate is not None for point in found)

"""Learning curves: accuracy by epoch, a small panel for each method, on one scale.

Where accuracy can't be measured (no public test split), panels show the loss. A panel names its
lines by epsilon at their ends, the stricter the fainter.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.drawing import Drawing, Scale
from labeldp.platform.report.method_styles import MethodStyle
from labeldp.platform.report.pareto import Point
from labeldp.platform.report.wording import number

#: More lines than this can't be told apart in a panel, and more panels than this are not looked at.
MOST_LINES, MOST_PANELS = 8, 12
#: Epochs that are drawn of a line: every one, or some of many.
_MOST_EPOCHS = 80
_WIDTH, _HEIGHT = 340.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 44.0, 26.0, 36.0
#: Names at lines' ends are at least so far from each other.
_LINE = 12.0


@dataclass(frozen=True, kw_only=True)
class CurvePanels:
    """Learning curves of a sweep.

    Attributes:
        panels: One figure for each method.
        shows: `accuracy` or `loss`.
        left_out: Points that would have had lines, in full panels or in panels beyond the last.
    """

    panels: tuple[Markup, ...]
    shows: str
    left_out: int


@dataclass(frozen=True, kw_only=True)
class _Curve:
    """A line: mean over seeds [E] of a number at each epoch [E]."""

    point: Point
    epochs: Sequence[float]
    values: Sequence[float]


def curve_panels(
    found: Sequence[Point],
    *,
    records: Mapping[str, TrialRecord],
    styles: Mapping[str, MethodStyle],
) -> CurvePanels | None:
    """Return learning curves, or None where no trial has two epochs to draw a line between.

    Args:
        found: Points of a sweep.
        records: Its trials by hash.
        styles: Looks by variant.
    """
    shows, curves = "accuracy", _curves(found, records, "val_accuracy", 100.0)
    if not curves:
        shows, curves = "loss", _curves(found, records, "loss", 1.0)
    if not curves:
        return None
    groups = {name: [c for c in curves if c.point.variant == name] for name in styles}
    shown = {n: _spread(mine) for n, mine in list(_filled(groups).items())[:MOST_PANELS]}
    ends = [value for mine in shown.values() for curve in mine for value in curve.values]
    last = max(curve.epochs[-1] for mine in shown.values() for curve in mine)
    first = min(curve.epochs[0] for mine in shown.values() for curve in mine)
    x = Scale(low=first, high=last, start=_LEFT, end=_WIDTH - _RIGHT)
    room = 0.04 * (max(ends) - min(ends)) or 1.0
    y = Scale(
        low=max(0.0, min(ends) - room), high=max(ends) + room, start=_HEIGHT - _BOTTOM, end=_TOP
    )
    return CurvePanels(
        panels=tuple(_panel(n, mine, x, y, styles[n], shows) for n, mine in shown.items()),
        shows=shows,
        left_out=len(curves) - sum(map(len, shown.values())),
    )


def _filled(groups: Mapping[str, list[_Curve]]) -> dict[str, list[_Curve]]:
    return {name: mine for name, mine in groups.items() if mine}


def _spread(mine: Sequence[_Curve]) -> list[_Curve]:
    """Of too many lines some, evenly from the strictest to the loosest."""
    if len(mine) <= MOST_LINES:
        return list(mine)
    step = (len(mine) - 1) / (MOST_LINES - 1)
    return [mine[round(place * step)] for place in range(MOST_LINES)]


def _curves(
    found: Sequence[Point], records: Mapping[str, TrialRecord], metric: str, factor: float
) -> list[_Curve]:
    every = [_curve(point, records, metric, factor) for point in found]
    return [curve for curve in every if curve is not None]


def _curve(
    point: Point, records: Mapping[str, TrialRecord], metric: str, factor: float
) -> _Curve | None:
    by_epoch: dict[float, list[float]] = {}
    for digest in point.hashes:
        for epoch in records[digest].curves:
            value = epoch.get(metric, math.nan)
            if math.isfinite(value):
                by_epoch.setdefault(epoch["epoch"], []).append(factor * value)
    epochs = sorted(by_epoch)
    if len(epochs) < 2:
        return None
    if len(epochs) > _MOST_EPOCHS:
        step = (len(epochs) - 1) / (_MOST_EPOCHS - 1)
        epochs = [epochs[round(place * step)] for place in range(_MOST_EPOCHS)]
    return _Curve(point=point, epochs=epochs, values=[fmean(by_epoch[e]) for e in epochs])


def _panel(
    name: str, mine: Sequence[_Curve], x: Scale, y: Scale, style: MethodStyle, shows: str
) -> Markup:
    picture = Drawing(width=_WIDTH, height=_HEIGHT, name=f"Learning curves of {name}: {shows}")
    picture.marker((8, 9), style, "")
    picture.label((20, 13), name if len(name) <= 40 else f"{name[:39]}…", "heading")
    for tick in y.ticks(5):
        picture.line((_LEFT, y(tick)), (x.end, y(tick)), "grid")
        picture.label((_LEFT - 6, y(tick) + 4), number(tick), "tick", "end")
    for tick in x.ticks(5):
        if tick == round(tick):
            picture.label((x(tick), y.start + 16), number(tick), "tick", "middle")
    picture.label((x.end, y.start + 31), "epoch", "tick", "end")
    for rank, curve in enumerate(mine):
        strength = 4 if len(mine) == 1 else round(1 + 3 * rank / (len(mine) - 1))
        line = [(x(e), y(v)) for e, v in zip(curve.epochs, curve.values, strict=True)]
        picture.trace(
            line, f"curve {style.css} s{strength}", f"epsilon {number(curve.point.epsilon)}"
        )
    for curve, at in zip(mine, _apart([y(c.values[-1]) for c in mine], y), strict=True):
        epsilon = curve.point.epsilon
        words = "none" if math.isinf(epsilon) else f"ε {number(epsilon)}"
        picture.label((x(curve.epochs[-1]) + 5, at + 4), words, "tick")
    return picture.svg()


def _apart(places: Sequence[float], y: Scale) -> list[float]:
    """Move places up and down until names fit between them, in the same order."""
    order = sorted(range(len(places)), key=lambda i: (places[i], -i))
    found = list(places)
    for before, here in itertools.pairwise(order):
        found[here] = max(found[here], found[before] + _LINE)
    over = max((found[i] for i in order), default=0.0) - (y.start + 4)
    if over > 0:
        limit = y.start + 4
        for here in reversed(order):
            found[here] = min(found[here], limit)
            limit = found[here] - _LINE
    return found

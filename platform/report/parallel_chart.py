"""Parallel coordinates: every point of the search space is a line from setting to setting.

The last axes are epsilon and accuracy: lines that end high say which settings led there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from labeldp.platform.report.drawing import Drawing, Scale
from labeldp.platform.report.method_styles import MethodStyle
from labeldp.platform.report.pareto import Point, same_epsilon, settings_beside_epsilon
from labeldp.platform.report.wording import number, short_key
from labeldp.platform.sweep.accuracy_figures import ChooseBy

_HEIGHT, _TOP, _BOTTOM = 300.0, 34.0, 34.0
_EACH, _SIDE, _LEAST = 118.0, 84.0, 720.0
#: An axis whose numbers differ by more than this factor is a logarithmic one.
_LOG_FROM = 10.0
#: Values that can be named along an axis.
_MOST_NAMES = 12
_EPSILON = "epsilon"


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """One setting or outcome: where each point crosses it, and what is written along it."""

    title: str
    places: Sequence[float]
    marks: Sequence[tuple[float, str]]


def parallel_chart(found: Sequence[Point], *, styles: Mapping[str, MethodStyle]) -> Markup | None:
    """Return the figure, or None where fewer than two points or settings are to be compared.

    Args:
        found: Points of a sweep.
        styles: Looks by variant.
    """
    axes = _axes(found)
    if len(found) < 2 or len(axes) < 3:
        return None
    each = max(_EACH, (_LEAST - 2 * _SIDE) / (len(axes) - 1))
    width = 2 * _SIDE + each * (len(axes) - 1)
    picture = Drawing(
        width=width,
        height=_HEIGHT,
        name="Settings of every point, one axis each, up to its epsilon and accuracy.",
    )
    across = [_SIDE + each * place for place in range(len(axes))]
    faint = "many" if len(found) > 60 else "few"
    for row, point in enumerate(found):
        line = [(x, axis.places[row]) for x, axis in zip(across, axes, strict=True)]
        hint = f"{point.variant}, epsilon {number(point.epsilon)}"
        picture.trace(line, f"thread {faint} {styles[point.variant].css}", hint)
    for x, axis in zip(across, axes, strict=True):
        picture.line((x, _TOP), (x, _HEIGHT - _BOTTOM), "axis")
        picture.label((x, _TOP - 16), axis.title, "heading", "middle")
        last = x == across[-1]
        for place, words in axis.marks:
            at = (x + 7, place + 4) if last else (x - 7, place + 4)
            picture.label(at, words, "tick halo", "start" if last else "end")
    return picture.svg()


def _axes(found: Sequence[Point]) -> list[_Axis]:
    """The method if there are several, settings that differ, epsilon, accuracy."""
    columns: list[tuple[str, list[Any]]] = []
    if len({point.variant for point in found}) > 1:
        columns.append(("method", [point.variant for point in found]))
    for key in settings_beside_epsilon(found):
        values = [dict(point.point).get(key) for point in found]
        if len(set(map(repr, values))) > 1:
            columns.append((short_key(key), values))
    columns.append((_EPSILON, [same_epsilon(point.epsilon) for point in found]))
    accuracies = [round(100 * point.accuracy, 2) for point in found]
    estimated = any(point.accuracy_by is ChooseBy.ESTIMATED for point in found)
    what = "estimated accuracy, %" if estimated else "accuracy, %"
    axes = [_axis(title, values, may_be_log=True) for title, values in columns]
    return [*axes, _axis(what, accuracies, may_be_log=False)]


def _axis(title: str, values: Sequence[Any], *, may_be_log: bool) -> _Axis:
    bottom, top = _HEIGHT - _BOTTOM, _TOP + 6
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    finite = [float(v) for v in numbers if math.isfinite(v)]
    if len(numbers) < len(values) or not finite:
        return _named_axis(title, values, bottom - 6, top)
    low, high = min(finite), max(finite)
    log = may_be_log and low > 0 and high / low >= _LOG_FROM
    # What is infinite has the top end for itself.
    highest = top + 24 if len(finite) < len(values) else top
    scale = Scale(low=low, high=high, start=bottom - 6, end=highest, log=log)
    places = [scale(float(v)) if math.isfinite(v) else top for v in values]
    distinct = sorted(set(finite))
    few = len(distinct) <= _MOST_NAMES // 2
    ticks = distinct if few else ([low, high] if log else scale.ticks(5))
    marks = [(scale(tick), number(float(tick))) for tick in ticks]
    if len(finite) < len(values):
        marks.append((top, "none" if title == _EPSILON else "∞"))
    return _Axis(title=title, places=places, marks=marks)


def _named_axis(title: str, values: Sequence[Any], bottom: float, top: float) -> _Axis:
    names = sorted({_name(value) for value in values}, key=lambda name: (name.casefold(), name))
    scale = Scale(low=0, high=max(1, len(names) - 1), start=top, end=bottom)
    where = {
        name: scale(rank) if len(names) > 1 else (top + bottom) / 2
        for rank, name in enumerate(names)
    }
    marks = [(where[name], name if len(name) <= 14 else f"{name[:13]}…") for name in names]
    return _Axis(
        title=title,
        places=[where[_name(value)] for value in values],
        marks=marks if len(marks) <= _MOST_NAMES else [],
    )


def _name(value: Any) -> str:
    return "–" if value is None else number(value)

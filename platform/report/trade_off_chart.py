"""Accuracy against epsilon, and below it what the attack proved: one figure on one axis.

A baseline without privacy has no place on that axis: it stands in a band of its own, to the right.
Who looks for leaks compares the lower panel's markers with two lines: the curve of the provable
epsilon, above which a marker would refute the guarantee, and the dashed ceiling, above which no
attack on so many canaries can get.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.drawing import Drawing, Place, Scale
from labeldp.platform.report.method_styles import MethodStyle
from labeldp.platform.report.pareto import Point, front, same_epsilon
from labeldp.platform.report.wording import number, percent
from labeldp.platform.sweep.accuracy_figures import ChooseBy

_LEFT, _RIGHT, _TOP, _GAP = 46.0, 10.0, 22.0, 34.0
#: Heights of the panels, and of what is below them.
_UPPER, _LOWER, _BELOW = 250.0, 150.0, 40.0
#: Between markers of two methods at one epsilon, and the most that they may take in all.
_BESIDE, _WIDEST = 7.0, 34.0
#: Marks of epsilons are at least so far from each other.
_MARK = 34.0


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """Where things are.

    Attributes:
        x: Of finite epsilons.
        band: Middle of the band of baselines; None without one.
        right: End of the figure.
        accuracy: Upwards, in percent.
        leak: Upwards, epsilon_m; None without an attack.
        beside: Variant -> how far its markers are moved, so that none hides another.
    """

    x: Scale
    band: float | None
    right: float
    accuracy: Scale
    leak: Scale | None
    beside: Mapping[str, float]

    def place(self, point: Point) -> float:
        """Where a point stands along the axis."""
        middle = self.band if math.isinf(point.epsilon) else self.x(max(point.epsilon, self.x.low))
        assert middle is not None, "a baseline has a band"
        return middle + self.beside[point.variant]


def trade_off_chart(
    found: Sequence[Point],
    *,
    records: Mapping[str, TrialRecord],
    styles: Mapping[str, MethodStyle],
    width: float,
    attack: bool,
) -> Markup:
    """Return the figure.

    Args:
        found: Points of a sweep, at least one.
        records: Its trials by hash: each seed is a dot.
        styles: Looks by variant.
        width: Of the view: what is wide enough for a desk is too small to read on a telephone.
        attack: Whether to show what the attack proved, where there was one.
    """
    attack = attack and any(point.epsilon_m_ceiling > 0 for point in found)
    frame = _frame(found, records, width, attack)
    height = _TOP + _UPPER + (_GAP + _LOWER if frame.leak else 0) + _BELOW
    name = "Accuracy against provable epsilon" + (
        ", and below it what the attack proved" if frame.leak else ""
    )
    picture = Drawing(width=width, height=height, name=f"{name}; the table has the same numbers.")
    _axes(picture, frame, found)
    _front(picture, frame, found)
    for variant in {point.variant: None for point in found}:
        mine = [point for point in found if point.variant == variant]
        _accuracies(picture, frame, mine, records, styles[variant])
    if frame.leak:
        _leaks(picture, frame, frame.leak, found, styles)
    return picture.svg()


def _frame(
    found: Sequence[Point], records: Mapping[str, TrialRecord], width: float, attack: bool
) -> _Frame:
    finite = [p.epsilon for p in found if 0 < p.epsilon < math.inf] or [1.0]
    baseline = any(math.isinf(point.epsilon) for point in found)
    only_baseline = baseline and all(math.isinf(point.epsilon) for point in found)
    right = width - _RIGHT
    band_width = 0.0 if not baseline else max(64.0, 0.12 * width)
    x_end = right - band_width - (12 if baseline else 0)
    spread = max(1.25, (max(finite) / min(finite)) ** 0.08)
    band = (_LEFT + right) / 2 if only_baseline else right - band_width / 2
    seen = [100 * a for point in found for a in _seeds(point, records)]
    low, high = min(seen), max(seen)
    room = max(0.08 * (high - low), 1.0)
    top = _TOP + _UPPER
    leak = None
    if attack:
        lows = [p.epsilon_m_low for p in found if math.isfinite(p.epsilon_m_low)]
        most = max(*lows, *(p.epsilon_m_ceiling for p in found), 0.1)
        leak = Scale(low=0, high=1.12 * most, start=top + _GAP + _LOWER, end=top + _GAP)
    return _Frame(
        x=Scale(
            low=min(finite) / spread, high=max(finite) * spread, start=_LEFT, end=x_end, log=True
        ),
        band=band if baseline else None,
        right=right,
        # Estimates may lie outside of 0 to 100, by their noise.
        accuracy=Scale(
            low=max(min(0.0, low), low - room),
            high=min(max(100.0, high), high + room),
            start=top,
            end=_TOP,
        ),
        leak=leak,
        beside=_beside(found),
    )


def _beside(found: Sequence[Point]) -> dict[str, float]:
    """Give each method a place beside the others: private ones on the axis, baselines in theirs."""
    moved: dict[str, float] = {}
    for infinite in (False, True):
        names = list({p.variant: None for p in found if math.isinf(p.epsilon) == infinite})
        step = min(_BESIDE, _WIDEST / max(1, len(names) - 1))
        for place, name in enumerate(names):
            moved.setdefault(name, step * (place - (len(names) - 1) / 2))
    return moved


def _axes(picture: Drawing, frame: _Frame, found: Sequence[Point]) -> None:
    """Draw grids, marks and titles of both panels."""
    estimated = found[0].accuracy_by is ChooseBy.ESTIMATED
    ends = [frame.x.end] if frame.band is not None and frame.x.end > _LEFT else []
    panels = [(frame.accuracy, f"{'estimated ' if estimated else ''}accuracy, %")]
    if frame.leak:
        panels.append((frame.leak, "epsilon_m: what the attack proved"))
    for scale, title in panels:
        for tick in scale.ticks(5):
            picture.line((_LEFT, scale(tick)), (frame.right, scale(tick)), "grid")
            picture.label((_LEFT - 7, scale(tick) + 4), number(tick), "tick", "end")
        picture.label((0, scale.end - 11), title, "title")
        for end in ends:
            picture.line((end + 6, scale.start), (end + 6, scale.end), "break")
    bottom = panels[-1][0].start
    last = -math.inf
    for epsilon in sorted({same_epsilon(p.epsilon) for p in found if p.epsilon < math.inf}):
        at = frame.x(max(epsilon, frame.x.low))
        if at - last >= _MARK:
            picture.line((at, bottom), (at, bottom + 4), "axis")
            picture.label((at, bottom + 17), number(epsilon), "tick", "middle")
            last = at
    if frame.band is not None:
        picture.label((frame.band, bottom + 17), "no privacy", "tick", "middle")
    if last > -math.inf:
        middle = (_LEFT + frame.x.end) / 2
        picture.label(
            (middle, bottom + 34), "provable epsilon (smaller is stricter)", "tick", "middle"
        )


def _front(picture: Drawing, frame: _Frame, found: Sequence[Point]) -> None:
    """Draw the best accuracy that each epsilon buys, as a staircase."""
    steps: list[Place] = []
    for point in front(p for p in found if math.isfinite(p.epsilon)):
        x, y = frame.x(max(point.epsilon, frame.x.low)), frame.accuracy(100 * point.accuracy)
        steps += [(x, steps[-1][1]), (x, y)] if steps else [(x, y)]
    if steps:
        steps.append((frame.x.end, steps[-1][1]))
        picture.trace(steps, "front")


def _accuracies(
    picture: Drawing,
    frame: _Frame,
    mine: Sequence[Point],
    records: Mapping[str, TrialRecord],
    style: MethodStyle,
) -> None:
    """Draw one method's points, the spread over seeds, and each seed."""
    finite = [point for point in mine if math.isfinite(point.epsilon)]
    places = [(frame.place(p), frame.accuracy(100 * p.accuracy)) for p in finite]
    if 1 < len(finite) == len({same_epsilon(point.epsilon) for point in finite}):
        picture.trace(places, f"path {style.css}")
    for point in mine:
        x = frame.place(point)
        seeds = _seeds(point, records)
        if len(seeds) > 1:
            ends = (point.accuracy - point.accuracy_std, point.accuracy + point.accuracy_std)
            low, high = (frame.accuracy(100 * end) for end in ends)
            picture.line((x, low), (x, high), f"spread {style.css}")
            for accuracy in seeds:
                y = frame.accuracy(100 * accuracy)
                picture.add("circle", css=f"seed {style.css}", cx=x, cy=y, r=2.0)
        spread = f" ± {100 * point.accuracy_std:.1f}" if len(seeds) > 1 else ""
        hint = f"{_named(point)}: accuracy {percent(point.accuracy)}{spread}"
        picture.marker((x, frame.accuracy(100 * point.accuracy)), style, hint)


def _leaks(
    picture: Drawing,
    frame: _Frame,
    scale: Scale,
    found: Sequence[Point],
    styles: Mapping[str, MethodStyle],
) -> None:
    """Draw the attack's intervals, what it could have proved, and what it can't if all is well."""
    ceiling = max(point.epsilon_m_ceiling for point in found)
    if any(0 < point.epsilon < math.inf for point in found):
        count = 48
        grid = [frame.x.low * (frame.x.high / frame.x.low) ** (i / count) for i in range(count + 1)]
        grid.append(min(scale.high, frame.x.high))
        curve = [(frame.x(e), scale(e)) for e in sorted(grid) if frame.x.low <= e <= scale.high]
        if curve:
            # Closed along the top: where a marker would say that a guarantee does not hold.
            corners = [(curve[-1][0], scale.end), (frame.x.start, scale.end)]
            picture.trace([*curve, *corners], "forbidden")
            picture.trace(curve, "guarantee")
            picture.label((frame.x.start + 6, scale.end + 34), "more than is guaranteed", "remark")
    picture.line((_LEFT, scale(ceiling)), (frame.right, scale(ceiling)), "ceiling")
    words = f"ceiling {number(round(ceiling, 2))}"
    picture.label((frame.right, scale(ceiling) - 5), words, "remark", "end")
    for point in found:
        x, style = frame.place(point), styles[point.variant]
        top = min(point.epsilon_m_high, scale.high)
        picture.line((x, scale(point.epsilon_m_low)), (x, scale(top)), f"interval {style.css}")
        hint = (
            f"{_named(point)}: the attack proved {number(round(point.epsilon_m_low, 2))}; it got "
            f"at most {number(point.epsilon_m_high)}"
        )
        picture.marker((x, scale(point.epsilon_m_low)), style, hint)


def _seeds(point: Point, records: Mapping[str, TrialRecord]) -> list[float]:
    return [records[digest].metrics[point.accuracy_by.metric] for digest in point.hashes]


def _named(point: Point) -> str:
    return f"{point.variant}, epsilon {number(point.epsilon)}"

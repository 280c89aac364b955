"""Figures of reports: one function each draws with matplotlib, for a page (SVG) or as PNG.

Colors are those of the style sheet by name, so that figures in a page follow light and dark.
"""

import hashlib
import html
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from labeldp.platform.report.pareto import Point, front, same_epsilon
from labeldp.platform.report.wording import bound, number
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.trainers.data.files import replacing

_SHEET = (Path(__file__).parent / "templates" / "page.css").read_text()
#: Name of a variable of the style sheet -> its color in light, which figures on paper have.
COLORS: dict[str, str] = dict(re.findall(r"--([\w-]+): (#\w{6})", _SHEET[: _SHEET.index("}")]))
_INK, SOFT, _LINE, _GRID = (COLORS[name] for name in ("ink", "soft", "line", "grid"))
RC: Any = {
    "font.size": 11.5,
    "axes.prop_cycle": cycler(color=[COLORS[f"m{place}"] for place in range(8)]),
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _LINE,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": _GRID,
    "axes.axisbelow": True,
    "text.color": _INK,
    "axes.titlecolor": _INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    # A title at a given height: matplotlib would measure every label to find one.
    "axes.titley": 1.0,
}
#: TrueType fonts, which conferences ask for, and text as text.
OF_PAPER: Any = {
    "font.size": 8,
    "legend.fontsize": 7,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "text.parse_math": False,
}
#: Width of the figure of accuracy against epsilon.
_WIDTH = 760.0
_METHODS = 8
#: Height of a marker, as a share of a panel's; its width is a third of that share.
_MARKER = 0.045
#: Markers in figures, and the same as characters for a page's text.
_MARKERS = "osD^vPX*"
_GLYPHS = "●■◆▲▼✚✖★"
_T = TypeVar("_T")


class MethodStyle(NamedTuple):
    """A method's color and marker in every figure and table of a page.

    Colors are distinct with any color vision (after Okabe and Ito, 2008, darkened to three times
    the paper's luminance or more); markers say the same in grey print.
    """

    css: str
    color: str
    marker: str
    glyph: str


def styles_of(points: Sequence[Point], others: Iterable[str] = ()) -> Mapping[str, MethodStyle]:
    """Return each method's style: private ones first, by name; baselines are grey.

    `others` have no point.
    """
    private = {point.variant for point in points if math.isfinite(point.epsilon)}
    baselines = {point.variant for point in points} - private
    names = sorted({*private, *baselines, *others}, key=lambda x: (x in baselines, x.casefold(), x))
    styles = {}
    for place, name in enumerate(names):
        css = "mb" if name in baselines else f"m{place % _METHODS}"
        # From the ninth method on, a color comes with another marker.
        mark = (place + place // _METHODS) % _METHODS
        styles[name] = MethodStyle(css, COLORS[css], _MARKERS[mark], _GLYPHS[mark])
    return styles


def svg(name: str, draw: Callable[..., Any], *shown: Any, **how: Any) -> Markup:
    """Return a figure as an element of a page, in its colors and fonts; `name` describes it."""
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # Marks of two figures on a page must not have the same id.
    salt = hashlib.sha256(f"{name} {how!r}".encode()).hexdigest()
    with rc_context({**RC, "svg.hashsalt": salt}):
        draw(*shown, **how).savefig(file, format="svg", transparent=True, metadata=nothing)
    _, _, text = file.getvalue().partition("<svg")
    (view,) = re.findall(r'viewBox="([^"]*)"', text)
    text = text.partition(">")[2]
    for pattern, by in (
        (r"<metadata>.*?</metadata>|<clipPath.*?</clipPath>", ""),
        (r' clip-path="[^"]*"| id="(?!m[0-9a-f]{10})[^"]*"|<!--.*?-->', ""),
        (r"font: ([^;\"]*?)([\d.]+px) [^;\"]*", r"font-size: \2"),
        (r"xlink:href", "href"),
        (r"\s*\n\s*", "\n"),
    ):
        text = re.sub(pattern, by, text, flags=re.S)
    for variable, color in reversed(COLORS.items()):  # a method's color before others like it
        text = text.replace(color, f"var(--{variable})")
    return Markup(
        f'<svg viewBox="{view}" role="img" aria-label="{html.escape(name)}">{text.strip()}'
    )


def save(figure: Figure, *paths: Path, dpi: int = 130) -> list[Path]:
    """Write a figure to files for their owner alone, in the format of each one's ending.

    It is drawn and written within one `rc_context`.
    """
    for path in paths:
        ending = path.suffix[1:].lower()
        # Without the time: equal figures are equal files.
        stamp = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(ending)
        with replacing(path) as file:
            figure.savefig(file, format=ending, dpi=dpi, metadata=stamp)
    return list(paths)


def trade_off(
    points: Sequence[Point], styles: Mapping[str, MethodStyle], *, attack: bool
) -> Figure:
    """Draw accuracy against epsilon, and below it what the attack proved.

    Baselines stand in a band of their own, to the right. A marker of the attack in the shaded field
    refutes a guarantee at delta 0; none can lie above the dashed ceiling.
    """
    heights = [250, 150] if attack else [250]
    height = 24 + sum(heights) + 44 * (len(heights) - 1) + 42
    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    grid = figure.add_gridspec(
        len(heights),
        height_ratios=heights,
        hspace=44 / 200,  # as a share of the mean panel
        left=46 / _WIDTH,
        right=1 - 10 / _WIDTH,
        top=1 - 24 / height,
        bottom=42 / height,
    )
    panels = grid.subplots(sharex=True, squeeze=False)[:, 0]
    panels[0].set_xscale("log")
    scale = _scale(points)
    for axes, draw in zip(panels, (_draw_accuracy, _draw_attack), strict=False):
        axes.set_title(draw(axes, points, styles, scale), color=SOFT, pad=6)
    _mark_epsilons(panels[-1], points, scale)
    return figure


def column(points: Sequence[Point], styles: Mapping[str, MethodStyle], *, attack: bool) -> Figure:
    """Draw accuracy, or what the attack proved, against epsilon, as wide as a paper's column."""
    # A legend above never covers a line.
    figure = Figure(figsize=(3.3, 2.3 + 0.15 * math.ceil(len(styles) / 2)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xscale("log")
    scale = _scale(points)
    words = (_draw_attack if attack else _draw_accuracy)(axes, points, styles, scale)
    _mark_epsilons(axes, points, scale)
    axes.set(ylabel="epsilon_m, at least" if attack else words, xlabel="epsilon")
    handles, names = axes.get_legend_handles_labels()
    # matplotlib leaves out names that begin with an underscore.
    shown = [f" {name}" if name.startswith("_") else name for name in names]
    figure.legend(handles, shown, loc="outside upper center", ncols=2, frameon=False)
    return figure


def _draw_accuracy(
    axes: Axes, points: Sequence[Point], styles: Mapping[str, MethodStyle], scale: "_Scale"
) -> str:
    """Draw accuracy over epsilon, and the front as steps; return what it is in words."""
    by = points[0].accuracy_by if points else ChooseBy.TEST
    unit = 1.0 if by.of_scores else 100.0
    best = front(point for point in points if math.isfinite(point.epsilon))
    for league in {point.league for point in best}:
        steps = [(scale.at(p.epsilon), unit * p.accuracy) for p in best if p.league == league]
        steps.append((scale.high, steps[-1][1]))
        axes.step(*zip(*steps, strict=True), where="post", color=_LINE, linewidth=5, zorder=0)
    spots = _side_by_side(points, [unit * point.accuracy for point in points], scale)
    for variant, style in styles.items():
        mine = [point for point in points if point.variant == variant]
        places = [x for x, p in zip(spots, points, strict=True) if p.variant == variant]
        heights = [unit * p.accuracy for p in mine]
        private = [point.epsilon for point in mine if math.isfinite(point.epsilon)]
        if len(set(map(same_epsilon, private))) == len(private):
            line = (places[: len(private)], heights[: len(private)])
            axes.plot(*line, color=style.color, alpha=0.45)
        spreads = [unit * point.accuracy_std for point in mine]
        axes.errorbar(places, heights, spreads, fmt="none", ecolor=style.color, elinewidth=1.8)
        _markers(axes, places, heights, style, label=variant)
    return by.words if by.of_scores else f"{by.words}, %"


class _Scale(NamedTuple):
    """A logarithmic axis of epsilon, and the place beyond it for baselines."""

    low: float
    high: float
    beyond: float
    end: float

    def at(self, epsilon: float) -> float:
        return self.beyond if math.isinf(epsilon) else max(epsilon, self.low)


def _scale(points: Sequence[Point]) -> _Scale:
    finite = [p.epsilon for p in points if 0 < p.epsilon < math.inf] or [1.0]
    low = min(finite) / 1.25
    high = max(finite) * 1.25
    beyond = high * max(1.25, (high / low) ** 0.1)
    baselines = any(math.isinf(point.epsilon) for point in points)
    return _Scale(low, high, beyond, beyond * (high / low) ** 0.1 if baselines else high)


def _side_by_side(points: Sequence[Point], heights: Sequence[float], scale: _Scale) -> list[float]:
    """Return places along epsilon; markers of methods that would cover each other stand apart."""
    room = _MARKER * (max(heights, default=0.0) - min(heights, default=0.0))
    places = []
    for point, height in zip(points, heights, strict=True):
        near = [
            other.variant
            for other, its in zip(points, heights, strict=True)
            if same_epsilon(other.epsilon) == same_epsilon(point.epsilon)
            and (other is point or abs(its - height) <= room)
        ]
        names = sorted({*near}, key=str.casefold)
        step = (scale.end / scale.low) ** min(_MARKER / 3, 0.1 / len(names))
        shift = names.index(point.variant) - (len(names) - 1) / 2
        places.append(scale.at(point.epsilon) * step**shift)
    return places


def _markers(
    axes: Axes, places: Sequence[float], heights: Sequence[float], style: MethodStyle, *, label: str
) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    axes.plot(
        places,
        heights,
        linestyle="none",
        marker=style.marker,
        markersize=min(9.0, 1.3 * figure.get_figwidth()),
        zorder=3,
        markerfacecolor=style.color,
        markeredgecolor=COLORS["card"],
        label=label,
        clip_on=False,
    )


def _mark_epsilons(axes: Axes, points: Sequence[Point], scale: _Scale) -> None:
    ticks = dict[float, str]()
    if scale.end > scale.high:
        for panel in axes.figure.axes:
            panel.axvline(scale.high, color=_LINE, linestyle=":")
    apart = (scale.end / scale.low) ** 0.05
    for epsilon in sorted({same_epsilon(point.epsilon) for point in points}):
        words = "no privacy" if math.isinf(epsilon) else bound(epsilon)
        if scale.at(epsilon) > apart * max(ticks, default=0.0):
            ticks[scale.at(epsilon)] = words
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.set_xlim(scale.low, scale.end)
    axes.set_xlabel("provable epsilon (smaller is stricter)")


def _draw_attack(
    axes: Axes, points: Sequence[Point], styles: Mapping[str, MethodStyle], scale: _Scale
) -> str:
    ceiling = max(point.epsilon_m_ceiling for point in points)
    lows = [p.epsilon_m_low for p in points if math.isfinite(p.epsilon_m_low)]
    top = 1.12 * max(*lows, ceiling, 0.1)
    if any(math.isfinite(point.epsilon) for point in points):
        curve = np.geomspace(scale.low, scale.high, 49)
        axes.fill_between(curve, np.minimum(curve, top), top, color=COLORS["forbidden"])
        axes.plot(curve[curve <= top], curve[curve <= top], color=SOFT, linewidth=1.4)
        words = " more than is guaranteed" + " at delta 0" * any(p.delta > 0 for p in points)
        axes.text(scale.low, 0.86 * top, words, color=SOFT, va="top")
    axes.axhline(ceiling, color=SOFT, linestyle="--", linewidth=1)
    spots = _side_by_side(points, [min(point.epsilon_m_low, top) for point in points], scale)
    for variant, style in styles.items():
        mine = [point for point in points if point.variant == variant]
        places = [x for x, p in zip(spots, points, strict=True) if p.variant == variant]
        proved = [p.epsilon_m_low for p in mine]
        most = [min(p.epsilon_m_high, top) for p in mine]
        axes.vlines(places, proved, most, color=style.color, alpha=0.35, linewidth=1.2)
        cut = [x for x, p in zip(places, mine, strict=True) if p.epsilon_m_high > top]
        axes.plot(cut, [0.96 * top] * len(cut), "^", color=style.color, markersize=5)
        _markers(axes, places, proved, style, label=variant)
    axes.set_ylim(-0.03 * top, top)
    return f"epsilon_m: what the attack proved (dashed: ceiling {number(round(ceiling, 2))})"


def spread(every: Sequence[_T], most: int) -> list[_T]:
    """Return so many of these at most, evenly from the first to the last."""
    if len(every) <= most:
        return list(every)
    return [every[round(place * (len(every) - 1) / (most - 1))] for place in range(most)]

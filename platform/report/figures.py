"""Figures of reports; matplotlib without a display and without global state.

It is loaded where something is drawn: `pictures` sees to it that little is.
"""

import math
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from labeldp.platform.report.method_styles import MethodStyle, styles_of
from labeldp.platform.report.pareto import Point, front, same_epsilon
from labeldp.platform.sweep.accuracy_figures import ChooseBy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Up to here a legend fits into the axes.
_FEW = 6


def pareto_figure(found: Sequence[Point], file: IO[bytes], *, title: str) -> None:
    """Draw accuracy against epsilon, and below it the attack's interval against epsilon.

    Args:
        found: Points of all variants; a baseline without privacy is drawn as a level.
        file: The PNG is written to it.
        title: Above the figure.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    finite = [point for point in found if math.isfinite(point.epsilon)]
    styles = styles_of(found)
    variants = [name for name, style in styles.items() if not style.baseline]
    beside_the_axes = len(variants) > _FEW
    figure = Figure(figsize=(10 if beside_the_axes else 8, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    ends = [end for p in found for end in (p.epsilon, p.epsilon_m_low, p.epsilon_m_high)]
    highest = max((end for end in ends if math.isfinite(end)), default=1.0)
    for number, variant in enumerate(variants):
        style = matplotlib_style(styles[variant])
        mine = [point for point in finite if point.variant == variant]
        spread = [100 * point.accuracy_std for point in mine]
        x = [point.epsilon for point in mine]
        y = [100 * point.accuracy for point in mine]
        upper.errorbar(x, y, yerr=spread, label=as_written(variant), capsize=3, alpha=0.85, **style)
        if len({same_epsilon(epsilon) for epsilon in x}) == len(x):
            upper.plot(x, y, color=style["color"], alpha=0.3, linewidth=1, zorder=1)
        # Beside each other, or the last variant's intervals would hide the others'.
        beside = 1.02 ** (number - (len(variants) - 1) / 2)
        _intervals(lower, mine, style["color"], shift=beside, unbounded=1.1 * highest)
    for baseline in (point for point in found if math.isinf(point.epsilon)):
        name = baseline.variant
        label = name if "no privacy" in name else f"{name} (no privacy)"
        level = 100 * baseline.accuracy
        upper.axhline(level, color="#444444", linestyle=":", label=as_written(label))
    best = front(finite)
    if best:
        x = [point.epsilon for point in best]
        upper.step(x, [100 * p.accuracy for p in best], where="post", color="#9aa4af", zorder=0)
        lower.plot(sorted(x), sorted(x), color="#9aa4af", linestyle="--", label="provable epsilon")
        if not beside_the_axes:
            lower.legend(frameon=False)
        upper.set_xscale("log")
        _mark_epsilons(lower, {point.epsilon for point in finite})
    estimated = any(point.accuracy_by is ChooseBy.ESTIMATED for point in found)
    upper.set_ylabel("estimated accuracy, %" if estimated else "test accuracy, %")
    upper.set_title(as_written(title))
    if beside_the_axes:
        figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    elif found:
        upper.legend(frameon=False, fontsize="small")
    lower.set_xlabel("provable epsilon")
    pure = all(point.delta == 0 for point in found)
    lower.set_ylabel(f"epsilon_m{'' if pure else ', lower end at delta 0'}\n(arrow: no upper end)")
    for axis in (upper, lower):
        axis.grid(alpha=0.25)
    figure.savefig(file, dpi=130, format="png")


def as_written(name: str) -> str:
    """Return a name so that matplotlib shows it.

    Between dollar signs it reads formulas, and legends leave out what begins with an underscore.
    """
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def matplotlib_style(style: MethodStyle) -> dict[str, str]:
    """Return a method's color and marker as matplotlib takes them."""
    color = style.color
    face = "white" if style.hollow else color
    return {"color": color, "fmt": style.marker, "markerfacecolor": face}


def _intervals(
    axis: "Axes", mine: Sequence[Point], color: str, *, shift: float, unbounded: float
) -> None:
    """Draw each point's interval; one without an upper end goes up to an arrow at `unbounded`."""
    for point in mine:
        open_ended = math.isinf(point.epsilon_m_high)
        top = unbounded if open_ended else point.epsilon_m_high
        x = point.epsilon * shift
        axis.plot([x, x], [point.epsilon_m_low, top], color=color, alpha=0.6, linewidth=2)
        if open_ended:
            axis.plot([x], [top], marker="^", color=color, alpha=0.6, markersize=5)


def _mark_epsilons(axis: "Axes", epsilons: set[float]) -> None:
    """Name the epsilons that there are, but for those that would run into their neighbor."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    marked: list[float] = []
    for epsilon in sorted(e for e in epsilons if e > 0):
        if not marked or epsilon > 1.15 * marked[-1]:
            marked.append(epsilon)
    axis.xaxis.set_major_locator(FixedLocator(marked))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))

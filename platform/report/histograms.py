"""Histograms of what methods of several steps saw: teachers' agreement, classes to pick from."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from labeldp.platform.report.drawing import Drawing, Scale
from labeldp.platform.report.wording import number

_WIDTH, _HEIGHT = 340.0, 210.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 8.0, 26.0, 38.0


def bars(
    heights: Mapping[str, Sequence[float]],
    *,
    edges: Sequence[float],
    title: str,
    along: str,
) -> Markup:
    """Return stacked bars.

    Args:
        heights: What is stacked -> heights [B], the lowest first; at least one is above 0.
        edges: Of the bars [B + 1], in ascending order.
        title: Above them.
        along: What the axis is.
    """
    totals = [sum(column) for column in zip(*heights.values(), strict=True)]
    picture = Drawing(width=_WIDTH, height=_HEIGHT, name=f"{title}: {', '.join(heights)}")
    x = Scale(low=edges[0], high=edges[-1], start=_LEFT, end=_WIDTH - _RIGHT)
    y = Scale(low=0, high=1.06 * max(totals), start=_HEIGHT - _BOTTOM, end=_TOP)
    picture.label((0, 13), title, "heading")
    for tick in y.ticks(4):
        picture.line((_LEFT, y(tick)), (x.end, y(tick)), "grid")
        picture.label((_LEFT - 6, y(tick) + 4), number(tick), "tick", "end")
    for place in range(len(totals)):
        below = 0.0
        for rank, (name, column) in enumerate(heights.items()):
            height = column[place]
            if height > 0:
                top, bottom = y(below + height), y(below)
                picture.add(
                    "rect",
                    css=f"bar b{rank}",
                    hint=f"{name}: {number(float(height))}",
                    x=x(edges[place]) + 1,
                    y=top,
                    width=max(1.0, x(edges[place + 1]) - x(edges[place]) - 2),
                    height=max(0.5, bottom - top),
                )
            below += height
    for tick in x.ticks(6):
        picture.label((x(tick), y.start + 16), number(tick), "tick", "middle")
    picture.label((x.end, y.start + 32), along, "tick", "end")
    return picture.svg()

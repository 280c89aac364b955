"""Figures as SVG inside of a page: they take the page's colors, light or dark, and its fonts.

Elements are made by the standard library, which escapes whatever names users have given.

>>> picture = Drawing(width=20, height=10, name="<x>")
>>> _ = picture.add("line", x1=0.0, x2=19.98)
>>> print(picture.svg())
<svg viewBox="0 0 20 10" role="img" aria-label="&lt;x&gt;"><line x1="0" x2="20" /></svg>
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from markupsafe import Markup

from labeldp.platform.report.method_styles import MethodStyle

#: A place in a figure.
Place = tuple[float, float]


class Drawing:
    """An SVG that is being drawn."""

    def __init__(self, *, width: float, height: float, name: str) -> None:
        """Begin.

        Args:
            width: Of the view, in units that are pixels where there is room.
            height: Likewise.
            name: What the figure shows, for who can't see it.
        """
        self._root = ElementTree.Element(
            "svg",
            {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "aria-label": name},
        )
        self._inside = [self._root]

    def add(
        self, tag: str, *, css: str = "", text: str = "", hint: str = "", **attributes: float | str
    ) -> ElementTree.Element:
        """Add an element to what is open, and return it.

        Args:
            tag: Its name.
            css: Its classes.
            text: Between its tags.
            hint: Shown where the pointer rests on it.
            **attributes: Others; `_` stands for `-`.
        """
        named = {key.replace("_", "-"): _written(value) for key, value in attributes.items()}
        if css:
            named["class"] = css
        element = ElementTree.SubElement(self._inside[-1], tag, named)
        element.text = text or None
        if hint:
            ElementTree.SubElement(element, "title").text = hint
        return element

    def line(self, start: Place, end: Place, css: str) -> None:
        """Draw a straight line."""
        self.add("line", css=css, x1=start[0], y1=start[1], x2=end[0], y2=end[1])

    def trace(self, places: Sequence[Place], css: str, hint: str = "") -> None:
        """Draw a line through several places."""
        path = " ".join(f"{_written(x)},{_written(y)}" for x, y in places)
        self.add("polyline", css=css, hint=hint, points=path)

    def label(self, place: Place, text: str, css: str = "", anchor: str = "start") -> None:
        """Write a few words."""
        extra = {} if anchor == "start" else {"text_anchor": anchor}
        self.add("text", css=css, text=text, x=place[0], y=place[1], **extra)

    def marker(self, place: Place, style: MethodStyle, hint: str) -> None:
        """Draw a method's marker."""
        at = f"translate({_written(place[0])} {_written(place[1])})"
        self.add("path", css=f"mark {style.css}", hint=hint, d=style.path, transform=at)

    def svg(self) -> Markup:
        """Return the figure."""
        return Markup(ElementTree.tostring(self._root, encoding="unicode"))


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Numbers -> places along an axis.

    Attributes:
        low: Lies at `start`.
        high: Lies at `end`.
        start: In the figure's units.
        end: Likewise; below `start` for an axis that goes up.
        log: By the numbers' logarithms.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return a number's place; what lies outside is put at the nearer end."""
        value = min(max(value, self.low), self.high)
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round numbers along a linear axis, two at least where it is not a point.

        Args:
            most: How many steps between them there may be.
        """
        span = self.high - self.low
        if not span > 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(span / most))
        steps = [tens * step for tens in (power / 10, power) for step in (1, 2, 2.5, 5)]
        few = [step for step in (*steps, 10 * power) if step * most < span * (1 - 1e-9)]
        wide = [step for step in (*steps, 10 * power) if step not in few]
        # A wide step may have one multiple on the axis, or none; then a narrower one is taken.
        for step in (wide[0], *reversed(few)):
            first = math.ceil(self.low / step - 1e-9)
            last = math.floor(self.high / step + 1e-9)
            if last > first:
                return [number * step for number in range(first, last + 1)]
        return [self.low]


def _written(value: float | str) -> str:
    if isinstance(value, str):
        return value
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"

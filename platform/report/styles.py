"""How a method looks in every figure and table of a page: a color, a marker, dashes.

Colors are told apart with any color vision (after Okabe and Ito, 2008, darkened to three times the
paper's luminance or more); markers say the same in grey print.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labeldp.platform.report.pareto import Point

_SHEET = (Path(__file__).parent / "templates" / "page.css").read_text()
#: Name of a variable of the style sheet -> its color in light, which figures on paper have.
COLORS: dict[str, str] = dict(re.findall(r"--([\w-]+): (#\w{6})", _SHEET[: _SHEET.index("}")]))
_METHODS = 8
#: Matplotlib's names.
MARKERS = "osD^vPX*"
#: The same markers around (0, 0), as the path of an SVG.
_PATHS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z",
    "M-4 -4H4V4H-4Z",
    "M0 -5.4L5.4 0L0 5.4L-5.4 0Z",
    "M0 -5.2L5 4H-5Z",
    "M0 5.2L5 -4H-5Z",
    "M-1.8 -5H1.8V-1.8H5V1.8H1.8V5H-1.8V1.8H-5V-1.8H-1.8Z",
    "M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
    "M0 -5.8L1.5 -1.8L5.6 -1.8L2.3 .8L3.5 4.9L0 2.5L-3.5 4.9L-2.3 .8L-5.6 -1.8L-1.5 -1.8Z",
)


@dataclass(frozen=True, kw_only=True)
class MethodStyle:
    """One method's looks.

    Attributes:
        number: Its place among the methods of the page, from 0.
        baseline: Whether it has no privacy: those are grey.
    """

    number: int
    baseline: bool = False

    @property
    def css(self) -> str:
        """Classes that give it its color, and a hollow marker from the ninth method on."""
        return f"{self._variable} hollow" if self.hollow else self._variable

    @property
    def _variable(self) -> str:
        return "mb" if self.baseline else f"m{self.number % _METHODS}"

    @property
    def hollow(self) -> bool:
        """Whether its marker is an outline."""
        return self.number // _METHODS % 2 == 1

    @property
    def path(self) -> str:
        """Outline of its marker."""
        return _PATHS[self.number % len(_PATHS)]

    @property
    def color(self) -> str:
        """Its color on white paper."""
        return COLORS[self._variable]

    @property
    def marker(self) -> str:
        """Its marker, as matplotlib calls it."""
        return MARKERS[self.number % len(MARKERS)]


def styles_of(found: Sequence[Point], others: Iterable[str] = ()) -> Mapping[str, MethodStyle]:
    """Give each method its looks: private ones first, in order of their names.

    Args:
        found: Points of a sweep.
        others: Names of methods that have no point, since all of their trials failed.
    """
    private = {point.variant for point in found if point.epsilon != float("inf")}
    baselines = {point.variant for point in found} - private
    rest = set(others) - private - baselines
    names = [*sorted(private | rest, key=_order), *sorted(baselines, key=_order)]
    return {
        name: MethodStyle(number=number, baseline=name in baselines)
        for number, name in enumerate(names)
    }


def _order(name: str) -> tuple[str, str]:
    return name.casefold(), name

"""Methods and data sets that other packages add by entry points.

A package lists its additions in its own pyproject.toml:

    [project.entry-points."labeldp.methods"]
    nearest_mean = "mypackage.nearest_mean:NearestMeanConfig"

    [project.entry-points."labeldp.data_sets"]
    corners = "mypackage.corners:CORNERS"

Once it is installed, in every process of every machine, the names work as those that come with
labeldp do. A package is imported when its name is used, and one that is broken breaks nothing
else.
"""

import sys
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

Thing = TypeVar("Thing")


class ExtensionError(ValueError):
    """Another package's addition that can't be used; the message names it and the package."""


class Registry(UserDict[str, Thing]):
    """Name -> thing: those that come with labeldp, then those that other packages add.

    What is set is so in this process alone.
    """

    def __init__(
        self,
        own: Mapping[str, Thing],
        *,
        group: str,
        kind: str,
        wrong: Callable[[str, Any], str | None],
    ) -> None:
        """Start with those of labeldp; they keep their names, whatever a package calls its own.

        `group` is that of the entry points, `kind` a noun for messages. `wrong` describes the error
        in a name and the thing that a package adds by it; None if there is none.
        """
        super().__init__(own)
        self._group = group
        self._kind = kind
        self._wrong = wrong

    def __missing__(self, name: str) -> Thing:
        """Return another package's, which is imported now; ExtensionError if it can't be used."""
        found = self._added()[name]
        brought_by = sorted({_package(point) for point in found})
        if len(found) > 1:
            raise ExtensionError(
                f"{self._kind} {name!r} is added by {' and by '.join(brought_by)}; uninstall all "
                "but one of them"
            )
        (point,) = found
        where = f"{self._kind} {name!r} comes from package {brought_by[0]} ({point.value})"
        try:
            thing: Thing = point.load()
        except Exception as error:  # whatever another package's import may raise
            raise ExtensionError(
                f"{where}, which can't be imported: {type(error).__name__}: {error}; repair or "
                "uninstall that package; everything else works without it"
            ) from error
        wrong = self._wrong(name, thing)
        if wrong is not None:
            raise ExtensionError(f"{where}, but {wrong}; see docs/extending.md")
        return thing

    def __contains__(self, name: object) -> bool:
        """Whether somebody has one of that name; nothing is imported."""
        return name in self.data or name in self._added()

    def __iter__(self) -> Iterator[str]:
        """Names, those of labeldp first; nothing is imported."""
        yield from self.data
        yield from (name for name in self._added() if name not in self.data)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def added(self) -> dict[str, str]:
        """Name -> package, of what other packages add; nothing is imported."""
        return {
            name: ", ".join(sorted({_package(point) for point in points}))
            for name, points in self._added().items()
        }

    def _added(self) -> dict[str, tuple[EntryPoint, ...]]:
        return _entry_points(self._group, tuple(sys.path))


def _package(point: EntryPoint) -> str:
    return "of no name" if point.dist is None else point.dist.name


@lru_cache(maxsize=8)
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Additions of installed packages; `path` is where they lie, and another one is read anew."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=group):
        # One package may lie on the path twice, as an installed and as an editable one.
        same = [p for p in found.get(point.name, ()) if _package(p) == _package(point)]
        if not same:
            found[point.name] = (*found.get(point.name, ()), point)
    return found

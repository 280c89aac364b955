"""Which lines of a sweep's comparison are run: `--only NAME`, `--without NAME`."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.sweep import Sweep, Variant


@dataclass(frozen=True, kw_only=True)
class LineChoice:
    """A choice among a sweep's variants, by name or its beginning; capitals do not count.

    Attributes:
        only: These and no others; all if none is named.
        without: All but these.
    """

    only: Sequence[str] = ()
    without: Sequence[str] = ()

    def of(self, sweep: Sweep) -> Sequence[Variant]:
        """Return the chosen variants in the sweep's order.

        Raises:
            ConfigurationError: A name that the sweep has not, the beginning of several names, or
                nothing is left.
        """
        if not self.only and not self.without:
            return sweep.variants
        wanted = {_found(name, sweep) for name in self.only}
        unwanted = {_found(name, sweep) for name in self.without}
        chosen = [
            each
            for each in sweep.variants
            if each.name not in unwanted and (not wanted or each.name in wanted)
        ]
        if not chosen:
            raise ConfigurationError(
                f"--only and --without leave nothing of sweep {sweep.name!r}; its lines are "
                f"{_names(sweep)}"
            )
        return chosen


def _found(name: str, sweep: Sweep) -> str:
    by_lower = {variant.name.lower(): variant.name for variant in sweep.variants}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    begun = [full for lower, full in by_lower.items() if name and lower.startswith(name.lower())]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise ConfigurationError(
            f"{name!r} begins several lines of sweep {sweep.name!r}: "
            f"{', '.join(map(repr, begun))}; write one of them in full"
        )
    if not by_lower:
        raise ConfigurationError(
            f"sweep {sweep.name!r} has one line only, so that {name!r} can't be chosen or dropped"
        )
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    hint = f"did you mean {by_lower[close[0]]!r}? " if close else ""
    raise ConfigurationError(
        f"sweep {sweep.name!r} has no line {name!r}; {hint}its lines are {_names(sweep)}"
    )


def _names(sweep: Sweep) -> str:
    return ", ".join(repr(name) for name in dict.fromkeys(each.name for each in sweep.variants))

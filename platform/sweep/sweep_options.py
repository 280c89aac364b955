"""How to run a sweep: which size, from where on, into which folder, at most for how much."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from labeldp.mechanisms import _validate
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import AshaStop, ConfigurationError, OptunaSearch
from labeldp.platform.sweep.sweep import Sweep, Variant, preset_sized, smoke_sized

_CANARIES = ("audit.canaries", "audit.coin_canaries")


class Resume(Enum):
    """What to do about trials that an earlier start left in the results folder."""

    AUTO = "auto"
    MUST = "must"
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """How to run a sweep; nothing here changes a trial's numbers.

    Attributes:
        smoke: Run the small size.
        preset: Run the size of this name; the sweep's full one if not given.
        resume: What to do about trials of an earlier start.
        results: The results folder.
        address: Of a Ray cluster; a private one is started if not given.
        tracking_uri: Of a tracking store; SQLite beside the results if not given.
        overrides: Dotted key -> value.
        max_epsilon_total: The most that any label may pay in the whole sweep.
        max_trials: Refuse a sweep of more trials.
        max_minutes: Stop after so long; trials in training go on from there in the next run.
        moved: The results folder was moved to another disk or restored from a copy, and no other
            copy of it will be used any more. (One that was renamed is known to be the same.)
        choose_by: Which accuracy trials are compared by; the sweep's own choice if not given.
        search: In place of the sweep's own.
        stop: In place of the sweep's own.
        only: Run these variants alone, by name or its beginning; all if none is named.
        without: Leave out these variants.
        quiet: Print no progress.
    """

    smoke: bool = False
    preset: str | None = None
    resume: Resume = Resume.AUTO
    results: Path
    address: str | None = None
    tracking_uri: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    max_epsilon_total: float | None = None
    max_trials: int | None = None
    max_minutes: float | None = None
    moved: bool = False
    choose_by: ChooseBy | None = None
    search: OptunaSearch | None = None
    stop: AshaStop | None = None
    only: Sequence[str] = ()
    without: Sequence[str] = ()
    quiet: bool = False

    def __post_init__(self) -> None:
        """Check the limits; that of epsilon is checked as a budget."""
        if self.max_trials is not None:
            _validate.whole(minimum=1, max_trials=self.max_trials)
        if self.max_minutes is not None:
            _validate.positive(max_minutes=self.max_minutes)


def sized_sweep(sweep: Sweep, options: SweepOptions) -> Sweep:
    """Return the sweep at the size asked for, with the chosen lines.

    Raises:
        ConfigurationError: A preset or a line that the sweep has not.
    """
    sized = sweep if options.preset is None else preset_sized(sweep, options.preset)
    sized = smoke_sized(sized) if options.smoke else sized
    if is_own_file(options.overrides):
        sized = without_canaries(sized)
    return replace(
        sized,
        variants=_chosen(sized, options),
        search=options.search or sized.search,
        stop=options.stop or sized.stop,
    )


def _chosen(sweep: Sweep, options: SweepOptions) -> Sequence[Variant]:
    """The chosen variants in the sweep's order.

    Raises:
        ConfigurationError: An unknown name, the beginning of several names, or nothing is left.
    """
    if not options.only and not options.without:
        return sweep.variants
    wanted = {_found(name, sweep) for name in options.only}
    unwanted = {_found(name, sweep) for name in options.without}
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
    """The variant's full name; capitals do not count."""
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


def is_own_file(overrides: Mapping[str, Any]) -> bool:
    """Whether a sweep is told to take a file of the user's in place of its own data set."""
    return bool(overrides.get("data.name") == "own")


def without_canaries(sweep: Sweep) -> Sweep:
    """Return a sweep that does not say how many canaries there are.

    A sweep's numbers were chosen for the data set that it names. A hundred wrong labels that show
    something of its 1,438 would spoil a ninth of somebody's 900, and no coins beside ten classes
    would leave two classes without an audit: of a file of the user's own a share is spoiled, as
    where nobody says, unless the user says a number. A sweep that spoils no label of its own set
    spoils none of another file's.
    """
    own = sweep.base.audit
    if own.spoiled or None in (own.canaries, own.coin_canaries):
        own = replace(own, canaries=None, coin_canaries=None)
    variants = [
        replace(
            variant,
            changes={key: each for key, each in variant.changes.items() if key not in _CANARIES},
        )
        for variant in sweep.variants
    ]
    return replace(sweep, base=replace(sweep.base, audit=own), variants=variants)


def canaries_left_out(sweep: Sweep, overrides: Mapping[str, Any]) -> str:
    """Say that a sweep's own numbers of canaries do not count; empty where they do."""
    audit, own = sweep.base.audit, sweep.base.data.name
    said = any(key in overrides for key in _CANARIES)
    if said or not audit.spoiled or own == "own" or not is_own_file(overrides):
        return ""
    return (
        f"the {audit.spoiled:,} wrong labels that sweep {sweep.name!r} plants for its audits are "
        f"for {own}; of a file of your own it takes the default share (audit.canaries=N and "
        "audit.coin_canaries=N say another number)"
    )

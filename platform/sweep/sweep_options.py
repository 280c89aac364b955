"""How to run a sweep: which size, from where on, into which folder, at most for how much."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labeldp.mechanisms import _validate
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.earlier_starts import Resume
from labeldp.platform.sweep.line_choice import LineChoice
from labeldp.platform.sweep.search_settings import AshaStop, OptunaSearch
from labeldp.platform.sweep.strands import strands_of
from labeldp.platform.sweep.suggestions import check_installed
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, plan_trials, preset_sized, smoke_sized

_CANARIES = ("audit.canaries", "audit.coin_canaries")


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
        lines: Which of the sweep's variants.
        quiet: Say nothing of how it goes.
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
    lines: LineChoice = field(default_factory=LineChoice)
    quiet: bool = False

    def __post_init__(self) -> None:
        """Check the limits; that of epsilon is checked as a budget."""
        if self.max_trials is not None:
            _validate.whole(minimum=1, max_trials=self.max_trials)
        if self.max_minutes is not None:
            _validate.positive(max_minutes=self.max_minutes)


def prepare(sweep: Sweep, options: SweepOptions) -> tuple[Sweep, list[PlannedTrial]]:
    """Return the sweep at the size asked for, and its trials.

    Those of a search are not known beforehand: in their place come settings that it may choose.

    Raises:
        ConfigurationError: A key or value that can't be used, or too many trials.
    """
    sized = sized_sweep(sweep, options)
    if sized.search is None:
        trials = plan_trials(sized, options.overrides)
        number = len(trials)
    else:
        check_installed()
        strands = strands_of(sized, options.overrides)
        trials = [trial for strand in strands for trial in strand.probed.values()]
        number = sum(strand.size for strand in strands)
    if options.max_trials is not None and number > options.max_trials:
        raise ValueError(
            f"sweep {sweep.name!r} has {number} trials, more than the {options.max_trials} "
            "that --max-trials allows; fix an axis with key=value or raise the limit"
        )
    return sized, trials


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
        variants=options.lines.of(sized),
        search=options.search or sized.search,
        stop=options.stop or sized.stop,
    )


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

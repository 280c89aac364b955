"""A hot path beside its reference as one record, and the rule by which a measurement is judged."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

#: On a busy machine a mark is divided by this, and a limit multiplied.
WIDENED = 2.0
#: Share of the time of a run in which it could have run and was not let to: above it others were.
_WAITED = 0.1


class Clock(StrEnum):
    """PROCESSOR time leaves out what others on the machine take; WALL is for disks.

    CHILDREN is the processor time of processes that were started and have ended.
    """

    PROCESSOR = "processor"
    CHILDREN = "children"
    WALL = "wall"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is run, ready to be timed: inputs are made, models are built.

    Attributes:
        ours: The hot path.
        reference: What a person would write plainly for the same.
        part: Share of the work that the reference does, where all of it would take minutes; the
            reference must be linear in that work.
        check: Asserts that both give the same; called once, before anything is timed.
    """

    ours: Callable[[], object]
    reference: Callable[[], object]
    check: Callable[[], None]
    part: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One hot path.

    Attributes:
        name: On the command line.
        path: What is timed, with its size.
        reference: What it is timed against.
        prepare: Makes the work, in a scratch folder of its own.
        mark: The least ratio that passes: half of what was seen.
        most_seconds: The longest that it may take; no limit if not given.
        most_megabytes: The most memory beside what was held before; likewise.
        clock: What it is timed by.
        rounds: How often both are run, in turn.
    """

    name: str
    path: str
    reference: str
    prepare: Callable[[Path], Work]
    mark: float
    most_seconds: float | None = None
    most_megabytes: float | None = None
    clock: Clock = Clock.PROCESSOR
    rounds: int = 5


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured.

    Attributes:
        seconds: Median of the hot path, by the benchmark's clock.
        reference_seconds: Median of the reference, for all of the work.
        rounds: How many runs of each the medians are of.
        peak_megabytes: Most memory of its first run, beside what was held before; None where the
            kernel does not tell.
        waited: Share of the time in which this process could have run and others did.
        load_before: Load average of the last minute.
        load_after: The same afterwards, this run included.
    """

    seconds: float
    reference_seconds: float
    rounds: int
    peak_megabytes: float | None
    waited: float
    load_before: float
    load_after: float

    @property
    def ratio(self) -> float:
        """How many times as fast as the reference."""
        return self.reference_seconds / self.seconds

    def is_busy(self, *, cores: int) -> bool:
        """Whether others used the machine, before or meanwhile."""
        return self.load_before > cores or self.waited > _WAITED


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether figures pass.

    Attributes:
        passed: Whether they do.
        busy: Whether the marks were widened for it.
        words: What fell short, or that the machine was busy; empty if nothing is to be said.
    """

    passed: bool
    busy: bool
    words: str


def judge(benchmark: Benchmark, figures: Figures, *, cores: int) -> Verdict:
    """Compare figures with the benchmark's mark and limits, widened on a busy machine."""
    busy = figures.is_busy(cores=cores)
    room = WIDENED if busy else 1.0
    short = []
    if figures.ratio < benchmark.mark / room:
        short.append(f"ratio {figures.ratio:.3g} is under its mark {benchmark.mark / room:.3g}")
    limits = (
        ("seconds", figures.seconds, benchmark.most_seconds),
        ("megabytes", figures.peak_megabytes, benchmark.most_megabytes),
    )
    for unit, seen, most in limits:
        if seen is not None and most is not None and seen > most * room:
            short.append(f"{seen:.3g} {unit} are above {most * room:.3g}")
    words = [*short]
    if busy:
        words.append(
            f"busy machine (load {figures.load_before:.1f} before and {figures.load_after:.1f} "
            f"after on {cores} cores, {figures.waited:.0%} of the time others ran): marks are "
            f"{WIDENED:g} times as wide"
        )
    return Verdict(passed=not short, busy=busy, words="; ".join(words))

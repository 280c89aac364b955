"""Progress of a sweep on standard error: a bar on a terminal, otherwise one plain line per event.

>>> Steps(stream=sys.stdout).say("checking the data")
checking the data ...
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.sweep.accuracy_figures import accuracy_text
from labeldp.trainers.models.schedules import listening

#: Off a terminal, a line on trials in training is printed at most this often.
TELL_SECONDS = 60.0
#: A step before the first trial that takes longer is mentioned again.
PATIENCE_SECONDS = 15.0


class Steps:
    """Prints the steps of a start before its first trial."""

    def __init__(self, *, stream: TextIO | None = None, quiet: bool = False) -> None:
        self._stream, self._quiet = stream, quiet

    def say(self, text: str) -> None:
        """Print the step that begins now."""
        if not self._quiet:
            print(f"{text} ...", file=self._stream or sys.stderr, flush=True)

    @contextmanager
    def during(self, text: str, *, hint: str = "") -> Iterator[None]:
        """Print a step, its progress while it takes long, and `hint` from the second time on."""
        self.say(text)
        over, started, step = Event(), time.monotonic(), ""

        def remind() -> None:
            while not over.wait(PATIENCE_SECONDS):
                seconds = time.monotonic() - started
                self.say(f"still {text}{step}, {seconds:.0f} s by now{hint}")

        def at(what: str, share: float | None) -> None:
            nonlocal step
            step = f": {what}" if share is None else f": {what}, {share:.0%}"

        Thread(target=remind, name="labeldp-steps", daemon=True).start()
        try:
            with listening(at):
                yield
        finally:
            over.set()


class SweepProgress:
    """Prints which trials ended, which are in training, and how long the rest may take."""

    def __init__(
        self, *, total: int, skipped: int, stream: TextIO | None = None, quiet: bool = False
    ) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._total, self._ended = total, skipped
        self._skipped, self._started = skipped, time.monotonic()
        self._bar: Progress | None = None
        self._task: Any = None
        self._quiet = quiet
        self._training: dict[str, tuple[str, int, int]] = {}
        self._told = self._started
        if self._console.is_terminal and not quiet:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task("trials", total=total, completed=skipped)
            self._bar.start()

    def say(self, text: str) -> None:
        """Print one line."""
        if not self._quiet:
            self._console.print(text, markup=False)

    def in_training(self, digest: str, name: str, *, epochs: int, of: int) -> None:
        """Show the progress of a trial: on the bar, or now and then in a line."""
        self._training[digest] = (name, epochs, max(1, of))
        if self._bar is not None:
            self._move_bar()
        elif time.monotonic() - self._told > TELL_SECONDS:
            self._told = time.monotonic()
            self.say(f"in training: {self._epochs()}{self._time_left()}")

    def ended(self, record: TrialRecord) -> None:
        """Print how a trial ended."""
        self._training.pop(record.hash, None)
        self._told = time.monotonic()
        self._ended += 1
        if not self._quiet or not record.finished:
            head = f"[{self._ended:>{len(str(self._total))}}/{self._total}]"
            name = trial_name(record.variant, record.point)
            line = f"{head} {name}: {outcome(record)}{self._time_left()}"
            self._console.print(line, markup=False)
        if self._bar is not None:
            self._move_bar()

    def close(self) -> None:
        """Restore the terminal."""
        if self._bar is not None:
            self._bar.stop()

    def _move_bar(self) -> None:
        assert self._bar is not None
        text = f"trials ({self._epochs()})" if self._training else "trials"
        self._bar.update(self._task, completed=self._ended + self._begun(), description=text)

    def _epochs(self) -> str:
        shown = [
            f"{name}: epoch {done}/{of}" for name, done, of in list(self._training.values())[:2]
        ]
        more = len(self._training) - len(shown)
        return ", ".join([*shown, f"{more} more"] if more else shown)

    def _begun(self) -> float:
        return sum(min(1.0, done / of) for _, done, of in self._training.values())

    def _time_left(self) -> str:
        done = self._ended - self._skipped + self._begun()
        left = self._total - self._skipped - done
        if self._bar is not None or left < 1e-9 or not done:
            return ""
        seconds = (time.monotonic() - self._started) / done * left
        return f" (about {_duration(seconds)} left)"


def outcome(record: TrialRecord) -> str:
    """Return a trial's end in a few words."""
    if not record.finished:
        return f"failed: {record.reason}"
    metrics = record.metrics
    epochs = record.stopped_early
    early = f"stopped early after {epochs} epoch{'s' * (epochs > 1)}, " if epochs else ""
    return early + (
        f"accuracy {accuracy_text(metrics)}, epsilon {metrics['epsilon']:.3g}, "
        f"epsilon_m [{metrics['epsilon_m_low']:.2f}, {metrics['epsilon_m_high']:.2f}], "
        f"{_duration(record.seconds)}"
    )


def trial_name(variant: str, point: Mapping[str, Any]) -> str:
    """Return a trial's method and the values of its axes: `ALIBI epsilon=0.5 seed=1`."""
    values = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in point.values())
    keys = (key.rpartition(".")[2] for key in point)
    return " ".join([variant, *map("=".join, zip(keys, values, strict=True))])


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

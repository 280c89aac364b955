"""Progress of a sweep on standard error: a bar on a terminal, one plain line per event off it."""

import sys
import time
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from labeldp.platform.accuracy_figures import accuracy_text
from labeldp.platform.records.results import TrialRecord


class SweepProgress:
    """Says what has ended, and how long the rest may take."""

    def __init__(
        self, *, total: int, skipped: int, stream: TextIO | None = None, quiet: bool = False
    ) -> None:
        """Start counting.

        Args:
            total: Trials of the sweep.
            skipped: Of those, the ones that an earlier start has finished.
            stream: Where to write; standard error if not given.
            quiet: Say nothing but how trials failed.
        """
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._total, self._ended, self._failed = total, skipped, 0
        self._skipped, self._started = skipped, time.monotonic()
        self._bar: Progress | None = None
        self._task: Any = None
        self._quiet = quiet
        if self._console.is_terminal and not quiet:
            self._bar = Progress(
                TextColumn("{task.description}"),
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

    def ended(self, record: TrialRecord) -> None:
        """Say how a trial ended."""
        self._ended += 1
        self._failed += not record.finished
        width = len(str(self._total))
        head = f"[{self._ended:>{width}}/{self._total}] {record.variant}{_point(record)}"
        line = f"{head}: {outcome(record)}{self._time_left()}"
        if self._quiet and not record.finished:
            self._console.print(line, markup=False)
        self.say(line)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._ended)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()

    def _time_left(self) -> str:
        done, left = self._ended - self._skipped, self._total - self._ended
        if self._bar is not None or not left or not done:
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


def _point(record: TrialRecord) -> str:
    values = [f"{key.split('.')[-1]}={_short(value)}" for key, value in record.point.items()]
    return f" {' '.join(values)}" if values else ""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

"""Progress of a sweep on standard error: a bar on a terminal, one plain line per event off it."""

import sys
import time
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.sweep.accuracy_figures import accuracy_text

#: Off a terminal, trials in training are spoken of this often.
TELL_SECONDS = 60.0


class SweepProgress:
    """Says what has ended, what is in training, and how long the rest may take."""

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
        """Show how far a trial is: on the bar, or now and then in a line.

        Args:
            digest: The trial's hash.
            name: Its line in the comparison.
            epochs: Done.
            of: Epochs of the whole trial.
        """
        self._training[digest] = (name, epochs, max(1, of))
        if self._bar is not None:
            self._move_bar()
        elif time.monotonic() - self._told > TELL_SECONDS:
            self._told = time.monotonic()
            self.say(f"in training: {self._epochs()}{self._time_left()}")

    def ended(self, record: TrialRecord) -> None:
        """Say how a trial ended."""
        self._training.pop(record.hash, None)
        self._told = time.monotonic()
        self._ended += 1
        self._failed += not record.finished
        width = len(str(self._total))
        head = f"[{self._ended:>{width}}/{self._total}] {record.variant}{_point(record)}"
        line = f"{head}: {outcome(record)}{self._time_left()}"
        if self._quiet and not record.finished:
            self._console.print(line, markup=False)
        self.say(line)
        if self._bar is not None:
            self._move_bar()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()

    def _move_bar(self) -> None:
        assert self._bar is not None
        text = f"trials ({self._epochs()})" if self._training else "trials"
        self._bar.update(self._task, completed=self._ended + self._begun(), description=text)

    def _epochs(self) -> str:
        """How far the trials in training are; the first few of them."""
        shown = [
            f"{name}: epoch {done}/{of}" for name, done, of in list(self._training.values())[:2]
        ]
        more = len(self._training) - len(shown)
        return ", ".join([*shown, f"{more} more"] if more else shown)

    def _begun(self) -> float:
        """Trials in training as shares of one."""
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


def _point(record: TrialRecord) -> str:
    values = [f"{key.split('.')[-1]}={_short(value)}" for key, value in record.point.items()]
    return f" {' '.join(values)}" if values else ""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

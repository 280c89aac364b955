"""Progress of a sweep on standard error, a plain line per event.

>>> Steps(stream=sys.stdout).say("checking the data ...")
checking the data ...
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TextIO

from labeldp.mechanisms.ledger import shown
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.settings.metrics import DAGGER, accuracy_text
from labeldp.trainers.data.files import visible

#: A line on trials in training is printed at most this often.
TELL_SECONDS = 60.0
#: A step before the first trial that takes longer is mentioned again.
PATIENCE_SECONDS = 15.0


class Steps:
    """Prints the steps of a start before its first trial."""

    def __init__(self, *, stream: TextIO | None = None, quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet

    def say(self, text: str, *, always: bool = False) -> None:
        """Print a line; `always`: also where nothing else is printed."""
        if always or not self._quiet:
            print(visible(text), file=self._stream or sys.stderr, flush=True)

    @contextmanager
    def during(self, text: str, *, hint: str = "") -> Iterator[None]:
        """Print a step, its time while it takes long, and `hint` from the second time on."""
        self.say(f"{text} ...")
        over = Event()
        started = time.monotonic()

        def remind() -> None:
            while not over.wait(PATIENCE_SECONDS):
                seconds = time.monotonic() - started
                self.say(f"still {text}, {seconds:.0f} s by now{hint} ...")

        Thread(target=remind, name="labeldp-steps", daemon=True).start()
        try:
            yield
        finally:
            over.set()


class SweepProgress(Steps):
    """Prints which trials ended, which are in training, and how long the rest may take."""

    def __init__(self, *, total: int, skipped: int, **shown: Any) -> None:
        super().__init__(**shown)
        self._total = total
        self._ended = skipped
        self._skipped = skipped
        self._started = self._told = time.monotonic()
        self._training: dict[str, tuple[str, int, int]] = {}

    def in_training(self, digest: str, name: str, *, epochs: int, of: int) -> None:
        """Report trials in training, now and then."""
        self._training[digest] = (name, epochs, max(1, of))
        if time.monotonic() - self._told > TELL_SECONDS:
            self._told = time.monotonic()
            shown = [f"{each}: epoch {done}/{of}" for each, done, of in self._training.values()]
            more = [f"{len(shown) - 2} more"] if len(shown) > 2 else []
            self.say(f"in training: {', '.join([*shown[:2], *more])}{self._time_left()}")

    def waits(self, digest: str) -> None:
        """Leave a trial out that is not in training any more; it starts again."""
        self._training.pop(digest, None)

    def ended(self, record: TrialRecord) -> None:
        """Print how a trial ended."""
        self._training.pop(record.hash, None)
        self._told = time.monotonic()
        self._ended += 1
        head = f"[{self._ended:>{len(str(self._total))}}/{self._total}]"
        line = f"{head} {trial_name(record.variant, record.point)}: {outcome(record)}"
        self.say(f"{line}{self._time_left()}", always=not record.finished)

    def _time_left(self) -> str:
        begun = sum(min(1.0, done / of) for _, done, of in self._training.values())
        done = self._ended - self._skipped + begun
        left = self._total - self._skipped - done
        if left < 1e-9 or done < 0.1:  # the first epochs tell nothing
            return ""
        seconds = (time.monotonic() - self._started) / done * left
        return f" (about {duration(seconds)} left)"


def outcome(record: TrialRecord) -> str:
    """Return a trial's end in a few words."""
    if not record.finished:
        return f"failed: {record.reason}"
    metrics = record.metrics
    epochs = record.stopped_early
    mark = DAGGER if metrics["delta"] > 0 else ""
    early = f"stopped early after {epochs} epoch{'s' * (epochs > 1)}, " if epochs else ""
    return early + (
        f"{accuracy_text(metrics)}, epsilon {shown(metrics['epsilon'], 3)}, "
        f"epsilon_m [{metrics['epsilon_m_low']:.2f}, {metrics['epsilon_m_high']:.2f}]{mark}, "
        f"{duration(record.seconds)}"
    )


def trial_name(variant: str, point: Mapping[str, Any]) -> str:
    """Return a trial's method and the values of its axes: `ALIBI epsilon=0.5 seed=1`."""
    values = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in point.values())
    keys = (key.rpartition(".")[2] for key in point)
    return " ".join([variant, *map("=".join, zip(keys, values, strict=True))])


def duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

"""What a start is doing before its first trial, on standard error: a line, and a bar if it is long.

>>> import sys
>>> Steps(stream=sys.stdout).say("checking the data")
checking the data ...
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TextIO

from labeldp.trainers.models.telling import listening

#: A step that takes longer is spoken of again.
PATIENCE_SECONDS = 15.0


class Steps:
    """Tells a person who would look at nothing for half a minute what is going on."""

    def __init__(self, *, stream: TextIO | None = None, quiet: bool = False) -> None:
        """Stand ready.

        Args:
            stream: Where to write; standard error if not given.
            quiet: Say nothing.
        """
        self._stream, self._quiet = stream, quiet

    def say(self, text: str) -> None:
        """Say what is being done now."""
        if not self._quiet:
            print(f"{text} ...", file=self._stream or sys.stderr, flush=True)

    @contextmanager
    def during(self, text: str, *, hint: str = "") -> Iterator[None]:
        """Say what is being done, and how far it is while it takes long.

        A terminal shows a bar with the step that is being computed; a line says so now and then
        where there is no terminal.

        Args:
            text: What it is.
            hint: Why it may take long, said from the second time on.
        """
        self.say(text)
        if not self._quiet and (self._stream or sys.stderr).isatty():
            with self._bar(text):
                yield
            return
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

    @contextmanager
    def _bar(self, text: str) -> Iterator[None]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        console = Console(file=self._stream or sys.stderr)
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(text, total=None)

            def at(what: str, share: float | None) -> None:
                total = None if share is None else 1.0
                progress.update(task, description=what, total=total, completed=share or 0.0)

            with listening(at):
                yield

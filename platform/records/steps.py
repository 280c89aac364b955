"""What a start is doing before its first trial, on standard error: a line per step.

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
        """Say what is being done, and say so again while it takes long.

        Args:
            text: What it is.
            hint: Why it may take long, said from the second time on.
        """
        self.say(text)
        over, started = Event(), time.monotonic()

        def remind() -> None:
            while not over.wait(PATIENCE_SECONDS):
                self.say(f"still {text}, {time.monotonic() - started:.0f} s by now{hint}")

        Thread(target=remind, name="labeldp-steps", daemon=True).start()
        try:
            yield
        finally:
            over.set()

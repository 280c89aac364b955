"""Processes found in /proc and ended one by one: only those that a test started."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process, told apart from a later one of the same number by when it started."""

    pid: int
    parent: int
    started: int
    title: str

    @property
    def alive(self) -> bool:
        found = _look_up(self.pid)
        return found is not None and found.started == self.started

    def end(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, unless it is gone already."""
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass


def family(pid: int) -> list[Process]:
    """Return a process and all that descend from it."""
    everyone = [found for entry in Path("/proc").glob("[0-9]*") if (found := _look_up(entry.name))]
    members = [process for process in everyone if process.pid == pid]
    for parent in members:  # grows while it is walked
        members.extend(process for process in everyone if process.parent == parent.pid)
    return members


def titled(processes: Sequence[Process], title: str) -> list[Process]:
    """Return those whose title begins with `title`, as Ray names its actors."""
    return [process for process in processes if process.title.startswith(title)]


def wait_until(condition: Callable[[], object], *, what: str, seconds: float = 120.0) -> None:
    """Wait for `condition`, or fail and say what did not happen."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


def end_all(processes: Sequence[Process]) -> None:
    """End processes by force, and wait until they are gone."""
    for process in processes:
        process.end()
    wait_until(
        lambda: not any(process.alive for process in processes),
        what="processes end that were killed",
        seconds=30,
    )


def _look_up(pid: int | str) -> Process | None:
    try:
        # The name in parentheses may hold anything; what follows it are plain fields.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        title = (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
    except OSError:
        return None
    if fields[0] == "Z":
        return None
    return Process(int(pid), int(fields[1]), int(fields[19]), title.strip())

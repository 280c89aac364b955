"""Wall and processor time of a command with all that it starts, Ray's processes included.

Ray's workers are waited for by nobody, so the kernel adds their time to no parent's. Every process
that a command starts has inherited a mark in its environment; their times are read while they run.
"""

import os
import resource
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

_TICKS = os.sysconf("SC_CLK_TCK")
_MARK = "LABELDP_TIMED"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What a command took.

    Attributes:
        wall: Seconds.
        processor: Seconds of all its processes together; a little less than the truth, for the last
            moments of each are not seen.
        load_before: Load average of the last minute.
        others: Cores that other processes used meanwhile, on average.
        output: What it wrote to standard output.
    """

    wall: float
    processor: float
    load_before: float
    others: float
    output: str


class CommandFailed(RuntimeError):
    """A command that was to be timed ended with an error."""


def timed(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float = 900.0,
) -> Timing:
    """Run a command to its end and time it.

    Raises:
        CommandFailed: It ended with an error, or took too long.
    """
    mark = uuid.uuid4().hex
    load, machine = os.getloadavg()[0], _machine_seconds()
    began, before = time.perf_counter(), _of_children()
    watch = _Watch(f"{_MARK}={mark}".encode())
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **environment, _MARK: mark},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{' '.join(command)} took more than {seconds:g} s") from error
    finally:
        seen = watch.ended()
    wall = time.perf_counter() - began
    if done.returncode:
        lines = done.stderr.strip().splitlines()[-5:]
        raise CommandFailed(f"{' '.join(command)} ended with {done.returncode}: {lines}")
    # Neither can be more than the truth: one misses last moments, the other what nobody waits for.
    processor = max(seen, _of_children() - before)
    others = max(0.0, _machine_seconds() - machine - processor) / wall
    return Timing(
        wall=wall, processor=processor, load_before=load, others=others, output=done.stdout
    )


class _Watch:
    """Reads the processor time of all processes that carry a mark, until it is told to end."""

    _EVERY = 0.1

    def __init__(self, mark: bytes) -> None:
        self._mark, self._seconds = mark, dict[str, float]()
        self._foreign: set[str] = set()
        self._end = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def ended(self) -> float:
        self._end.set()
        self._thread.join()
        return sum(self._seconds.values())

    def _watch(self) -> None:
        while not self._end.wait(self._EVERY):
            for process in Path("/proc").glob("[0-9]*"):
                self._look(process)

    def _look(self, process: Path) -> None:
        name = process.name
        if name in self._foreign:
            return
        try:
            # The second field, a name in parentheses, may hold anything.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            # Looked at once: Ray's workers write their titles over their environment.
            marked = name in self._seconds or self._mark in (process / "environ").read_bytes()
        except OSError:
            return
        if marked:
            self._seconds[name] = (int(fields[11]) + int(fields[12])) / _TICKS
        elif fields[1] != str(os.getpid()):
            # Our own child is ours before it becomes the command: look again.
            self._foreign.add(name)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _machine_seconds() -> float:
    """Processor time of all processes since the machine started; 0 where nobody tells."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()
    except OSError:
        return 0.0
    user, nice, system = (int(field) for field in fields[1:4])
    return (user + nice + system) / _TICKS

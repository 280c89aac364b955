"""Processes found and ended one by one: only those that a test started."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil


def family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(process: psutil.Process) -> bool:
    """Whether a process runs; a later one of the same number is another."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def title(process: psutil.Process) -> str:
    """Return a process's command, or the name that it gave itself, as Ray's actors do."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline()).strip()
    return ""


def titled(processes: Sequence[psutil.Process], start: str) -> list[psutil.Process]:
    return [process for process in processes if title(process).startswith(start)]


def wait_until(condition: Callable[[], object], *, what: str, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


def end_all(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until(lambda: not any(map(alive, processes)), what="killed processes end", seconds=30)

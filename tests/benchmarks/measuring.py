"""Timing a hot path and its reference in turn, in one process on one thread."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tests.benchmarks.benchmark import Benchmark, Clock, Figures

_STATUS, _SCHEDULED = Path("/proc/self/status"), Path("/proc/self/schedstat")


def _children_seconds() -> float:
    """Processor time of this process's children that have ended, and of theirs."""
    used = os.times()
    return used.children_user + used.children_system


_CLOCKS: dict[Clock, Callable[[], float]] = {
    Clock.PROCESSOR: time.process_time,
    Clock.CHILDREN: _children_seconds,
    Clock.WALL: time.perf_counter,
}


def measure(benchmark: Benchmark, scratch: Path) -> Figures:
    """Time a benchmark after it was checked that both sides give the same.

    Args:
        benchmark: What to time.
        scratch: A folder for its files.

    Raises:
        AssertionError: They do not.
    """
    threads, load = torch.get_num_threads(), os.getloadavg()[0]
    torch.set_num_threads(1)
    try:
        work = benchmark.prepare(scratch)
        peak = _peak_megabytes(work.ours)
        work.check()
        began, waited = time.perf_counter(), _waited_seconds()
        clock = _CLOCKS[benchmark.clock]
        ours, reference = [], []
        for _ in range(benchmark.rounds):
            ours.append(_seconds(work.ours, clock))
            reference.append(_seconds(work.reference, clock) / work.part)
        elapsed = time.perf_counter() - began
        return Figures(
            seconds=statistics.median(ours),
            reference_seconds=statistics.median(reference),
            rounds=benchmark.rounds,
            peak_megabytes=peak,
            waited=(_waited_seconds() - waited) / elapsed,
            load_before=load,
            load_after=os.getloadavg()[0],
        )
    finally:
        torch.set_num_threads(threads)


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


def _peak_megabytes(work: Callable[[], object]) -> float | None:
    """Most memory of one run, beside what the process held before; None where nobody tells."""
    try:
        # Sets the high-water mark of resident memory back to what is resident now.
        Path("/proc/self/clear_refs").write_text("5")
        before = _kilobytes("VmRSS")
        work()
        return max(_kilobytes("VmHWM") - before, 0) / 1e3
    except OSError:
        work()
        return None


def _kilobytes(field: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


def _waited_seconds() -> float:
    """How long this thread could have run and did not; 0 where the kernel does not tell."""
    try:
        return int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0

"""A hot path beside its reference as one record, and how both are timed."""

import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch


def children_seconds() -> float:
    """Processor time of processes that were started and have ended."""
    used = os.times()
    return used.children_user + used.children_system


def _timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


@dataclass(frozen=True, kw_only=True)
class Work:
    """The timed calls, with inputs made and models built.

    `reference` is what a person would write plainly for the same, or for the share `part` of it,
    where all of it would take minutes; `check` asserts, before, that both give the same.
    """

    ours: Callable[[], object]
    reference: Callable[[], object]
    check: Callable[[], None]
    part: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One hot path: `path` says what is timed and `reference` against what.

    `mark` is the least ratio that passes: half of what was seen. `most_megabytes` is memory beside
    what was held before. Both sides run `rounds` times, in turn.
    """

    name: str
    path: str
    reference: str
    prepare: Callable[[Path], Work]
    mark: float
    most_seconds: float = float("inf")
    most_megabytes: float = float("inf")
    clock: Callable[[], float] = time.process_time  # leaves out what others on the machine take
    rounds: int = 5

    def measure(self, scratch: Path) -> dict[str, Any]:
        """Return medians, peak memory, load and verdict; `scratch` is a folder for files.

        The machine is busy where its load was above its cores before, or others ran in a tenth of
        the time in which this process could have run; marks are then halved, and limits doubled.
        """
        load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
        torch.set_num_threads(1)
        work = self.prepare(scratch)
        peak = _peak_megabytes(work.ours)
        work.check()
        began, waited = time.perf_counter(), _waited_seconds()
        ours, reference = [], []
        for _ in range(self.rounds):
            ours.append(_timed(work.ours, self.clock))
            reference.append(_timed(work.reference, self.clock) / work.part)
        share = (_waited_seconds() - waited) / (time.perf_counter() - began)
        seconds = statistics.median(ours)
        ratio = statistics.median(reference) / seconds
        busy = load > cores or share > 0.1
        room = 2.0 if busy else 1.0
        short = []
        if ratio < self.mark / room:
            short.append(f"ratio {ratio:.3g} is under its mark {self.mark / room:.3g}")
        if seconds > self.most_seconds * room:
            short.append(f"{seconds:.3g} s are above {self.most_seconds * room:.3g}")
        if peak is not None and peak > self.most_megabytes * room:
            short.append(f"{peak:.3g} MB are above {self.most_megabytes * room:.3g}")
        return {
            "seconds": seconds,
            "reference_seconds": statistics.median(reference),
            "ratio": ratio,
            "peak_megabytes": peak,
            "load_before": load,
            "waited": share,
            "busy": busy,
            "passed": not short,
            "words": "; ".join(short),
        }


#: In the order of their modules and definitions.
BENCHMARKS: list[Benchmark] = []


def benchmark(
    name: str, path: str, reference: str, **settings: Any
) -> Callable[[Callable[[Path], Work]], Callable[[Path], Work]]:
    """Add to the benchmarks what the decorated function makes in a scratch folder."""

    def added(prepare: Callable[[Path], Work]) -> Callable[[Path], Work]:
        BENCHMARKS.append(
            Benchmark(name=name, path=path, reference=reference, prepare=prepare, **settings)
        )
        return prepare

    return added


def commit() -> str:
    """Return the commit of the code, "and changes" where files differ from it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    found = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{found} and changes" if git("status", "--porcelain", "-uno") else found


def machine() -> str:
    """Return processor, cores, memory, path of bfloat16 and versions."""
    about = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"model name\s*: (.*)", about)
    bf16 = "AMX" if "amx_bf16" in about else "AVX-512" if "avx512_bf16" in about else "none"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{name[1] if name else platform.machine()}, {len(os.sched_getaffinity(0))} cores, "
        f"{memory:.1f} GB, bf16: {bf16}; Python {platform.python_version()}, torch "
        f"{torch.__version__}, numpy {np.__version__}"
    )


def _peak_megabytes(work: Callable[[], object]) -> float | None:
    """Most memory of one run, beside what the process held before; None if unknown."""
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
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


def _waited_seconds() -> float:
    """How long this thread could have run and did not; 0 where the kernel does not tell."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0

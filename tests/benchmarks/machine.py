"""What benchmarks ran on: processor, cores, memory, path of bfloat16, versions, commit."""

import os
import platform
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

_ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine, without its name.

    Attributes:
        processor: As it calls itself.
        cores: How many this process may use.
        memory_gigabytes: In all.
        bf16: Which path bfloat16 takes.
        versions: Of what is timed.
        commit: Of the code; with "and changes" where files differ from it.
    """

    processor: str
    cores: int
    memory_gigabytes: float
    bf16: str
    versions: str
    commit: str


def bf16_path(flags: Collection[str]) -> str:
    """Return the path that bfloat16 takes on a processor with these features."""
    if "amx_bf16" in flags:
        return "AMX"
    if "avx512_bf16" in flags:
        return "AVX-512 BF16"
    return "none (bfloat16 is emulated; single precision is used)"


def this_machine() -> Machine:
    """Look at the machine and at the checkout."""
    about = _of_processor()
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        processor=about.get("model name") or platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gigabytes=round(pages / 1e9, 1),
        bf16=bf16_path(about.get("flags", "").split()),
        versions=f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"numpy {np.__version__}",
        commit=_commit(),
    )


def _of_processor() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    commit = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{commit} and changes" if git("status", "--porcelain", "-uno") else commit

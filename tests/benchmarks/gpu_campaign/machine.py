"""What a result says of the machine and of the code that it was made with."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch

from labeldp.trainers.performance import Performance

_ROOT = Path(__file__).resolve().parents[3]


def machine_facts(performance: Performance, *, commit: str | None) -> dict[str, str | int]:
    """Return device, processor, precision, versions, commit and date.

    Args:
        performance: What is trained with.
        commit: As the user says; asked of git if not given.
    """
    device = performance.torch_device()
    accelerator = torch.cuda.get_device_name() if device.type == "cuda" else "none"
    return {
        "accelerator": accelerator,
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "torch": torch.__version__,
        "precision": performance.precision_here().value,
        "commit": commit or _commit() or "unknown",
        "date": datetime.now(UTC).date().isoformat(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def _commit() -> str | None:
    """The commit of this checkout; None where there is no git, or this is a copy without it."""
    command = ["git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None

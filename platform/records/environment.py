"""Versions, devices and the state of the code that a trial runs on, for its record."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import torch

import labeldp
from labeldp.trainers import performance

_PACKAGES = ("labeldp", "ray", "torch", "torchvision", "numpy", "scipy", "mlflow", "pydantic")
#: An image has no `.git`; this variable names the commit that it was built from.
COMMIT_VARIABLE = "LABELDP_GIT_COMMIT"


def git_commit() -> str:
    """Return the commit of the code, with `-dirty` where files differ; `unknown` without git."""
    root = Path(labeldp.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        # Installed: a repository further up would be another one.
        return os.environ.get(COMMIT_VARIABLE) or "unknown"
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def describe() -> dict[str, str]:
    """Return versions and hardware as plain text by name."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = labeldp.__version__ if name == "labeldp" else "not installed"
    found["cores"] = str(os.cpu_count())
    found["bf16"] = (
        performance.bf16_units(torch.device("cpu")) or "no units: precision auto takes fp32"
    )
    found["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return found

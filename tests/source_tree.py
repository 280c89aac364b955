"""The source files of the repository."""

import subprocess
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def sources(*folders: str) -> list[Path]:
    """Every Python file below these folders of the repository."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def modules(*folders: str) -> list[ModuleType]:
    """Every module below these folders, imported."""
    paths = (path.relative_to(ROOT).with_suffix("").parts for path in sources(*folders))
    names = (".".join(("labeldp", *parts)).removesuffix(".__init__") for parts in paths)
    return [import_module(name) for name in names]


def run(
    *command: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that has to succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done

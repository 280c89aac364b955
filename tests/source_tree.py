"""The source files of the repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def sources(*folders: str) -> list[Path]:
    """Every Python file below these folders of the repository."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))

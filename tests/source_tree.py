"""The source files of the repository."""

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

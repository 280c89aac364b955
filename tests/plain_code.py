"""Rules of plain code that ruff has no rule for; `make lint` runs `python -m tests.plain_code`."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.source_tree import ROOT, sources

#: A function with more parameters explains each of them.
_MOST_PARAMETERS = 6
_FOLDERS = ("mechanisms", "trainers", "platform", "sweeps", "examples", "docs")


class Finding(NamedTuple):
    """A line that breaks a rule, and how to write it instead."""

    line: int
    fix: str


def findings(source: str) -> Iterator[Finding]:
    """Find what a module's text has of tuple assignments, literals, and unexplained parameters."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and _assigns_tuple(node):
            yield Finding(node.lineno, "assign each name in a statement of its own")
        if isinstance(node, ast.Starred) and _is_literal(node.value):
            yield Finding(node.lineno, "write the elements without unpacking a literal")
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None and isinstance(value, ast.Dict):
                    yield Finding(value.lineno, "write the entries without unpacking a literal")
        if isinstance(node, ast.ClassDef):
            yield from _unexplained_in(node)
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            yield from _unexplained(node, ast.get_docstring(node))


def _assigns_tuple(node: ast.Assign) -> bool:
    target = node.targets[0]
    if not isinstance(target, ast.Tuple | ast.List):
        return False
    value = node.value
    if isinstance(value, ast.IfExp):
        return isinstance(value.body, ast.Tuple) or isinstance(value.orelse, ast.Tuple)
    if not isinstance(value, ast.Tuple | ast.List):
        return False
    # A swap needs no third name.
    return sorted(map(ast.unparse, target.elts)) != sorted(map(ast.unparse, value.elts))


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.List | ast.Set)


def _unexplained_in(node: ast.ClassDef) -> Iterator[Finding]:
    """Arguments of a constructor are explained by the class, or by the constructor."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            texts = (ast.get_docstring(node), ast.get_docstring(method))
            yield from _unexplained(method, "\n".join(filter(None, texts)))


def _unexplained(node: ast.FunctionDef, words: str | None) -> Iterator[Finding]:
    given = node.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names = [name for name in names if name not in ("self", "cls")]
    if len(names) <= _MOST_PARAMETERS:
        return
    _, _, explained = (words or "").partition("Args:")
    lines = [line.strip() for line in explained.splitlines()]
    missing = [name for name in names if not any(line.startswith(f"{name}:") for line in lines)]
    if missing:
        fix = f"explain {', '.join(missing)} of {node.name} in its Args: section"
        yield Finding(node.lineno, fix)


def main() -> int:
    """Print every finding in the product as file, line and fix; return how many there are."""
    count = 0
    for path in sources(*_FOLDERS):
        for finding in findings(path.read_text()):
            print(f"{Path(path).relative_to(ROOT)}:{finding.line}: {finding.fix}")
            count += 1
    return count


if __name__ == "__main__":
    sys.exit(1 if main() else 0)

"""Reading the manifests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]

Document = dict[str, Any]

#: Names of variables whose values must not stand in a file.
SECRET = re.compile(r"PASSWORD|TOKEN$|SECRET|ACCESS_KEY")


def load_all(path: str) -> list[Document]:
    return list(yaml.safe_load_all((ROOT / "infra" / path).read_text()))


def load(path: str) -> Document:
    (document,) = load_all(path)
    return document


def strings(node: Any) -> Iterator[str]:
    """Yield every string of a tree, keys included."""
    if isinstance(node, dict):
        for pair in node.items():
            yield from strings(list(pair))
    elif isinstance(node, list):
        for value in node:
            yield from strings(value)
    elif isinstance(node, str):
        yield node


def is_pinned(image: str) -> bool:
    """Whether an image has a digest, or a tag that does not move: one with a number."""
    digest = re.search(r"@sha256:[0-9a-f]{64}$", image)
    tag = re.search(r":([\w.-]+)$", image)
    return bool(digest or (tag and tag[1] != "latest" and re.search(r"\d", tag[1])))

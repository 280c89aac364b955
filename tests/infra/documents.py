"""Reading the manifests, and breaking copies of them to see that a rule notices."""

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
    """Return the documents of a YAML file of infra/, each a tree that shares no branches."""
    text = (ROOT / "infra" / path).read_text()
    return list(yaml.safe_load_all(text))


def load(path: str) -> Document:
    """Return the only document of a YAML file of infra/."""
    (document,) = load_all(path)
    return document


def strings(node: Any) -> Iterator[str]:
    """Yield every string of a tree, keys included."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from strings(key)
            yield from strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from strings(value)
    elif isinstance(node, str):
        yield node


def image_complaints(image: str) -> list[str]:
    """Complain of an image whose tag moves: none, `latest`, or one without a number."""
    digest = re.search(r"@sha256:[0-9a-f]{64}$", image)
    tag = re.search(r":([\w.-]+)$", image)
    if digest or (tag and tag[1] != "latest" and re.search(r"\d", tag[1])):
        return []
    return [f"image {image!r} is not pinned"]

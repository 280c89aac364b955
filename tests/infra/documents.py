"""Reading the manifests, and breaking copies of them to see that a rule notices."""

import copy
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
    return [unshared(document) for document in yaml.safe_load_all(text)]


def load(path: str) -> Document:
    """Return the only document of a YAML file of infra/."""
    (document,) = load_all(path)
    return document


def unshared(node: Any) -> Any:
    """Copy a tree so that what a YAML anchor shares can be broken in one place alone."""
    if isinstance(node, dict):
        return {key: unshared(value) for key, value in node.items()}
    if isinstance(node, list):
        return [unshared(value) for value in node]
    return node


def broken(document: Document, path: str, value: Any) -> Document:
    """Return a copy with the value at a path like `spec.containers.0.image` replaced, or removed.

    Args:
        document: What to copy.
        path: Keys and positions, with `/` between them if a key holds a dot.
        value: The new value; `...` removes the key.
    """
    changed = copy.deepcopy(document)
    *parents, last = path.split("/" if "/" in path else ".")
    node: Any = changed
    for key in parents:
        node = node[int(key)] if isinstance(node, list) else node[key]
    place: Any = int(last) if isinstance(node, list) else last
    if value is ...:
        del node[place]
    else:
        node[place] = value
    return changed


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

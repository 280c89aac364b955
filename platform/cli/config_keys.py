"""`labeldp config [METHOD]`: every configuration key with type, default, bounds and meaning."""

from dataclasses import asdict
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

from labeldp.platform.sweep.key_reference import all_keys, keys_of


def config(*, method: str | None, match: str | None) -> dict[str, Any]:
    """Return the keys of a method, or of all, whose name or meaning holds a text."""
    found = all_keys() if method is None else keys_of(method)
    text = (match or "").lower()
    keys = [facts for facts in found if text in f"{facts.key} {facts.meaning}".lower()]
    if not keys:
        raise ValueError(
            f"no key and no meaning holds {match!r}; `labeldp config` lists all of them"
        )
    return {"keys": [asdict(facts) for facts in keys]}


def words(found: dict[str, Any]) -> str:
    """Return the keys for a person, with their methods where keys of several are listed."""
    keys = found["keys"]
    several = len({tuple(each["methods"]) for each in keys if each["methods"]}) > 1
    width = max(60, get_terminal_size((120, 24)).columns)
    lines = []
    for each in keys:
        of = f" [{', '.join(each['methods'])}]" if several and each["methods"] else ""
        lines.append(f"{each['key']} = {each['default']}")
        for text in (f"{_value(each['type'], each['bounds'])}.", each["meaning"] + of):
            lines.append(fill(text, width, initial_indent="    ", subsequent_indent="    "))
    return "\n".join(lines)


def _value(kind: str, bounds: str) -> str:
    left_open = ", or null" if kind.endswith(", or null") else ""
    kind = kind.removesuffix(left_open)
    return f"{kind}, {bounds}{left_open}" if bounds else f"{kind}{left_open}"

"""Numbers and counts as pages show them.

>>> number(3.9999999999999276), number(1e-05), number(math.inf)
('4', '1e-5', '∞')
>>> percent(0.97777), counted(1437, "label")
('97.8%', '1,437 labels')
>>> leading_number("0.25 to 1.5"), leading_number("∞"), leading_number("37 of 50")
('0.25', '1e999', '37')
"""

import math
import re
from typing import Any


def number(value: Any) -> str:
    """Return a float in at most four digits, any other value as it is written."""
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return re.sub(r"e([+-])0+", r"e\1", f"{value:.4g}")


def percent(share: float, *, digits: int = 1) -> str:
    """Return a share between 0 and 1 for a sentence."""
    return f"{100 * share:.{digits}f}%"


def leading_number(words: str) -> str:
    """Return the number that some words begin with, for sorting; empty if they begin with none."""
    match = re.match(r"-?[0-9.]+(e-?[0-9]+)?", words)
    return "1e999" if words.startswith("∞") else match[0] if match else ""


def counted(count: int, one: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


def short_key(key: str) -> str:
    """Return the last part of a dotted key, in words."""
    return key.rpartition(".")[2].replace("_", " ")

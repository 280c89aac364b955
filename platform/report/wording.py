"""Numbers as pages say them: few digits, and words where a number would be none.

>>> number(3.9999999999999276), number(1e-05), number(math.inf)
('4', '1e-5', '∞')
>>> percent(0.97777)
'97.8%'
"""

import math
import re
from typing import Any


def number(value: Any) -> str:
    """Return a value in at most four digits; what is no float as it is written."""
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return re.sub(r"e([+-])0+", r"e\1", f"{value:.4g}")


def percent(share: float) -> str:
    """Return a share between 0 and 1 for a sentence."""
    return f"{100 * share:.1f}%"


def rounded(value: float) -> float:
    """Return a number as tables in files have it: nine digits, without those of float's sums."""
    return float(f"{value:.9g}")


def leading_number(words: str) -> str:
    """Return the number that some words begin with, for sorting; empty if they begin with none.

    >>> leading_number("0.25 to 1.5"), leading_number("∞"), leading_number("37 of 50")
    ('0.25', '1e999', '37')
    """
    match = re.match(r"-?[0-9.]+(e-?[0-9]+)?", words)
    return "1e999" if words.startswith("∞") else match[0] if match else ""


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun.

    >>> counted(1, "trial"), counted(1437, "label")
    ('1 trial', '1,437 labels')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def short_key(key: str) -> str:
    """Return the last part of a dotted key, in words."""
    return key.rpartition(".")[2].replace("_", " ")

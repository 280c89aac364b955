"""Numbers and counts as pages show them.

>>> number(3.9999999999999276), number(1e-05), number(math.inf)
('4', '1e-5', '∞')
>>> counted(1437, "label")
'1,437 labels'
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


def counted(count: int, one: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {re.sub('y$', 'ie', one)}s"

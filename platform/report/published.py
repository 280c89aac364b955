"""Accuracies that papers state for a trial's settings, to stand beside ours.

`published.csv` has a row for each number: its source, the accuracy in percent, and the settings
that it was published for. An empty cell stands for any value: networks, batches and epochs are the
sweep's to choose.
"""

import csv
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_TABLE = Path(__file__).with_name("published.csv")
#: Of LP-MST beside its own release: another one has no published number.
_OWN_RELEASE: Mapping[str, Any] = {
    "trainer.randomizer": "rr_with_prior",
    "trainer.prior.source": "uniform",
    "trainer.post_processing": "map_with_prior",
}


class Published(NamedTuple):
    """An accuracy in percent, and its paper and table."""

    percent: float
    source: str


@lru_cache
def _rows() -> list[tuple[Published, dict[str, str]]]:
    found = []
    with _TABLE.open(newline="") as file:
        for row in csv.DictReader(file):
            published = Published(float(row.pop("percent")), row.pop("source"))
            found.append((published, {key: value for key, value in row.items() if value}))
    return found


def published_for(config: Mapping[str, Any]) -> list[Published]:
    """Return the numbers that were published for a trial's settings, by dotted key."""
    if any(config.get(key, value) != value for key, value in _OWN_RELEASE.items()):
        return []
    return [
        published
        for published, asked in _rows()
        if all(_equal(config.get(key), value) for key, value in asked.items())
    ]


def _equal(found: Any, asked: str) -> bool:
    return asked == (f"{found:g}" if isinstance(found, int | float) else found)

"""Accuracies that papers state for a trial's settings, to stand beside ours.

`published.csv` has a row for each: its source, the accuracy in percent, and the settings that it is
for. An empty cell stands for any value: network, batch and epochs are the sweep's to choose.
"""

import csv
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

#: Settings that no published number has another value of, where a method has them.
_AS_PUBLISHED: Mapping[str, Any] = {
    "trainer.randomizer": "rr_with_prior",
    "trainer.prior.source": "uniform",
    "trainer.post_processing": "map_with_prior",
}


class Published(NamedTuple):
    """An accuracy in percent, and its paper and table."""

    percent: float
    source: str


@lru_cache
def rows() -> list[tuple[Published, dict[str, str]]]:
    """Return every published number, with its settings by dotted key."""
    found = []
    with Path(__file__).with_suffix(".csv").open(newline="") as file:
        for row in csv.DictReader(file):
            published = Published(float(row.pop("percent")), row.pop("source"))
            found.append((published, {key: value for key, value in row.items() if value}))
    return found


def published_for(config: Mapping[str, Any]) -> list[Published]:
    """Return the numbers that were published for a trial's settings, by dotted key."""
    if any(config.get(key, value) != value for key, value in _AS_PUBLISHED.items()):
        return []
    own = {k: f"{v:g}" if isinstance(v, int | float) else v for k, v in config.items()}
    return [published for published, asked in rows() if asked.items() <= own.items()]

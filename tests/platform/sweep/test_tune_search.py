"""tune_search: what Tune is told, and that a defect of a search is not lost on the way."""

from pathlib import Path
from typing import Any

import pytest
from ray.tune.search import Searcher

from labeldp.platform.sweep.search_book import Suggested
from labeldp.platform.sweep.tune_search import HandOut


class Book:
    """Two trials, or an error."""

    def __init__(self, *left: Any) -> None:
        self._left = list(left)

    def next(self, records: dict[str, Any]) -> Suggested | None:
        found = self._left.pop(0)
        if isinstance(found, Exception):
            raise found
        assert found is None or isinstance(found, Suggested)
        return found


def hand_out(*left: Any) -> HandOut:
    return HandOut(Book(*left), records=dict)  # type: ignore[arg-type]


def test_trials_are_handed_on_until_there_is_none() -> None:
    first = Suggested(strand=1, numbers=(0.5, 2), hash="a")
    given = hand_out(first, None)
    assert given.suggest("x") == {"hash": "a", "strand": 1, "numbers": [0.5, 2]}
    assert given.suggest("y") == Searcher.FINISHED


def test_what_broke_a_search_is_kept() -> None:
    given = hand_out(ValueError("out of range"))
    with pytest.raises(ValueError, match="out of range"):
        given.suggest("x")
    assert isinstance(given.broken, ValueError)


def test_tune_keeps_nothing_of_it(tmp_path: Path) -> None:
    given = hand_out()
    given.save_to_dir(str(tmp_path), "session")
    assert given.__getstate__() == {}

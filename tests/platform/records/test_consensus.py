"""consensus: counts by the share that agrees, kept for the owner alone, and read with care."""

import stat
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.records.consensus import BINS, VoteConsensus, consensus_path


def test_queries_are_counted_by_how_far_teachers_agree(tmp_path: Path) -> None:
    shares = np.array([1.0, 0.98, 0.5, 0.31])
    found = VoteConsensus.of(shares, answered=np.array([True, True, False, True]))
    assert (found.answered[-1], found.answered[6], found.refused[10]) == (2, 1, 1)
    assert sum(found.answered) == 3 and sum(found.refused) == 1
    path = consensus_path(tmp_path, "ab12")
    found.write(path)
    assert VoteConsensus.read(path) == found
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"answered": [1], "refused": [2]}'])
def test_what_cannot_be_read_is_left_out(text: str, tmp_path: Path) -> None:
    assert VoteConsensus.read(tmp_path / "nothing.json") is None
    (tmp_path / "x.json").write_text(text)
    assert VoteConsensus.read(tmp_path / "x.json") is None


def test_counts_are_counts() -> None:
    with pytest.raises(ValueError, match="answered is"):
        VoteConsensus(answered=(-1,) * BINS, refused=(0,) * BINS)

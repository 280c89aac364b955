"""How far an ensemble's teachers agreed on queries that were answered, and on those refused.

It is counted from secret votes, without noise, and charged to nobody: for the owner of the labels.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeldp.platform.records.json_files import ResultsFolderError, read_json, write_json
from labeldp.platform.records.private_files import inner_folder

#: Equal parts of the shares from 0 to 1.
BINS = 20


@dataclass(frozen=True, kw_only=True)
class VoteConsensus:
    """Counts of queries by the share of teachers that gave the commonest answer.

    Attributes:
        answered: By the teachers [BINS].
        refused: Looked at and not answered by them: refused, or left to the student [BINS].
    """

    answered: tuple[int, ...]
    refused: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check the counts."""
        for name, counts in asdict(self).items():
            if len(counts) != BINS or not all(type(c) is int and c >= 0 for c in counts):
                raise ValueError(f"{name} is {counts!r:.80}; it must be {BINS} counts")

    @classmethod
    def of(cls, shares: NDArray[np.floating], *, answered: NDArray[np.bool_]) -> "VoteConsensus":
        """Count queries.

        Args:
            shares: Of teachers that gave the commonest answer [Q].
            answered: Whether the teachers answered [Q].
        """
        counts = [np.histogram(shares[part], BINS, (0, 1))[0] for part in (answered, ~answered)]
        yes, no = (tuple(map(int, each)) for each in counts)
        return cls(answered=yes, refused=no)

    def write(self, path: Path) -> None:
        """Keep it in a file that only its owner may read."""
        for folder in (path.parent.parent, path.parent):
            inner_folder(folder)
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "VoteConsensus | None":
        """Return what is kept at `path`; None where there is nothing, or nothing readable."""
        try:
            kept = read_json(path)
            return cls(answered=tuple(kept["answered"]), refused=tuple(kept["refused"]))
        except (ResultsFolderError, KeyError, TypeError, ValueError):
            return None  # a report goes without its figure


def consensus_path(results: Path, trial: str) -> Path:
    """Where a sweep's results folder keeps what was counted for a trial."""
    return results / "private" / "consensus" / f"{trial}.json"

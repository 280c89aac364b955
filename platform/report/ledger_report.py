"""What `labeldp ledger` says: the lines of some results folders, and what they cost together."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.platform.records.results import ResultsFolderError, write_text
from labeldp.platform.report.folder_ledger import FolderLedger, read_folder
from labeldp.platform.report.ledger_words import as_csv, in_words, rows
from labeldp.platform.report.total_ledger import Account, account_of

#: Files, any of which makes a folder one of results, or a fit's of a shared vault.
_OF_RESULTS = frozenset({"vault.db", "vault.lines", "sweep.json"})


@dataclass(frozen=True, kw_only=True)
class LedgerReport:
    """An account as plain values.

    Attributes:
        ok: Whether nothing says that a line is missing; where one is, sums are too low.
        releases: How many lines count.
        epsilon: Of the worst label over all folders, if any two of them may have it in common.
        delta: At which it holds.
        epsilon_private: As `epsilon`, without lines that handed the labels out.
        same_labels: True where all folders are of the same labels, None where nobody can tell.
        epsilon_if_different: As `epsilon_private`, if groups of folders have no label in common.
        folders: What each folder is, with its `group`.
        lines: Every line.
        words: All of it for a person.
        problems: What says that lines are missing.
    """

    ok: bool
    releases: int
    epsilon: float
    delta: float
    epsilon_private: float
    same_labels: bool | None
    epsilon_if_different: float
    folders: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    words: list[str]
    problems: list[str]


def ledger_report(
    folders: Sequence[str], *, csv: str | None = None, delta: float | None = None
) -> LedgerReport:
    """Return what folders have spent together.

    Args:
        folders: Results folders, or folders that hold some.
        csv: File to write the lines to, for its owner alone.
        delta: At which epsilon is stated where releases are not pure; that of the trials if None.

    Raises:
        ValueError: No results there, a file that is damaged, or a delta outside of [0, 1).
    """
    if delta is not None and not 0 <= delta < 1:
        raise ValueError(
            f"delta is {delta}; it must lie in [0, 1): 1e-5 for instance, or 0 for pure releases"
        )
    found = [place for folder in folders for place in _results_in(Path(folder))]
    account = account_of((read_folder(place, delta=delta) for place in found), delta=delta)
    if csv is not None:
        _write(Path(csv), as_csv(account))
    total = account.together
    return LedgerReport(
        ok=account.is_whole,
        releases=total.releases,
        epsilon=total.epsilon,
        delta=total.delta,
        epsilon_private=total.epsilon_private,
        same_labels=True if len(account.groups) == 1 else None,
        epsilon_if_different=account.apart.epsilon_private,
        folders=[_folder(account, place) for place in range(len(account.folders))],
        lines=rows(account),
        words=in_words(account),
        problems=list(account.problems),
    )


def _folder(account: Account, place: int) -> dict[str, Any]:
    folder: FolderLedger = account.folders[place]
    (group,) = (number for number, group in enumerate(account.groups) if place in group)
    return {
        "folder": str(folder.path),
        "sweep": folder.results.sweep,
        "vault": folder.vault,
        "fingerprint": folder.fingerprint,
        "labels": folder.num_labels,
        "releases": len(folder.lines),
        "group": group,
    }


def _results_in(folder: Path) -> list[Path]:
    """All results folders in a folder, however deep, itself among them; links are not followed.

    One whose vault is gone is among them too, so that it is missed.
    """
    found = [
        Path(place) for place, _, files in os.walk(folder) if not _OF_RESULTS.isdisjoint(files)
    ]
    return sorted(found) or [folder]


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except ResultsFolderError as error:
        raise ValueError(f"the table can't be written: {error}; choose another --csv") from error

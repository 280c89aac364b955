"""The report of a results folder as it lies on disk: ended, cut off, failed, or still running.

Nothing in the folder is made, settled or held but the report itself; tracking is not asked.
"""

import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.platform.records.private_files import owner_only
from labeldp.platform.report.ledger import FolderLedger, read_folder, sweep_totals
from labeldp.platform.report.ledger_words import sentences
from labeldp.platform.report.report import Report, write_report
from labeldp.trainers.data.regular_files import FileRefused, open_regular


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """What was written.

    Attributes:
        html: The page.
        pareto_png: The figure.
        rows: Lines of the table.
    """

    html: str
    pareto_png: str
    rows: int

    @classmethod
    def of(cls, written: Report) -> "ReportFiles":
        """Return where a report lies, as plain values."""
        return cls(html=str(written.html), pareto_png=str(written.pareto_png), rows=written.rows)


@owner_only()
def report_folder(named: str, *, out: str | None) -> ReportFiles:
    """Write the report of a results folder.

    Args:
        named: The folder.
        out: Folder to write to, made if need be; the results folder itself if None.

    Raises:
        ResultsFolderError: It holds no results, or a file in it is damaged.
        StoreUnusable: Its vault can't be read.
        ValueError: The report can't be written.
    """
    ledger = read_folder(Path(named))
    folder = ledger.path if out is None else Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = write_report(
            list(ledger.results.records.values()),
            folder=folder,
            title=ledger.results.sweep,
            ledger=totals_of(ledger),
            results=ledger.path,
            choose_by=ledger.results.identity.choose_by,
            releases=sentences(ledger.lines),
            running=is_held(ledger.path),
        )
    except OSError as error:
        raise ValueError(
            f"the report can't be written to {folder} ({error.strerror}); choose another --out DIR"
        ) from error
    return ReportFiles.of(written)


def totals_of(ledger: FolderLedger) -> dict[str, Any] | None:
    """Return the totals of a folder's ledger, as in a sweep's JSON; None of one without lines.

    Of a sweep that learns they are the plan's, where that is more: what was asked is an outcome.
    """
    if not ledger.lines:
        return None
    identity = ledger.results.identity
    facts = sweep_totals([line.charge for line in ledger.lines], identity, delta=ledger.delta)
    num_labels = identity.num_labels
    return facts if num_labels is None else {**facts, "num_labels": num_labels}


def is_held(folder: Path) -> bool:
    """Whether a driver is at work in a results folder."""
    try:
        with open_regular(folder / "driver.lock") as lock:
            # Let go of at once: a driver that starts in this very moment is refused, and says so.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (FileNotFoundError, FileRefused, OSError):
        return False
    return False

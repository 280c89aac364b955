"""The public edition of a sweep's report: its private trials, and nothing that is the owner's.

It is the same page, made of public records. Trials that were trained on labels without noise are
not on it, nor are those that failed: how accurate the first are, and that the second failed, was
computed from true labels.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.edition import Edition
from labeldp.platform.report.figures import Figures
from labeldp.platform.report.folder_ledger import FolderLedger, read_folder
from labeldp.platform.report.learned_sweeps import keys_behind, learns
from labeldp.platform.report.ledger_words import sentences
from labeldp.platform.report.outbox import check_target, search, write_folder
from labeldp.platform.report.page import AroundTrials, PageContent, page
from labeldp.platform.report.pareto import points
from labeldp.platform.report.public_values import public_records
from labeldp.platform.report.selection import (
    NotPublishable,
    check_record,
    cost_of_page,
    failed_rivals,
    keys_cut_off,
    price_of,
    private_trials,
)
from labeldp.platform.report.total_ledger import Total

PAGE = "report.html"


@dataclass(frozen=True, kw_only=True)
class PublicReport:
    """What was written.

    Attributes:
        html: The page.
        rows: Lines of its table.
        trials: How many trials it shows.
        left_out: How many it does not.
        epsilon: Of all releases on which the trials on it depend, and those of failed trials.
        delta: At which that holds.
    """

    html: str
    rows: int
    trials: int
    left_out: int
    epsilon: float
    delta: float


def public_report(results: Path, *, to: Path) -> PublicReport:
    """Write the public edition of a results folder's report.

    Args:
        results: The folder.
        to: Folder to write; it is not there yet, or empty.

    Raises:
        NotPublishable: The ledger has holes or contradicts a record, or the page would hold what
            must not leave.
        ValueError: No results there, no private trial, or a folder that can't be written.
    """
    place = to.expanduser().absolute()
    check_target(place, results=results)
    folder = read_folder(results)
    if folder.problems:
        raise NotPublishable(
            f"the ledger of {folder.path} is not whole, so that nobody knows what anything of it "
            f"cost: {folder.problems[0]}"
        )
    shown = private_trials(folder)
    if not shown:
        raise ValueError(
            f"{folder.path} has no trial that finished, has an epsilon, and noise without a seed: "
            "there is nothing to show in public"
        )
    for record in shown:
        check_record(folder, record)
    content = _content(folder, shown)
    files = {PAGE: page(content, Figures()).encode()}
    search(files, folder=folder, records=shown)
    write_folder(place, files)
    total = _total(folder, shown)
    return PublicReport(
        html=str(place / PAGE),
        rows=len(points(content.records, choose_by=content.choose_by)),
        trials=len(shown),
        left_out=len(folder.results.records) - len(shown),
        epsilon=total.epsilon,
        delta=total.delta,
    )


def _content(folder: FolderLedger, shown: list[TrialRecord]) -> PageContent:
    """What the page is made of: public records, and the lines that their trials have read."""
    choose_by = folder.results.identity.choose_by
    records = public_records(_at_their_price(folder, shown), fingerprint=folder.fingerprint)
    # That a trial is not on the page tells of its releases too.
    decided = [*shown, *failed_rivals(folder)]
    keys = {key: None for record in decided for key in keys_behind(folder, record)}
    keys |= dict.fromkeys(keys_cut_off(folder))
    lines = [
        # Who else read a release, a baseline say, is nobody's business.
        replace(
            line,
            handed_out=frozenset(),
            readers=tuple(each for each in line.readers if each in shown),
        )
        for line in folder.lines_of(tuple(keys))
    ]
    total = _total(folder, shown)
    ledger: dict[str, Any] = {
        **{name: value for name, value in asdict(total).items() if name != "handed_out"},
        "epsilon_total": total.epsilon,
    }
    return PageContent(
        title=folder.results.sweep,
        records=records,
        choose_by=choose_by,
        ledger=ledger,
        around=AroundTrials(releases=sentences(lines, public=True)),
        edition=Edition.PUBLIC,
    )


def _total(folder: FolderLedger, shown: list[TrialRecord]) -> Total:
    """What all releases cost that decided on what the page shows."""
    decided = [*shown, *failed_rivals(folder)]
    return cost_of_page(folder, decided, cut_off=keys_cut_off(folder))


def _at_their_price(folder: FolderLedger, shown: list[TrialRecord]) -> list[TrialRecord]:
    """Trials with what they cost who sees one; where a sweep learned, more than they say."""
    if not learns(folder):
        return shown
    priced = []
    for record in shown:
        price = price_of(folder, record)
        figures = {**record.metrics, "epsilon": price.epsilon, "delta": price.delta}
        priced.append(replace(record, metrics=figures))
    return priced

"""The report of a sweep: one HTML page, one figure, one CSV table.

The page stands alone (`page.py`). Of what was made of true labels it holds one thing, and says so:
epsilon_m, which the canaries' random labels went into. The public edition has not even that.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.platform.records.results import TrialRecord, write_text
from labeldp.platform.report.audit_report import write_audits
from labeldp.platform.report.figures import Figures, trade_off
from labeldp.platform.report.page import AroundTrials, PageContent, page
from labeldp.platform.report.pareto import Point, front, points
from labeldp.platform.report.styles import styles_of
from labeldp.platform.report.wording import rounded
from labeldp.platform.sweep.accuracy_figures import ChooseBy


@dataclass(frozen=True, kw_only=True)
class Report:
    """Where a report lies.

    Attributes:
        html: The page.
        pareto_png: The figure.
        pareto_csv: The table.
        rows: Lines of the table.
        private: The owner's page of audits and its figures, if there is one.
    """

    html: Path
    pareto_png: Path
    pareto_csv: Path
    rows: int
    private: tuple[Path, ...] = ()


def write_report(
    records: Sequence[TrialRecord],
    *,
    folder: Path,
    title: str,
    ledger: Mapping[str, Any] | None = None,
    results: Path | None = None,
    choose_by: ChooseBy | None = None,
    around: AroundTrials | None = None,
) -> Report:
    """Write `report.html`, `pareto.png`, `pareto.csv`, and the audits' page in `private/`.

    All are their owner's alone, who may show what the page says may be shown.

    Args:
        records: Trials of one sweep, failed ones too.
        folder: Where to; it exists.
        title: The sweep's name.
        ledger: Totals of the sweep's ledger, as in the sweep's JSON.
        results: The sweep's results folder, where the evidence of its audits lies.
        choose_by: Which accuracy trials are compared by, as in `pareto.points`.
        around: What else is told of the sweep.
    """
    report = Report(
        html=folder / "report.html",
        pareto_png=folder / "pareto.png",
        pareto_csv=folder / "pareto.csv",
        rows=0,
    )
    found = points(records, choose_by=choose_by)
    # What is written takes the place of what was there, with its modes: epsilon_m is the owner's
    # to show.
    figures = Figures(report.html, folder / "private" / "audits.html")
    look = {"width": 800.0, "attack": True, "title": title}
    figures.png(report.pareto_png, trade_off, found, styles_of(found), **look)
    _write_table(found, report.pareto_csv)
    private = write_audits(records, figures, folder=folder, results=results, title=title)
    content = PageContent(
        title=title,
        records=records,
        ledger=ledger,
        around=around or AroundTrials(),
        choose_by=choose_by,
        audits=bool(private),
    )
    write_text(report.html, page(content, figures))
    return Report(
        html=report.html,
        pareto_png=report.pareto_png,
        pareto_csv=report.pareto_csv,
        rows=len(found),
        private=private,
    )


def _write_table(found: Sequence[Point], path: Path) -> None:
    axes = list(dict.fromkeys(key for point in found for key, _ in point.point))
    columns = ["accuracy_std", "epsilon", "delta", "epsilon_m_low", "epsilon_m_high"]
    best = {point.hashes for point in front(found)}
    estimated = ["accuracy_estimated", "accuracy_estimated_error"]
    estimated = estimated if any(point.estimate for point in found) else []
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    names = ["variant", *axes, "accuracy", *columns, "trials", "pareto", "noise"]
    writer.writerow([*names, *estimated, "epsilon_m_ceiling", "league"])
    for point in found:
        values = dict(point.point)
        estimate = point.estimate
        shares = (estimate.accuracy, estimate.error) if estimate else ("",) * len(estimated)
        row = [
            point.variant,
            *(values.get(axis, "") for axis in axes),
            "" if point.accuracy_test is None else point.accuracy_test,
            *(getattr(point, column) for column in columns),
            len(point.hashes),
            int(point.hashes in best),
            point.noise,
            *shares,
            point.epsilon_m_ceiling,
            point.league,
        ]
        writer.writerow([rounded(v) if isinstance(v, float) else v for v in row])
    write_text(path, table.getvalue())

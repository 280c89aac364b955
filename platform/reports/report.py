"""The report of a sweep: one HTML page, one figure, one CSV table.

The page stands alone (the figure is inside it). Of what was made of true labels it holds one thing,
and says so: epsilon_m, which the canaries' random labels went into.
"""

import base64
import csv
import html
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.platform.accuracy_figures import ChooseBy
from labeldp.platform.private_files import replacing
from labeldp.platform.records.results import TrialRecord, dumps, write_text
from labeldp.platform.reports.accuracy_columns import (
    accuracy_cells,
    accuracy_heads,
    accuracy_remarks,
)
from labeldp.platform.reports.audit_report import DAGGER, write_audits
from labeldp.platform.reports.figures import pareto_figure
from labeldp.platform.reports.finding import spoiled_sentence
from labeldp.platform.reports.pareto import Point, front, points


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


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
       color: #1c2430; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #d8dee6; text-align: right; }
th:first-child, td:first-child, td.text { text-align: left; }
tr.front td { background: #eef6ee; } img { max-width: 100%; } .quiet { color: #5a6675; }
tr.failed td { color: #9a2f2f; text-align: left; }
"""


def write_report(
    records: Sequence[TrialRecord],
    *,
    folder: Path,
    title: str,
    ledger: Mapping[str, Any] | None = None,
    results: Path | None = None,
    choose_by: ChooseBy | None = None,
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
    """
    report = Report(
        html=folder / "report.html",
        pareto_png=folder / "pareto.png",
        pareto_csv=folder / "pareto.csv",
        rows=0,
    )
    found = points(records, choose_by=choose_by)
    best = {point.hashes for point in front(found)}
    # What is written takes the place of what was there, with its modes: epsilon_m is the owner's
    # to show.
    with replacing(report.pareto_png) as file:
        pareto_figure(found, file=file, title=title)
    _write_table(found, best, report.pareto_csv)
    page = _page(records, found, best, title, ledger, report.pareto_png.read_bytes())
    write_text(report.html, page)
    return Report(
        html=report.html,
        pareto_png=report.pareto_png,
        pareto_csv=report.pareto_csv,
        rows=len(found),
        private=write_audits(records, folder=folder, results=results, title=title, style=_STYLE),
    )


def _write_table(found: Sequence[Point], best: set[tuple[str, ...]], path: Path) -> None:
    axes = list(dict.fromkeys(key for point in found for key, _ in point.point))
    columns = ["accuracy_std", "epsilon", "delta", "epsilon_m_low", "epsilon_m_high"]
    estimated = ["accuracy_estimated", "accuracy_estimated_error"]
    estimated = estimated if any(point.estimate for point in found) else []
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    names = ["variant", *axes, "accuracy", *columns, "trials", "pareto", "noise", *estimated]
    writer.writerow(names)
    for point in found:
        values = dict(point.point)
        writer.writerow(
            [
                point.variant,
                *(values.get(axis, "") for axis in axes),
                "" if point.accuracy_test is None else point.accuracy_test,
                *(getattr(point, column) for column in columns),
                len(point.hashes),
                int(point.hashes in best),
                point.noise,
                *((point.estimate.accuracy, point.estimate.error) if point.estimate else ()),
            ]
        )
    write_text(path, table.getvalue())


def _page(
    records: Sequence[TrialRecord],
    found: Sequence[Point],
    best: set[tuple[str, ...]],
    title: str,
    ledger: Mapping[str, Any] | None,
    figure: bytes,
) -> str:
    rows = "\n".join(_row(point, point.hashes in best) for point in found)
    image = base64.b64encode(figure).decode()
    failed = [record for record in records if not record.finished]
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{html.escape(title)}</title>",
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>",
        f"<p>{len(records) - len(failed)} trials finished, {len(failed)} failed. Rows on the "
        "Pareto front of accuracy against provable epsilon are green.</p>",
        f"<img alt='accuracy against epsilon' src='data:image/png;base64,{image}'>",
        f"<table><tr><th>method</th><th>settings</th>{accuracy_heads(found)}"
        "<th>epsilon</th><th>delta</th>"
        f"<th>epsilon_m</th><th>trials</th><th>noise</th></tr>{rows}</table>",
        f"<p class='quiet'>{accuracy_remarks(found)} epsilon: provable, of one trial's releases. "
        "epsilon_m: interval of the memorization attack, corrected for the choice of a threshold; "
        "of several seeds the smallest lower and the largest upper end, so that each end keeps its "
        "confidence. It is measured on labels that were replaced at random, outside of the "
        "guarantee: leave that column out here and in pareto.csv where they go beyond the labels' "
        f"owner.{_at_delta(found)} noise: secure where it was drawn exactly and lies on a lattice, "
        "plain where bits of floating-point numbers may tell more than epsilon says, seeded where "
        "a seed can take it off again.</p>",
        _ceilings(records),
    ]
    spoiled = spoiled_sentence(records, ledger or {})
    parts += [f"<p class='quiet'>{html.escape(spoiled)}</p>"] if spoiled else []
    if ledger:
        parts.append(_ledger(ledger))
    if failed:
        parts.append("<h2>Failed trials</h2><table><tr><th>method</th><th>reason</th></tr>")
        parts += [
            f"<tr class='failed'><td>{html.escape(record.variant)} "
            f"{html.escape(dumps(record.point))}</td><td>{html.escape(record.reason)}</td></tr>"
            for record in failed
        ]
        parts.append("</table>")
    return "\n".join(parts) + "</html>\n"


def _row(point: Point, on_front: bool) -> str:
    settings = ", ".join(f"{key.split('.')[-1]} {_short(value)}" for key, value in point.point)
    return (
        f"<tr{' class=front' if on_front else ''}><td>{html.escape(point.variant)}</td>"
        f"<td class='text'>{html.escape(settings)}</td>"
        f"{accuracy_cells(point)}<td>{_short(point.epsilon)}</td>"
        f"<td>{point.delta:g}</td>"
        f"<td>{_short(point.epsilon_m_low)} to {_short(point.epsilon_m_high)}"
        f"{DAGGER if point.delta > 0 else ''}</td>"
        f"<td>{len(point.hashes)}</td><td>{html.escape(point.noise)}</td></tr>"
    )


def _at_delta(found: Sequence[Point]) -> str:
    """What the lower end proves of rows that hold at a delta, if there are any."""
    if not any(point.delta > 0 for point in found):
        return ""
    return (
        f" {DAGGER} The lower end is proven for delta 0 only: in rows that hold at a delta above 0 "
        "it says that the model is not private at delta 0 with less, and refutes no epsilon there."
    )


def _ceilings(records: Sequence[TrialRecord]) -> str:
    """What the audits could have found at most; what they found is on the owner's page."""
    audited = [record.metrics for record in records if "epsilon_m_ceiling" in record.metrics]
    if not audited:
        return ""
    one_run = [metrics.get("epsilon_one_run_ceiling", 0.0) for metrics in audited]
    return (
        "<p class='quiet'>With as many canaries as here, whatever leaks, the attack can prove an "
        f"epsilon of {max(metrics['epsilon_m_ceiling'] for metrics in audited):.2f} at most"
        + (f", and the one-run audit of {max(one_run):.2f}" if any(one_run) else "")
        + ". What every audit found in every model is on the page of the labels' owner, "
        "audits.html in the folder for private things beside this report.</p>"
    )


def _ledger(ledger: Mapping[str, Any]) -> str:
    return (
        "<h2>What the whole sweep cost</h2><p>"
        f"{ledger['releases']} releases. A label that all of them touch has paid epsilon "
        f"{_short(ledger['epsilon_total'])} at delta {ledger['delta']:g}: whoever sees every trial "
        "of this sweep, and picks among them, is held to that number and not to a single row's.</p>"
    )


def _short(value: Any) -> str:
    if isinstance(value, float):
        return "&infin;" if math.isinf(value) else f"{value:.4g}"
    return html.escape(str(value))

"""The owner's report of a sweep: a page, a figure, a table, and in `private/` a page of audits.

Of what was made of true labels the report holds one thing: epsilon_m, which the canaries' random
labels went into. The page of audits has the rest, and how far PATE's teachers agreed, which is
counted from secret votes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from labeldp.platform.records.private_files import inner_folder, private_folder
from labeldp.platform.records.results import (
    BINS,
    TrialRecord,
    read_consensus,
    write_text,
)
from labeldp.platform.report.card import attack_of, audits_of, render
from labeldp.platform.report.figures import (
    MOST_PANELS,
    histogram,
    png,
    styles_of,
    svg,
    trade_off,
)
from labeldp.platform.report.page import page, title_of
from labeldp.platform.report.pareto import Point, front, points
from labeldp.platform.report.wording import number
from labeldp.platform.sweep.accuracy_figures import ChooseBy

#: Words of the glossary on the page of audits.
_WORDS = (
    *("epsilon", "epsilon_m", "ceiling", "canary", "one-run audit", "as published"),
    "consensus",
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The files of a report; `private` is the owner's page of audits."""

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
    releases: Sequence[str] = (),
    running: bool = False,
    left: int | None = None,
) -> Report:
    """Write `report.html`, `pareto.png`, `pareto.csv`, and the audits' page in `private/`.

    All files are for their owner alone, whatever was there before. `results` is the sweep's results
    folder, where the evidence of its audits lies; the rest is as in `page`.
    """
    found = points(records, choose_by=choose_by)
    html, figure, table = (folder / f"{n}" for n in ("report.html", "pareto.png", "pareto.csv"))
    png(figure, trade_off, found, styles_of(found), attack=True, title=title)
    _write_table(found, table)
    private = _write_audits(records, folder=folder / "private", results=results, title=title)
    made = page(
        records,
        title=title,
        ledger=ledger,
        releases=releases,
        running=running,
        left=left,
        choose_by=choose_by,
        audits=bool(private),
    )
    write_text(html, made)
    return Report(html=html, pareto_png=figure, pareto_csv=table, rows=len(found), private=private)


def _write_table(found: Sequence[Point], path: Path) -> None:
    axes = dict.fromkeys(key for point in found for key, _ in point.point)
    best = {point.hashes for point in front(found)}
    columns = ("accuracy_std", "epsilon", "delta", "epsilon_m_low", "epsilon_m_high")
    rows = []
    for point in found:
        estimate = {}
        if point.estimate is not None:
            estimate["accuracy_estimated"] = point.estimate.accuracy
            estimate["accuracy_estimated_error"] = point.estimate.error
        rows.append(
            {
                "variant": point.variant,
                **{axis: dict(point.point).get(axis) for axis in axes},
                "accuracy": point.accuracy_test,
                **{column: getattr(point, column) for column in columns},
                "trials": len(point.hashes),
                "pareto": int(point.hashes in best),
                "noise": point.noise,
                **estimate,
                "epsilon_m_ceiling": point.epsilon_m_ceiling,
                "league": point.league,
            }
        )
    # Nine digits, without those that sums of floats leave behind.
    write_text(path, pd.DataFrame(rows).to_csv(index=False, float_format="%.9g"))


def _write_audits(
    records: Sequence[TrialRecord], *, folder: Path, results: Path | None, title: str
) -> tuple[Path, ...]:
    """Write the page of audits; nothing if no trial was audited and none voted."""
    finished = sorted(
        (record for record in records if record.finished),
        key=lambda record: (record.metrics["epsilon"], record.variant),
    )
    rows = [
        (title_of(r), {"epsilon": number(r.metrics["epsilon"]), **attack_of(r), **audits})
        for r in finished
        if (audits := audits_of(r))
    ]
    agreement = [] if results is None else _agreement(finished, results)
    if not rows and not agreement:
        return ()
    inner_folder(folder)
    private_folder(folder)
    made = render(
        "audits.html.jinja",
        title=title,
        columns=list(dict.fromkeys(name for _, cells in rows for name in cells)),
        rows=rows,
        agreement=agreement,
        terms=_WORDS,
    )
    write_text(folder / "audits.html", made)
    return (folder / "audits.html",)


def _agreement(finished: Sequence[TrialRecord], results: Path) -> list[Markup]:
    charts: list[Markup] = []
    edges = [100 * place / BINS for place in range(BINS + 1)]
    for record in finished:
        heights = read_consensus(results, record.hash)
        if heights is not None and any(map(any, heights.values())) and len(charts) < MOST_PANELS:
            title = title_of(record)
            counts = ", ".join(f"{name}: {sum(counts)}" for name, counts in heights.items())
            how = {"title": title, "along": "teachers who agree, %"}
            charts.append(svg(f"{title}: {counts}", histogram, heights, edges, **how))
    return charts

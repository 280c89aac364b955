"""The owner's report of a sweep: a page, a figure, a table, and in `private/` a page of audits.

Of what was made of true labels the report holds one thing: epsilon_m, which the canaries' random
labels went into. The page of audits has the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp.platform.records.results import TrialRecord, write_text
from labeldp.platform.report.card import attack_of, audits_of, render
from labeldp.platform.report.figures import png, styles_of, trade_off
from labeldp.platform.report.page import page, title_of
from labeldp.platform.report.pareto import Point, front, points, row_of
from labeldp.platform.report.wording import number
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.trainers.data.files import inner_folder, private_folder

#: Words of the glossary on the page of audits.
_WORDS = (*("epsilon", "epsilon_m", "ceiling", "canary", "one-run audit", "as published"),)


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
    choose_by: ChooseBy | None = None,
    **facts: Any,
) -> Report:
    """Write `report.html`, `pareto.png`, `pareto.csv`, and the audits' page in `private/`.

    All files are for their owner alone, whatever was there before; `facts` are as in `page`.
    """
    found = points(records, choose_by=choose_by)
    html, figure, table = (folder / f"{n}" for n in ("report.html", "pareto.png", "pareto.csv"))
    png(figure, trade_off, found, styles_of(found), attack=True, title=title)
    _write_table(found, table)
    private = _write_audits(records, folder=folder / "private", title=title)
    facts |= {"title": title, "choose_by": choose_by, "audits": bool(private)}
    write_text(html, page(records, **facts))
    return Report(html=html, pareto_png=figure, pareto_csv=table, rows=len(found), private=private)


def _write_table(found: Sequence[Point], path: Path) -> None:
    best = {point.hashes for point in front(found)}
    rows = []
    for point in found:
        first = {"variant": point.variant, **dict(point.point), "accuracy": point.accuracy_test}
        own = {"trials": len(point.hashes), "pareto": int(point.hashes in best)}
        rows.append({**first, **own, **row_of(point)})
    # Nine digits, without those that sums of floats leave behind.
    write_text(path, pd.DataFrame(rows).to_csv(index=False, float_format="%.9g"))


def _write_audits(records: Sequence[TrialRecord], *, folder: Path, title: str) -> tuple[Path, ...]:
    """Write the page of audits; nothing if no trial was audited."""
    finished = sorted(
        (record for record in records if record.finished),
        key=lambda record: (record.metrics["epsilon"], record.variant),
    )
    rows = [
        (title_of(r), {"epsilon": number(r.metrics["epsilon"]), **attack_of(r), **audits})
        for r in finished
        if (audits := audits_of(r))
    ]
    if not rows:
        return ()
    inner_folder(folder)
    private_folder(folder)
    made = render(
        "audits.html.jinja",
        title=title,
        columns=list(dict.fromkeys(name for _, cells in rows for name in cells)),
        rows=rows,
        terms=_WORDS,
    )
    write_text(folder / "audits.html", made)
    return (folder / "audits.html",)

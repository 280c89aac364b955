"""The owner's page: every audit of every trained model, in a table and two figures.

It shows what comes from the labels that canaries were given, and how far PATE's teachers agreed,
which is counted from secret votes, and is therefore not for release; it lies in the folder
`private` beside the report, which only its owner may enter.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from labeldp.platform.records.private_files import inner_folder, private_folder
from labeldp.platform.records.results import (
    BINS,
    TrialRecord,
    VoteConsensus,
    consensus_path,
    write_text,
)
from labeldp.platform.report.figures import Figures, audits, confidence, histogram, spread
from labeldp.platform.report.glossary import GLOSSARY
from labeldp.platform.report.page import MOST_PANELS, template
from labeldp.platform.report.pareto import points
from labeldp.platform.report.result_table import DAGGER
from labeldp.platform.report.trial_cards import title_of
from labeldp.platform.report.wording import number
from labeldp.platform.vault.audits import AttackEvidence, evidence_path

#: More panels than this can't be read in one figure.
_MOST_MODELS = 8

#: Of the glossary, those that this page uses.
_WORDS = (
    *("epsilon", "epsilon_m", "ceiling", "canary", "one-run audit", "as published"),
    "consensus",
)

_COLUMNS = (
    "model",
    "epsilon",
    "epsilon_m as published",
    "epsilon_m corrected",
    "ceiling",
    "one-run",
    "ceiling",
    "f-DP",
    "ceiling",
    "tight",
    "release",
    "ceiling",
    "coins guessed",
    "labels inferred",
    "advantage",
    "bound",
)


def write_audits(
    records: Sequence[TrialRecord],
    figures: Figures,
    *,
    folder: Path,
    results: Path | None,
    title: str,
) -> tuple[Path, ...]:
    """Write `private/audits.html`, `private/audits.png` and `private/confidence.png`.

    Args:
        records: Trials of one sweep.
        figures: Draws them.
        folder: The report's folder.
        results: The sweep's results folder, where evidence lies; without it there are no violins.
        title: The sweep's name.

    Returns:
        What was written; nothing if no trial was audited and no teacher voted.
    """
    audited = [r for r in records if r.finished and "label_inference_bound" in r.metrics]
    agreement = [] if results is None else _agreement(figures, records, results)
    if not audited and not agreement:
        return ()
    private = folder / "private"
    inner_folder(private)
    private_folder(private)
    by_hash = {record.hash: record for record in audited}
    shown = [by_hash[point.hashes[0]] for point in spread(points(audited), _MOST_MODELS)]
    drawn: list[tuple[str, Any, list[Any]]] = []
    if shown:
        name = "All bounds on each model's epsilon on one axis; the table has the numbers."
        models = [(title_of(record), record.metrics) for record in shown]
        drawn.append((name, audits, models))
    kept = [(title_of(record), _evidence(record, results)) for record in shown]
    if evidence := [(name, each) for name, each in kept if each is not None]:
        name = "How sure the attacker was where it was right, and where it was wrong."
        drawn.append((name, confidence, evidence))
    written = [private / f"{draw.__name__}.png" for _, draw, _ in drawn]
    for path, (_, draw, models) in zip(written, drawn, strict=True):
        figures.png(path, draw, models)
    ordered = sorted(audited, key=lambda record: (record.metrics["epsilon"], record.variant))
    page = template("audits.html.jinja").render(
        title=title,
        columns=_COLUMNS,
        rows=[(title_of(record), _cells(record)) for record in ordered],
        figures=[figures.svg(*each) for each in drawn],
        agreement=agreement,
        dagger=DAGGER,
        glossary={word: GLOSSARY[word] for word in _WORDS},
    )
    write_text(private / "audits.html", page)
    return (private / "audits.html", *written)


def _evidence(record: TrialRecord, results: Path | None) -> AttackEvidence | None:
    return None if results is None else AttackEvidence.read(evidence_path(results, record.hash))


def _agreement(figures: Figures, records: Sequence[TrialRecord], results: Path) -> list[Markup]:
    """Return a histogram of the teachers' agreement for each trial that kept one."""
    charts: list[Markup] = []
    edges = [100 * place / BINS for place in range(BINS + 1)]
    for record in records:
        kept = VoteConsensus.read(consensus_path(results, record.hash)) if record.finished else None
        if kept is not None and any((*kept.answered, *kept.refused)) and len(charts) < MOST_PANELS:
            heights = {"answered": kept.answered, "refused": kept.refused}
            title = title_of(record)
            said = [f"{name}: {sum(counts)}" for name, counts in heights.items()]
            how = {"title": title, "along": "teachers who agree, %"}
            name = f"{title}: {', '.join(said)}"
            charts.append(figures.svg(name, histogram, heights, edges, **how))
    return charts


def _cells(record: TrialRecord) -> list[str]:
    def figure(name: str) -> str:
        value = record.metrics.get(name)
        if value is None:
            return ""
        return number(value) if math.isinf(value) else f"{value:.2f}"

    def interval(name: str) -> str:
        return f"{figure(name + '_low')} to {figure(name + '_high')}"

    guesses = record.metrics.get("private/one_run_guesses")
    correct = record.metrics.get("private/one_run_correct")
    return [
        figure("epsilon"),
        interval("epsilon_m_paper"),
        interval("epsilon_m") + (DAGGER if record.metrics["delta"] > 0 else ""),
        figure("epsilon_m_ceiling"),
        figure("private/epsilon_one_run"),
        figure("epsilon_one_run_ceiling"),
        figure("private/epsilon_f_dp"),
        figure("epsilon_f_dp_ceiling"),
        figure("private/epsilon_tight"),
        figure("private/epsilon_release"),
        figure("epsilon_release_ceiling"),
        "" if guesses is None or correct is None else f"{correct:.0f} of {guesses:.0f}",
        figure("private/label_inference_accuracy"),
        figure("private/label_inference_advantage"),
        figure("label_inference_bound"),
    ]

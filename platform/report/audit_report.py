"""The owner's page: every audit of every trained model, in a table and two figures.

It shows what comes from the labels that canaries were given, and how far PATE's teachers agreed,
which is counted from secret votes, and is therefore not for release; it lies in the folder
`private` beside the report, which only its owner may enter.
"""

import base64
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from markupsafe import Markup

from labeldp.platform.records.consensus import BINS, VoteConsensus, consensus_path
from labeldp.platform.records.private_files import inner_folder, private_folder
from labeldp.platform.records.results import TrialRecord, write_text
from labeldp.platform.report.audit_figures import AuditedModel, audit_figure, confidence_figure
from labeldp.platform.report.glossary import GLOSSARY
from labeldp.platform.report.histograms import bars
from labeldp.platform.report.page import template
from labeldp.platform.report.pareto import points
from labeldp.platform.report.pictures import write_picture
from labeldp.platform.report.result_table import DAGGER
from labeldp.platform.report.stage_charts import MOST_CHARTS
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
    *,
    folder: Path,
    results: Path | None,
    title: str,
) -> tuple[Path, ...]:
    """Write `private/audits.html`, `private/audits.png` and `private/confidence.png`.

    Args:
        records: Trials of one sweep.
        folder: The report's folder.
        results: The sweep's results folder, where evidence lies; without it there are no violins.
        title: The sweep's name.

    Returns:
        What was written; nothing if no trial was audited and no teacher voted.
    """
    audited = [r for r in records if r.finished and "label_inference_bound" in r.metrics]
    agreement = [] if results is None else _agreement(records, results)
    if not audited and not agreement:
        return ()
    private = folder / "private"
    inner_folder(private)
    private_folder(private)
    shown = [_model(record, results) for record in _representatives(audited)]
    figures = []
    if shown:
        figures.append(private / "audits.png")
        write_picture(
            figures[-1],
            [(model.name, model.metrics) for model in shown],
            partial(audit_figure, shown),
            earlier=_also_in(results, figures[-1]),
        )
    if any(model.evidence is not None for model in shown):
        figures.append(private / "confidence.png")
        write_picture(
            figures[-1],
            [(model.name, model.evidence) for model in shown],
            partial(confidence_figure, shown),
            earlier=_also_in(results, figures[-1]),
        )
    page = private / "audits.html"
    write_text(page, _page(audited, figures, agreement, title))
    return (page, *figures)


def _also_in(results: Path | None, path: Path) -> tuple[Path, ...]:
    """Where the results folder has a picture of that name."""
    return () if results is None else (results / path.parent.name / path.name,)


def _representatives(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """One trial of each point, in order of epsilon, spread evenly if they are too many."""
    by_hash = {record.hash: record for record in records}
    first = [by_hash[point.hashes[0]] for point in points(records)]
    if len(first) <= _MOST_MODELS:
        return first
    step = (len(first) - 1) / (_MOST_MODELS - 1)
    return [first[round(place * step)] for place in range(_MOST_MODELS)]


def _model(record: TrialRecord, results: Path | None) -> AuditedModel:
    kept = None if results is None else AttackEvidence.read(evidence_path(results, record.hash))
    return AuditedModel(name=_name(record), metrics=record.metrics, evidence=kept)


def _name(record: TrialRecord) -> str:
    settings = (f"{key.split('.')[-1]} {value}" for key, value in record.point.items())
    return ", ".join([record.variant, *settings])


def _agreement(records: Sequence[TrialRecord], results: Path) -> list[Markup]:
    """A histogram of the teachers' agreement for each trial that kept one, as far as they fit."""
    charts: list[Markup] = []
    for record in records:
        kept = VoteConsensus.read(consensus_path(results, record.hash)) if record.finished else None
        if kept is not None and any((*kept.answered, *kept.refused)) and len(charts) < MOST_CHARTS:
            charts.append(
                bars(
                    {"answered": kept.answered, "refused": kept.refused},
                    edges=[100 * place / BINS for place in range(BINS + 1)],
                    title=_name(record),
                    along="teachers who agree, %",
                )
            )
    return charts


def _page(
    records: Sequence[TrialRecord],
    figures: Sequence[Path],
    agreement: Sequence[Markup],
    title: str,
) -> str:
    ordered = sorted(records, key=lambda record: (record.metrics["epsilon"], record.variant))
    names = {
        "audits.png": "All bounds on each model's epsilon on one axis; the table has the numbers.",
        "confidence.png": "How sure the attacker was where it was right, and where it was wrong.",
    }
    return str(
        template("audits.html.jinja").render(
            title=title,
            columns=_COLUMNS,
            rows=[(_name(record), _cells(record)) for record in ordered],
            figures=[
                (names[path.name], base64.b64encode(path.read_bytes()).decode()) for path in figures
            ],
            agreement=agreement,
            dagger=DAGGER,
            glossary={word: GLOSSARY[word] for word in _WORDS},
        )
    )


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

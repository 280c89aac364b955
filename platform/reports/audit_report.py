"""The owner's page: every audit of every trained model, in a table and two figures.

It shows what comes from the labels that canaries were given, and is therefore not for release; it
lies in the folder `private` beside the report, which only its owner may enter.
"""

import base64
import html
import math
from collections.abc import Sequence
from pathlib import Path

from labeldp.platform.private_files import inner_folder, private_folder, replacing
from labeldp.platform.records.results import TrialRecord, write_text
from labeldp.platform.reports.audit_figures import AuditedModel, audit_figure, confidence_figure
from labeldp.platform.reports.pareto import points
from labeldp.platform.trusted.audits import AttackEvidence, evidence_path

#: More panels than this can't be read in one figure.
_MOST_MODELS = 8

#: Beside bounds that are proven at delta 0, of models whose epsilon holds at a larger one.
DAGGER = "&dagger;"

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

_EXPLANATION = (
    "<p>epsilon is an upper bound that is proven; everything else here was measured on one trained "
    "model. <b>epsilon_m as published</b> is the interval of Malek et al. 2021, an estimate. "
    "<b>Corrected</b>, <b>one-run</b> and <b>f-DP</b> are lower bounds, each by itself valid at "
    "the stated confidence: a mechanism that exceeds its provable epsilon there is broken. But "
    "<b>corrected</b> is proven for delta 0 only: marked &dagger;, beside an epsilon at a larger "
    "delta, it refutes nothing. f-DP "
    "supposes the mechanism's own family of curves, and is missing where none is known; so do "
    "<b>tight</b>, which looks at the model, and <b>release</b>, which looks at the noisy labels "
    "by their likelihood ratio and no model: both are there where each label got noise of its own, "
    "once. A lower "
    "bound of 0 proves nothing, neither a leak nor its absence; no audit can prove more than its "
    "<b>ceiling</b>. <b>Labels inferred</b> counts canaries whose label the model's surest wrong "
    "guess names; <b>advantage</b> is how much that is above a blind guess among m labels, which "
    "label DP bounds by e<sup>epsilon</sup> / (e<sup>epsilon</sup> + m - 1) - 1 / m, and a little "
    "more where there is a delta. docs/audits.md says more.</p>"
)


def write_audits(
    records: Sequence[TrialRecord],
    *,
    folder: Path,
    results: Path | None,
    title: str,
    style: str,
) -> tuple[Path, ...]:
    """Write `private/audits.html`, `private/audits.png` and `private/confidence.png`.

    Args:
        records: Trials of one sweep.
        folder: The report's folder.
        results: The sweep's results folder, where evidence lies; without it there are no violins.
        title: The sweep's name.
        style: Style sheet of the page.

    Returns:
        What was written; nothing if no trial was audited.
    """
    audited = [r for r in records if r.finished and "label_inference_bound" in r.metrics]
    if not audited:
        return ()
    private = folder / "private"
    inner_folder(private)
    private_folder(private)
    shown = [_model(record, results) for record in _representatives(audited)]
    figures = [private / "audits.png"]
    with replacing(figures[0]) as file:
        audit_figure(shown, file=file)
    if any(model.evidence is not None for model in shown):
        figures.append(private / "confidence.png")
        with replacing(figures[1]) as file:
            confidence_figure(shown, file=file)
    page = private / "audits.html"
    write_text(page, _page(audited, figures, title, style))
    return (page, *figures)


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


def _page(records: Sequence[TrialRecord], figures: Sequence[Path], title: str, style: str) -> str:
    images = (base64.b64encode(path.read_bytes()).decode() for path in figures)
    ordered = sorted(records, key=lambda record: (record.metrics["epsilon"], record.variant))
    return "\n".join(
        [
            "<!doctype html><html lang='en'><meta charset='utf-8'>",
            f"<title>{html.escape(title)}: audits</title>",
            f"<style>{style}</style><h1>{html.escape(title)}: how private is it really?</h1>",
            "<p><b>For the owner of the labels, not for release:</b> these figures come from the "
            "secret labels of canaries.</p>",
            *(f"<img alt='audits' src='data:image/png;base64,{image}'>" for image in images),
            "<table><tr>" + "".join(f"<th>{name}</th>" for name in _COLUMNS) + "</tr>",
            *(_row(record) for record in ordered),
            "</table>",
            _EXPLANATION + "</html>\n",
        ]
    )


def _row(record: TrialRecord) -> str:
    def number(name: str) -> str:
        value = record.metrics.get(name)
        if value is None:
            return ""
        return "&infin;" if math.isinf(value) else f"{value:.2f}"

    def interval(name: str) -> str:
        return f"{number(name + '_low')} to {number(name + '_high')}"

    guesses = record.metrics.get("private/one_run_guesses")
    correct = record.metrics.get("private/one_run_correct")
    cells = [
        html.escape(_name(record)),
        number("epsilon"),
        interval("epsilon_m_paper"),
        interval("epsilon_m") + (DAGGER if record.metrics["delta"] > 0 else ""),
        number("epsilon_m_ceiling"),
        number("private/epsilon_one_run"),
        number("epsilon_one_run_ceiling"),
        number("private/epsilon_f_dp"),
        number("epsilon_f_dp_ceiling"),
        number("private/epsilon_tight"),
        number("private/epsilon_release"),
        number("epsilon_release_ceiling"),
        "" if guesses is None or correct is None else f"{correct:.0f} of {guesses:.0f}",
        number("private/label_inference_accuracy"),
        number("private/label_inference_advantage"),
        number("label_inference_bound"),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

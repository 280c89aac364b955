"""The report's page: one HTML file that stands alone, for a desk, a telephone and paper.

Nothing is fetched from elsewhere: figures, styles and the few lines of script are inside, and
without the script everything is there but sorting. The templates escape every name that users
chose. The public page is made of public records (`public_values.public_records`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment
from markupsafe import Markup

from labeldp.mechanisms.accuracy_estimate import BestOf
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.card import DAGGER, TEMPLATES, environment, facts
from labeldp.platform.report.figures import (
    MethodStyle,
    curves_of,
    learning_curves,
    reliability,
    spread,
    styles_of,
    svg,
    trade_off,
)
from labeldp.platform.report.finding import finding
from labeldp.platform.report.ledger import Audience
from labeldp.platform.report.pareto import (
    Point,
    front,
    leagues_of,
    noise_among,
    points,
    settings_beside_epsilon,
)
from labeldp.platform.report.wording import counted, leading_number, number, percent, short_key
from labeldp.platform.sweep.accuracy_figures import (
    SCORES,
    ChooseBy,
    estimate_of,
    estimated_text,
    is_rare,
    scores_text,
)

#: More run cards than this lie in a fold of their own.
MOST_OPEN_CARDS = 24
#: Small figures of one kind: learning curves, histograms; and lines in one of them.
MOST_PANELS, _MOST_LINES = 12, 8
#: Settings that name places on the owner's machine.
_PLACES = ("data.root", "data.path", "data.embeddings")


class Cell(NamedTuple):
    """A cell of the table: its words, a note in small print, and its rank for sorting."""

    words: str
    small: str = ""
    order: str = ""


class Column(NamedTuple):
    """A column of the table: its head, the glossary's word for it, and whether it holds words."""

    title: str
    cells: Sequence[Cell]
    term: str = ""
    text: bool = False


def page(
    records: Sequence[TrialRecord],
    *,
    title: str,
    audience: Audience = Audience.OWNER,
    ledger: Mapping[str, Any] | None = None,
    releases: Sequence[str] = (),
    running: bool = False,
    left: int | None = None,
    choose_by: ChooseBy | None = None,
    audits: bool = False,
) -> str:
    """Return the page of a sweep's trials, failed ones too.

    The public sees nothing that was made of true labels or canaries. `ledger` has the totals as in
    the sweep's JSON; `left` trials are still to run; `audits`: whether the page of audits lies
    beside it.
    """
    owner = audience is Audience.OWNER
    found = points(records, choose_by=choose_by)
    failed = [record for record in records if not record.finished]
    styles = styles_of(found, (record.variant for record in failed))
    by_hash = {record.hash: record for record in records}
    cards, shared = _cards(
        [by_hash[digest] for point in found for digest in point.hashes], styles, audience
    )
    attack = owner and any(point.epsilon_m_ceiling > 0 for point in found)
    by = found[0].accuracy_by if found else ChooseBy.TEST
    name = f"{by.words[:1].upper()}{by.words[1:]} against provable epsilon"
    name += ", and below it what the attack proved" if attack else ""
    name += "; the table has the same numbers."
    drawn = {point.variant for point in found}
    looks = {variant: style for variant, style in styles.items() if variant in drawn}
    columns = _columns(found, owner=owner)
    best = {point.hashes for point in front(found)}
    cells = zip(*(column.cells for column in columns), strict=True)
    estimates = [point.estimate for point in found if point.estimate is not None]
    canaries = {str(record.config.get("audit.canaries", "")) for record in records}
    return render(
        "report.html.jinja",
        title=title,
        owner=owner,
        finished=len(records) - len(failed),
        left=left,
        running=running,
        data_sets=sorted({str(record.config.get("data.name", "")) for record in records} - {""}),
        finding=finding(records, ledger=ledger, choose_by=choose_by, with_attack=owner),
        leagues=sorted({record.features_from.words for record in records if record.finished}),
        audits=audits and owner,
        styles=styles,
        figure=svg(name, trade_off, found, looks, attack=attack) if found else None,
        attack=attack,
        canaries=next(iter(canaries)) if len(canaries) == 1 else "",
        columns=columns,
        rows=[(point, point.hashes in best, row) for point, row in zip(found, cells, strict=True)],
        mixed=len(leagues_of(found)) > 1,
        dagger=DAGGER if attack and any(p.delta > 0 for p in found if p.epsilon_m_ceiling) else "",
        estimates=estimates,
        best_of=BestOf.among(estimates) if by is ChooseBy.ESTIMATED and estimates else None,
        lottery=noise_among(found) if by.estimated else None,
        by=by.words,
        curves=_curve_panels(found, by_hash, styles),
        reliability=_reliability_panels(found, by_hash, styles),
        ledger=ledger,
        releases=releases,
        cards=cards,
        shared=shared,
        many_cards=len(cards) > MOST_OPEN_CARDS,
        failed=[(title_of(record), record.reason) for record in failed],
    )


@cache
def _pages() -> Environment:
    made = environment()
    made.filters |= {"number": number, "anchor": anchor, "leading": leading_number}
    made.globals |= {
        "style": Markup((TEMPLATES / "page.css").read_text()),
        "script": Markup((TEMPLATES / "page.js").read_text()),
        "glossary": json.loads((TEMPLATES / "glossary.json").read_text()),
        "counted": counted,
        "infinity": math.inf,
    }
    return made


def render(template: str, **parts: Any) -> str:
    """Return a page made from a template, which escapes these parts."""
    made: str = _pages().get_template(template).render(**parts)
    return made


def anchor(word: str) -> str:
    """Return the name that pages link to a word of the glossary by."""
    return "word-" + "".join(c if c.isalnum() else "-" for c in word)


def title_of(record: TrialRecord) -> str:
    """Return a trial's method and what sets it apart."""
    settings = (f"{short_key(key)} {_value(value)}" for key, value in record.point.items())
    return ", ".join([record.variant, *settings])


def _columns(found: Sequence[Point], *, owner: bool) -> list[Column]:
    # Epsilon and accuracy stand side by side on a telephone too, whichever accuracies there are.
    methods = [Cell(point.variant, order=point.variant.casefold()) for point in found]
    columns = [Column("method", methods, text=True), _numbers("epsilon", found, "epsilon")]
    columns += _scores(found)
    if any(point.accuracy_test is not None for point in found) or not found:
        columns.append(Column("accuracy, %", [_measured(p) for p in found], "accuracy"))
    if any(point.estimate is not None for point in found):
        estimates = [_estimated(point) for point in found]
        columns.append(Column("estimated, %", estimates, "estimated accuracy"))
    columns.append(_numbers("delta", found, "delta"))
    if owner:
        columns.append(Column("epsilon_m", [_attack(point) for point in found], "epsilon_m"))
        ceilings = [_cell(round(p.epsilon_m_ceiling, 2) or None) for p in found]
        columns.append(Column("ceiling", ceilings, "ceiling"))
    for key in settings_beside_epsilon(found):
        values = [_cell(dict(point.point).get(key)) for point in found]
        columns.append(Column(short_key(key), values, text=True))
    columns.append(Column("seeds", [_cell(len(point.hashes)) for point in found], "seed"))
    columns.append(Column("noise", [_cell(point.noise) for point in found], "noise", text=True))
    if len(leagues_of(found)) > 1:
        leagues = [_cell(point.league) for point in found]
        columns.append(Column("league", leagues, "league", text=True))
    return columns


def _scores(found: Sequence[Point]) -> list[Column]:
    """Columns of what points are compared by, and of what a rare class asks for."""
    shown = [found[0].accuracy_by.metric] if found and found[0].accuracy_by.of_scores else []
    if any(is_rare(point.scores) for point in found):
        for name in ("roc_auc", "average_precision"):
            shown += [each for each in (name, f"{name}_estimated") if each in found[0].scores]
    columns = []
    for name in dict.fromkeys(shown):
        base, estimated, _ = name.partition("_estimated")
        cells = []
        for point in found:
            ends = [point.scores.get(f"{name}_{end}") for end in ("low", "high")]
            small = f"{ends[0]:.3f} to {ends[1]:.3f}" if None not in ends else ""
            value = point.scores[name]
            cells.append(Cell(f"{value:.3f}", small, f"{value:.9g}"))
        columns.append(
            Column(f"estimated {SCORES[base]}" if estimated else SCORES[base], cells, SCORES[base])
        )
    return columns


def _numbers(name: str, found: Sequence[Point], term: str) -> Column:
    return Column(name, [_cell(getattr(point, name)) for point in found], term)


def _cell(value: Any) -> Cell:
    if isinstance(value, int | float) and not isinstance(value, bool):
        order = "1e999" if math.isinf(value) else f"{value:.9g}"
        return Cell(number(value), order=order)
    words = "" if value is None else str(value)
    return Cell(words, order=words.casefold())


def _measured(point: Point) -> Cell:
    if point.accuracy_test is None:
        return Cell("")
    spread = point.accuracy_std if point.accuracy_by is ChooseBy.TEST else 0.0
    small = f"± {100 * spread:.2f}" if spread else ""
    return Cell(f"{100 * point.accuracy_test:.2f}", small, f"{point.accuracy_test:.9g}")


def _estimated(point: Point) -> Cell:
    if point.estimate is None:
        return Cell("")
    accuracy, error = point.estimate.accuracy, point.estimate.error
    return Cell(f"{100 * accuracy:.2f}", f"error {100 * error:.2f}", f"{accuracy:.9g}")


def _attack(point: Point) -> Cell:
    if point.epsilon_m_ceiling == 0:
        return Cell("not measured", order="-1")
    low, high = (number(round(end, 2)) for end in (point.epsilon_m_low, point.epsilon_m_high))
    dagger = DAGGER if point.delta > 0 else ""
    return Cell(f"{low} to {high}{dagger}", order=f"{point.epsilon_m_low:.9g}")


def _cards(
    finished: Sequence[TrialRecord], styles: Mapping[str, MethodStyle], audience: Audience
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    keys = dict.fromkeys(key for record in finished for key in record.config)
    if audience is Audience.PUBLIC:
        keys = dict.fromkeys(key for key in keys if key not in _PLACES)
    values = {key: [_value(record.config.get(key)) for record in finished] for key in keys}
    shared = {key: mine[0] for key, mine in values.items() if len(set(mine)) == 1}
    own = {key: mine for key, mine in values.items() if key not in shared}
    cards = [
        {
            "hash": record.hash,
            "title": title_of(record),
            "outcome": _outcome(record),
            "style": styles[record.variant],
            "facts": facts(record, audience),
            "settings": {key: mine[row] for key, mine in own.items()},
        }
        for row, record in enumerate(finished)
    ]
    return cards, shared


def _outcome(record: TrialRecord) -> str:
    metrics = record.metrics
    estimate, epsilon = estimate_of(metrics), metrics["epsilon"]
    if "accuracy" in metrics or estimate is None:
        accuracy = percent(metrics["accuracy"])
    else:
        accuracy = estimated_text(estimate.accuracy)
    if is_rare(metrics) and (scores := scores_text(metrics)):
        accuracy = f"{scores}, {accuracy}"
    private = f"epsilon {number(epsilon)}" if math.isfinite(epsilon) else "not private"
    return f"{private}, {accuracy} accurate"


def _value(value: object) -> str:
    # Tracking gives every value back as text.
    return "not set" if value is None or value == "None" else number(value)


def _reliability_panels(
    found: Sequence[Point],
    records: Mapping[str, TrialRecord],
    styles: Mapping[str, MethodStyle],
) -> list[Markup]:
    """Return a panel for each method, of each point's first seed."""
    panels: list[Markup] = []
    for name, style in styles.items():
        mine = [
            (point.epsilon, records[point.hashes[0]].reliability)
            for point in found
            if point.variant == name and records[point.hashes[0]].reliability
        ]
        if mine and len(panels) < MOST_PANELS:
            words = f"Reliability of {name}: share of labels at each score"
            panels.append(svg(words, reliability, name, spread(mine, _MOST_LINES), style))
    return panels


def _curve_panels(
    found: Sequence[Point],
    records: Mapping[str, TrialRecord],
    styles: Mapping[str, MethodStyle],
) -> dict[str, Any] | None:
    """Return a panel for each method, or None where no trial has two epochs to draw a line."""
    shows, every = curves_of(found, records)
    groups = {name: [c for c in every if c.variant == name] for name in styles}
    filled = [(name, spread(mine, _MOST_LINES)) for name, mine in groups.items() if mine]
    shown = [curve for _, mine in filled[:MOST_PANELS] for curve in mine]
    if not shown:
        return None
    values = [value for curve in shown for value in curve.values]
    epochs = [epoch for curve in shown for epoch in curve.epochs]
    reach = (min(epochs), max(epochs), min(values), max(values))
    panels = []
    for name, mine in filled[:MOST_PANELS]:
        words, how = f"Learning curves of {name}: {shows}", {"shows": shows, "reach": reach}
        panels.append(svg(words, learning_curves, name, mine, styles[name], **how))
    return {"panels": panels, "shows": shows, "left_out": len(every) - len(shown)}

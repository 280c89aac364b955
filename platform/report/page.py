"""The report's page: one HTML file that stands alone, for a desk, a telephone and paper.

Nothing is fetched from anywhere: figures, styles and the few lines of script are inside, and
without the script everything is there but sorting. Whatever users have named is escaped by the
templates.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.edition import Edition
from labeldp.platform.report.figures import (
    Figures,
    curves_of,
    histogram,
    learning_curves,
    parallel,
    settings_compared,
    spread,
    trade_off,
)
from labeldp.platform.report.finding import finding
from labeldp.platform.report.glossary import GLOSSARY, anchor
from labeldp.platform.report.pareto import Point, front, points, settings_beside_epsilon
from labeldp.platform.report.result_table import result_table
from labeldp.platform.report.styles import MethodStyle, styles_of
from labeldp.platform.report.trial_cards import title_of, trial_cards
from labeldp.platform.report.wording import counted, leading_number, number, short_key
from labeldp.platform.sweep.accuracy_figures import ChooseBy

#: Widths of the view of the main figure: at a desk, and on a telephone.
_WIDE, _NARROW = 720.0, 352.0
#: More run cards than this lie in a fold of their own.
MOST_OPEN_CARDS = 24
#: Small figures of one kind: learning curves, histograms.
MOST_PANELS, _MOST_LINES = 12, 8
_STAGE = re.compile(r"top_k_stage_(\d+)_share_(\d+)")


@dataclass(frozen=True, kw_only=True)
class AroundTrials:
    """What is told of a sweep beside its trials, as far as it is at hand.

    Attributes:
        releases: The ledger's releases, in words.
        running: Whether the sweep still runs.
        left: Trials that it has still to run; None where nobody knows.
    """

    releases: Sequence[str] = ()
    running: bool = False
    left: int | None = None


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """All that a page is made of.

    Attributes:
        title: The sweep's name.
        records: Its trials, failed ones too.
        ledger: Totals of the ledger, as in the sweep's JSON; None where they are not at hand.
        around: What is told beside.
        edition: For whom the page is.
        choose_by: Which accuracy trials are compared by, as in `pareto.points`.
        audits: Whether the owner's page of audits lies beside this one.
    """

    title: str
    records: Sequence[TrialRecord]
    ledger: Mapping[str, Any] | None = None
    around: AroundTrials = field(default_factory=AroundTrials)
    edition: Edition = Edition.OWNER
    choose_by: ChooseBy | None = None
    audits: bool = False


def page(content: PageContent, figures: Figures) -> str:
    """Return the page.

    Args:
        content: What is on it.
        figures: Draws them.

    Raises:
        ValueError: Trials that lack the accuracy that they are to be compared by.
    """
    records, edition = content.records, content.edition
    found = points(records, choose_by=content.choose_by)
    failed = [record for record in records if not record.finished]
    styles = styles_of(found, (record.variant for record in failed))
    by_hash = {record.hash: record for record in records}
    best = {point.hashes for point in front(found)}
    owner = edition is Edition.OWNER
    cards = trial_cards(
        [by_hash[digest] for point in found for digest in point.hashes],
        styles=styles,
        edition=edition,
    )
    attack = owner and any(point.epsilon_m_ceiling > 0 for point in found)
    name = "Accuracy against provable epsilon"
    name += ", and below it what the attack proved" if attack else ""
    name += "; the table has the same numbers."
    looks = {variant: styles[variant] for variant in styles if variant in _variants(found)}
    main = [
        figures.svg(name, trade_off, found, looks, width=width, attack=attack)
        for width in (_WIDE, _NARROW)
        if found
    ]
    made: str = template("report.html.jinja").render(
        title=content.title,
        status=_status(content, failed=len(failed)),
        data_sets=sorted({str(record.config.get("data.name", "")) for record in records} - {""}),
        finding=finding(
            records, ledger=content.ledger, choose_by=content.choose_by, with_attack=owner
        ),
        leagues=sorted({record.features_from.words for record in records if record.finished}),
        owner=owner,
        audits=content.audits and owner,
        styles=styles,
        figures=main,
        attack=attack,
        canaries=_canaries(records),
        table=result_table(found, best=best, styles=styles, edition=edition),
        curves=_curve_panels(figures, found, by_hash, styles),
        parallel=_search_space(figures, found, styles),
        stages=_stages(figures, found, by_hash),
        total=_total(content.ledger),
        releases=content.around.releases,
        cards=cards,
        many_cards=len(cards.cards) > MOST_OPEN_CARDS,
        failed=[(title_of(record), record.reason) for record in failed],
        glossary=GLOSSARY,
    )
    return made


def _variants(found: Sequence[Point]) -> set[str]:
    return {point.variant for point in found}


def _curve_panels(
    figures: Figures,
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
    panels = [
        figures.svg(
            *(f"Learning curves of {name}: {shows}", learning_curves, name, mine, styles[name]),
            shows=shows,
            reach=reach,
        )
        for name, mine in filled[:MOST_PANELS]
    ]
    return {"panels": panels, "shows": shows, "left_out": len(every) - len(shown)}


def _search_space(
    figures: Figures, found: Sequence[Point], styles: Mapping[str, MethodStyle]
) -> Markup | None:
    """Return the figure, or None where fewer than two points or settings can be compared."""
    columns = settings_compared(found)
    if len(found) < 2 or len(columns) < 3:
        return None
    name = "Settings of every point, one axis each, up to its epsilon and accuracy."
    return figures.svg(name, parallel, columns, [styles[point.variant] for point in found])


def _stages(
    figures: Figures, found: Sequence[Point], records: Mapping[str, TrialRecord]
) -> list[Markup]:
    """Return histograms of k*, the number of classes that LP-MST's stages picked a label from.

    It follows from releases and public features alone, and is part of what the guarantee covers.
    """
    settings = settings_beside_epsilon(found)
    charts: list[Any] = []
    for point in found:
        values = dict(point.point)
        own = (f"{short_key(key)} {number(values[key])}" for key in settings if key in values)
        name = ", ".join([point.variant, f"ε {number(point.epsilon)}", *own])
        for stage, shares in _shares(point, records).items():
            most = max(2, *shares)
            heights = {"share of labels, %": [100 * shares.get(k, 0.0) for k in range(1, most + 1)]}
            edges = [k + 0.5 for k in range(most + 1)]
            title = f"{name}, stage {stage}"
            how = {"title": title, "along": "k*: classes to pick from"}
            charts.append((f"{title}: share of labels", histogram, heights, edges, how))
    return [figures.svg(*shown, **how) for *shown, how in charts[:MOST_PANELS]]


def _shares(point: Point, records: Mapping[str, TrialRecord]) -> dict[int, dict[int, float]]:
    """Return stage -> k* -> share of its labels, mean over the point's trials."""
    seen: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for digest in point.hashes:
        for name, value in records[digest].metrics.items():
            if match := _STAGE.fullmatch(name):
                seen[int(match[1])][int(match[2])].append(value)
    # A k* that a trial has no figure for was not there.
    count = len(point.hashes)
    return {
        stage: {k: fmean([*v, *[0.0] * (count - len(v))]) for k, v in shares.items()}
        for stage, shares in sorted(seen.items())
    }


@cache
def _environment() -> Environment:
    folder = Path(__file__).parent / "templates"
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {"number": number, "anchor": anchor, "leading": leading_number}
    made.globals |= {
        "style": Markup((folder / "page.css").read_text()),
        "script": Markup((folder / "page.js").read_text()),
        "counted": counted,
    }
    return made


def template(name: str) -> Any:
    """Return a page's template; it escapes what it is given."""
    return _environment().get_template(name)


def _status(content: PageContent, *, failed: int) -> str:
    """How many trials there are, and of which kind."""
    finished = len(content.records) - failed
    words = f"{counted(finished, 'trial')} finished, {failed} failed"
    if content.around.left:
        words += f", {content.around.left} left"
    return f"{words}; the sweep is running" if content.around.running else words


def _total(ledger: Mapping[str, Any] | None) -> str:
    """What all releases together have cost, and whom that number is about."""
    if ledger is None:
        return ""
    total, delta = float(ledger["epsilon_total"]), float(ledger["delta"])
    private = float(ledger.get("epsilon_private", math.inf))
    start = f"{counted(int(ledger['releases']), 'release')}. "
    if math.isinf(total) and math.isfinite(private):
        at = float(ledger.get("delta_private", delta))
        return (
            f"{start}Those with noise add up to epsilon {number(private)} at delta {number(at)} "
            "for a label that all of them touch: whoever sees all private trials, and picks among "
            "them, is held to that number and not to a single row's. A baseline read the labels "
            "as they are: who sees it as well is held to nothing, and it is the owner's to keep."
        )
    return (
        f"{start}A label that all of them touch has paid epsilon {number(total)} at delta "
        f"{number(delta)}: whoever sees every trial of this sweep, and picks among them, is held "
        "to that number and not to a single row's."
    )


def _canaries(records: Sequence[TrialRecord]) -> str:
    """How many labels were spoiled for the attack, if all trials say the same number."""
    found = {str(record.config.get("audit.canaries", "")) for record in records}
    said = found.pop() if len(found) == 1 else ""
    return said if said.isdecimal() else ""

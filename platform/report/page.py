"""The report's page: one HTML file that stands alone, for a desk, a telephone and paper.

Nothing is fetched from anywhere: figures, styles and the few lines of script are inside, and
without the script everything is there but sorting. Whatever users have named is escaped by the
templates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.curve_charts import curve_panels
from labeldp.platform.report.edition import Edition
from labeldp.platform.report.finding import finding
from labeldp.platform.report.glossary import GLOSSARY, anchor
from labeldp.platform.report.method_styles import styles_of
from labeldp.platform.report.parallel_chart import parallel_chart
from labeldp.platform.report.pareto import front, points
from labeldp.platform.report.result_table import result_table
from labeldp.platform.report.stage_charts import stage_charts
from labeldp.platform.report.trade_off_chart import trade_off_chart
from labeldp.platform.report.trial_cards import title_of, trial_cards
from labeldp.platform.report.wording import counted, leading_number, number
from labeldp.platform.sweep.accuracy_figures import ChooseBy

#: Widths of the view of the main figure: at a desk, and on a telephone.
_WIDE, _NARROW = 720.0, 352.0
#: More run cards than this lie in a fold of their own.
MOST_OPEN_CARDS = 24


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


def page(content: PageContent) -> str:
    """Return the page.

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
    figures = [
        trade_off_chart(found, records=by_hash, styles=styles, width=width, attack=owner)
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
        figures=figures,
        attack=owner and any(point.epsilon_m_ceiling > 0 for point in found),
        canaries=_canaries(records),
        table=result_table(found, best=best, styles=styles, edition=edition),
        curves=curve_panels(found, records=by_hash, styles=styles),
        parallel=parallel_chart(found, styles=styles),
        stages=stage_charts(found, records=by_hash),
        total=_total(content.ledger),
        releases=content.around.releases,
        cards=cards,
        many_cards=len(cards.cards) > MOST_OPEN_CARDS,
        failed=[(title_of(record), record.reason) for record in failed],
        glossary=GLOSSARY,
    )
    return made


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

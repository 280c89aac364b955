"""The report of a sweep: a page, a figure and a table.

The page is one HTML file that stands alone, for a desk, a telephone and paper. Nothing is fetched
from elsewhere: figures, styles and the few lines of script are inside, and without the script
everything is there but sorting. The templates escape every name that users chose. The public page
is made of public records (`publish.public_records`).

Of what was made of true labels the owner's report holds one thing: epsilon_m, which the canaries'
random labels went into. Run cards have the rest.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from labeldp.mechanisms.guess_risk import percent
from labeldp.platform.records.progress import duration
from labeldp.platform.records.results import REPORT_FILES, TrialRecord, csv_text, write_text
from labeldp.platform.report.card import facts, guess_of, render
from labeldp.platform.report.figures import MethodStyle, styles_of, svg, trade_off
from labeldp.platform.report.finding import finding
from labeldp.platform.report.ledger import Audience
from labeldp.platform.report.paper_figures import (
    FIGURES,
    Published,
    learned,
    published_for,
    write_figure,
    write_figures,
)
from labeldp.platform.report.pareto import (
    Point,
    front,
    noise_among,
    points,
    row_of,
    settings_beside_epsilon,
)
from labeldp.platform.report.wording import bound, number, short_key
from labeldp.platform.settings.metrics import (
    DAGGER,
    SCORES,
    ChooseBy,
    accuracy_text,
    figure_text,
    is_rare,
    share_text,
)

#: Words for who does not see the figure.
_LEARNED = "Shares of settings in the variance; trials across all settings; means along each"
#: More run cards than this lie in a fold of their own.
MOST_OPEN_CARDS = 24


class Cell(NamedTuple):
    """A cell of the table: its words, and a note in small print."""

    words: str
    small: str = ""


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
) -> str:
    """Return the page of a sweep's trials, failed ones too.

    Args:
        records: Finished and failed trials.
        title: Title of the page.
        audience: The public sees nothing that was made of true labels or canaries.
        ledger: Totals, as in the sweep's JSON.
        releases: Sentences on the releases.
        running: Whether the sweep still runs.
        left: Number of trials that are still to run; None where that is not known.
        choose_by: Figure by which trials are compared; the default of the data if None.
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
    words = f"{by.words[:1].upper()}{by.words[1:]}"
    name = f"{words} against provable epsilon"
    name += ", and below it what the attack proved" if attack else ""
    name += "; the table has the same numbers."
    drawn = {point.variant for point in found}
    looks = {variant: style for variant, style in styles.items() if variant in drawn}
    columns = _columns(found, by_hash, owner=owner)
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
        styles=styles,
        figure=svg(name, trade_off, found, looks, attack=attack) if found else None,
        attack=attack,
        ceilings=_ceilings(found),
        canaries=next(iter(canaries)) if len(canaries) == 1 else "",
        columns=columns,
        rows=[(point, point.hashes in best, row) for point, row in zip(found, cells, strict=True)],
        mixed=len({point.league for point in found}) > 1,
        daggers=attack and any(p.delta > 0 for p in found if p.epsilon_m_ceiling),
        estimates=estimates,
        best_between=max(estimates, key=lambda each: each.accuracy).interval(choices=len(estimates))
        if by is ChooseBy.ESTIMATED and estimates
        else None,
        lottery=noise_among(found) if by.estimated else None,
        by=words,
        better="down" if by.rank(1.0) < 0 else "up",
        learned=learned(found, styles) and svg(_LEARNED, learned, found, styles),
        ledger=ledger,
        releases=releases,
        cards=cards,
        shared=shared,
        many_cards=len(cards) > MOST_OPEN_CARDS,
        failed=[(title_of(record), record.reason) for record in failed],
    )


def title_of(record: TrialRecord) -> str:
    """Return a trial's method and what sets it apart."""
    settings = (f"{short_key(key)} {_value(value)}" for key, value in record.point.items())
    return ", ".join([record.variant, *settings])


def _columns(
    points: Sequence[Point], records: Mapping[str, TrialRecord], *, owner: bool
) -> list[Column]:
    def column(title: str, values: Iterable[Any], term: str = "", *, text: bool = False) -> Column:
        cells = [each if isinstance(each, Cell) else _cell(each) for each in values]
        return Column(title, cells, term, text)

    # Epsilon and accuracy stand side by side on a telephone too, whichever accuracies there are.
    columns = [column("method", (point.variant for point in points), text=True)]
    columns.append(column("epsilon", (bound(point.epsilon) for point in points), "epsilon"))
    columns += [column(title, cells, term) for title, cells, term in _scores(points)]
    if any(point.accuracy_test is not None for point in points) or not points:
        columns.append(column("accuracy, %", map(_measured, points), "accuracy"))
    papers = [published_for(records[point.hashes[0]].config) for point in points]
    if any(papers):
        columns.append(column("published, %", map(_published, papers)))
    if any(point.estimate is not None for point in points):
        columns.append(column("estimated, %", map(_estimated, points), "estimated accuracy"))
    columns.append(column("delta", (bound(point.delta) for point in points), "delta"))
    guesses = ([guess_of(records[each].metrics) for each in point.hashes] for point in points)
    columns.append(column("guess, %", (percent(max(each)) for each in guesses), "guess"))
    if owner:
        columns.append(column("epsilon_m", map(_attack, points), "epsilon_m"))
        if len(_ceilings(points)) > 1:
            ceilings = (round(point.epsilon_m_ceiling, 2) or None for point in points)
            columns.append(column("ceiling", ceilings, "ceiling"))
        columns.append(column("time", (Cell(duration(point.seconds)) for point in points)))
    for key in settings_beside_epsilon(points):
        values = (dict(point.point).get(key) for point in points)
        columns.append(column(short_key(key), values, text=True))
    columns.append(column("seeds", (len(point.hashes) for point in points), "seed"))
    columns.append(column("noise", (point.noise for point in points), "noise", text=True))
    if len({point.league for point in points}) > 1:
        columns.append(column("league", (point.league for point in points), "league", text=True))
    return columns


def _ceilings(points: Iterable[Point]) -> set[float]:
    return {round(point.epsilon_m_ceiling, 2) for point in points} - {0.0}


def _scores(points: Sequence[Point]) -> Iterator[tuple[str, list[Cell], str]]:
    """Columns of the figure that compares points, and of those of a rare class."""
    shown = [points[0].accuracy_by.metric] if points and points[0].accuracy_by.of_scores else []
    if any(is_rare(point.scores) for point in points):
        # Of several starts some may have had no histogram of scores.
        there = {name for point in points for name in point.scores}
        for name in ("roc_auc", "average_precision"):
            shown += [each for each in (name, f"{name}_estimated") if each in there]
    for name in dict.fromkeys(shown):
        base, estimated, _ = name.partition("_estimated")
        cells = []
        for point in points:
            ends = [point.scores.get(f"{name}_{end}") for end in ("low", "high")]
            small = " to ".join(figure_text(base, end) for end in ends if end is not None)
            value = point.scores.get(name)
            cells.append(Cell("" if value is None else figure_text(base, value), small))
        yield f"estimated {SCORES[base]}" if estimated else SCORES[base], cells, SCORES[base]


def _cell(value: object) -> Cell:
    return Cell("" if value is None else number(value))


def _measured(point: Point) -> Cell:
    if point.accuracy_test is None:
        return Cell("")
    spread = point.accuracy_std if point.accuracy_by is ChooseBy.TEST else 0.0
    return Cell(f"{100 * point.accuracy_test:.2f}", f"± {100 * spread:.2f}" if spread else "")


def _published(found: Sequence[Published]) -> Cell:
    sources = dict.fromkeys(each.source for each in found)
    return Cell(" / ".join(f"{each.percent:.2f}" for each in found), "; ".join(sources))


def _estimated(point: Point) -> Cell:
    if point.estimate is None:
        return Cell("")
    shown, _, beyond = share_text(point.estimate.accuracy, digits=2).partition("%")
    return Cell(shown, f"error {100 * point.estimate.error:.2f}{beyond}")


def _attack(point: Point) -> Cell:
    if point.epsilon_m_ceiling == 0:
        return Cell("not measured")
    low, high = (number(round(end, 2)) for end in (point.epsilon_m_low, point.epsilon_m_high))
    return Cell(f"{low} to {high}{DAGGER if point.delta > 0 else ''}")


def _cards(
    finished: Sequence[TrialRecord], styles: Mapping[str, MethodStyle], audience: Audience
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    keys = dict.fromkeys(
        key for record in finished for key, value in record.config.items() if value is not None
    )
    values = {key: [_value(record.config.get(key)) for record in finished] for key in keys}
    shared = {key: mine[0] for key, mine in values.items() if len(set(mine)) == 1}
    cards = [
        {
            "hash": record.hash,
            "title": title_of(record),
            "outcome": _outcome(record),
            "style": styles[record.variant],
            "facts": facts(record, audience),
            "settings": {
                key: values[key][row]
                for key, value in record.config.items()
                if value is not None and key not in shared
            },
        }
        for row, record in enumerate(finished)
    ]
    return cards, shared


def _outcome(record: TrialRecord) -> str:
    epsilon = record.metrics["epsilon"]
    private = f"epsilon {bound(epsilon)}" if math.isfinite(epsilon) else "not private"
    return f"{private}, {accuracy_text(record.metrics)}"


def _value(value: object) -> str:
    return "not set" if value is None else number(value)


def write_report(
    records: Sequence[TrialRecord],
    *,
    folder: Path,
    title: str,
    choose_by: ChooseBy | None = None,
    **facts: Any,
) -> None:
    """Write `REPORT_FILES` and figures, for their owner alone; `facts` are as in `page`."""
    found = points(records, choose_by=choose_by)
    html, figure, table = (folder / name for name in REPORT_FILES)
    write_figure(found, FIGURES[0], figure)
    _write_table(found, {record.hash: record for record in records}, table)
    write_figures(records, folder)
    write_text(html, page(records, title=title, choose_by=choose_by, **facts))


def _write_table(points: Sequence[Point], records: Mapping[str, TrialRecord], path: Path) -> None:
    best = {point.hashes for point in front(points)}
    rows = []
    for point in points:
        first = {"variant": point.variant, **dict(point.point), "accuracy": point.accuracy_test}
        own = {"trials": len(point.hashes), "pareto": int(point.hashes in best)}
        papers = published_for(records[point.hashes[0]].config)
        # As a share, like the accuracy beside it.
        theirs = {"published": max(papers).percent / 100} if papers else {}
        rows.append({**first, **theirs, **own, **row_of(point)})
    # Nine digits, without those that sums of floats leave behind.
    write_text(path, csv_text(pd.DataFrame(rows), float_format="%.9g"))

"""The finding of a sweep in two sentences, what it cost, and what its audits spoiled.

The same words stand in the terminal and on the report's page. The first sentence is
about the baseline without noise, the second about private trials. Beside what an attack proved
stands what it can prove at most, without which a bound of 0 would mean nothing.

>>> finding([]).sentences
('No trial has finished, and 0 failed.',)
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.mechanisms.guess_risk import percent
from labeldp.mechanisms.ledger import shown
from labeldp.platform.records.progress import duration
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.card import guess_of
from labeldp.platform.report.pareto import Point, noise_among, points, same_epsilon
from labeldp.platform.report.wording import counted
from labeldp.platform.settings.configuration import spoiled_text
from labeldp.platform.settings.metrics import (
    ChooseBy,
    figure_text,
    interval_text,
    is_rare,
    majority_text,
    scores_text,
    share_text,
)
from labeldp.trainers.data.splits import League

#: The second sentence is about the private trials nearest to this epsilon, at which a guess at a
#: label between two that are equally likely is right at most 73 times of a hundred.
TOLD_EPSILON = 1.0
#: The advised model loses at most this much of the best private one's figure.
CLOSE = 0.05


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The summary of a sweep: one or two sentences, its cost, and labels that audits spoiled.

    `advice` says which line to use at which epsilon, why, and what comes next; empty where nothing
    can be advised.
    """

    sentences: tuple[str, ...]
    advice: str = ""
    cost: str = ""
    spoiled: str = ""


def finding(
    records: Sequence[TrialRecord],
    *,
    ledger: Mapping[str, Any] | None = None,
    choose_by: ChooseBy | None = None,
    with_attack: bool = True,
) -> Finding:
    """Summarize the trials of a sweep, failed ones too; `ledger` has the totals as in its JSON.

    `with_attack` includes what the attack proved, which is the labels' owner's.
    """
    cost = "" if ledger is None else _cost(records, ledger)
    canaries = next((record.canaries for record in records if record.canaries), None)
    spoiled = ""
    if canaries is not None:
        number = (ledger or {}).get("num_labels")
        text = spoiled_text(canaries, num_labels=None if number is None else int(number))
        spoiled = f"Labels: {text}."
    found = points(records, choose_by=choose_by)
    if not found:
        nothing = f"No trial has finished, and {len(records)} failed."
        return Finding(sentences=(nothing,), cost=cost, spoiled=spoiled)
    metrics = {record.hash: record.metrics for record in records}
    sentences = []
    baselines = _of_one_league(point for point in found if math.isinf(point.epsilon))
    if baselines:
        best = max(baselines, key=lambda point: point.rank)
        attack = _attack(best, metrics) if with_attack else ""
        sentences.append(f"Without privacy the model {_quality(best, len(baselines))}{attack}.")
    private = _of_one_league(point for point in found if math.isfinite(point.epsilon))
    advice = ""
    if private:
        best, rivals = _nearest(private)
        name = best.variant
        if len(rivals) > 1:
            kinds = "lines" if len({rival.variant for rival in rivals}) > 1 else "settings"
            name = f"the best of {len(rivals)} {kinds} ({best.variant})"
        delta = f" and delta {shown(best.delta)}" if best.delta else ""
        several = len({point.league for point in found}) > 1
        league = f" League: {best.league}; others are not compared with it." if several else ""
        attack = _attack(best, metrics) if with_attack else ""
        sentences.append(
            f"At epsilon {shown(best.epsilon, 3)}{delta} {name} {_quality(best, len(rivals))}"
            f"{attack}.{_lottery(rivals)}{_rare(rivals)}{_majority(best, metrics)}{league}"
        )
        if told := _advice(private, metrics, with_attack=with_attack):
            advice = told + league
    return Finding(
        sentences=tuple(sentences),
        advice=advice,
        cost=cost,
        spoiled=spoiled,
    )


def _of_one_league(points: Iterable[Point]) -> list[Point]:
    """Keep the points without outside data, or else those of the first one's league."""
    every = sorted(points, key=lambda point: point.league != League.NONE.words)
    return [point for point in every if point.league == every[0].league]


def _advice(
    private: Sequence[Point], metrics: Mapping[str, Mapping[str, float]], *, with_attack: bool
) -> str:
    """Advise the smallest epsilon that is nearly as good as any, and name the next best."""
    if _lottery(private):
        return ""
    best = max(private, key=lambda point: point.rank)
    by = best.accuracy_by
    noise = noise_among(private)
    of_noise = by.unit(point.accuracy for point in private) * (noise.noise + noise.luck)
    room = max(CLOSE * by.unit([best.accuracy]), of_noise)
    # Noise takes an estimate above 1, and then it says no more than 1.
    most = math.inf if best.accuracy_by.of_scores else 1.0
    close = [point for point in private if point.rank >= min(best.rank, most) - room]
    chosen = min(close, key=lambda point: (same_epsilon(point.epsilon), -point.rank))
    if _majority(chosen, metrics):
        return ""
    guesses = (guess_of(metrics[digest]) for digest in chosen.hashes)
    text = (
        f"Use {_named(chosen)}: it {_quality(chosen, len(private))}, and an attacker's guess "
        f"between two equally likely labels rises from 50% to {percent(max(guesses))}% at most"
    )
    if with_attack and chosen.epsilon_m_ceiling:
        text += f"; the attack {_proven(chosen, metrics)}"
    if chosen is best:
        reason = "No private model is better"
    else:
        reason = f"It costs less than the best, {_named(best)}, and is nearly as good"
    rivals = [
        point
        for point in private
        if point.variant != chosen.variant
        and same_epsilon(point.epsilon) == same_epsilon(chosen.epsilon)
    ]
    after = ""
    if rivals:
        second = max(rivals, key=lambda point: point.rank)
        after = f" Next best there is {second.variant}, which {_quality(second, len(private))}."
    time = f" A trial of it took {duration(chosen.seconds)}." if chosen.seconds else ""
    return f"{text}. {reason}.{time}{after}"


def _named(point: Point) -> str:
    at = f" and delta {shown(point.delta)}" if point.delta else ""
    return f"{point.variant} at epsilon {shown(point.epsilon, 3)}{at}"


def _cost(records: Sequence[TrialRecord], ledger: Mapping[str, Any]) -> str:
    """Return the cost of the private trials, apart from what was released without noise."""
    private = sum(math.isfinite(record.metrics["epsilon"]) for record in records if record.finished)
    price = float(ledger.get("epsilon_private", ledger["epsilon_total"]))
    delta = float(ledger["delta"])
    parts = []
    if private:
        trials = counted(private, "private trial") + (" together" if private > 1 else "")
        at = f" at delta {shown(delta)}" if delta else ""
        parts.append(f"the {trials} cost epsilon {shown(price, 3)}{at}")
    if math.isinf(ledger["epsilon_total"]):
        parts.append("the baseline without noise publishes its labels")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _nearest(private: Sequence[Point]) -> tuple[Point, list[Point]]:
    def distance(point: Point) -> tuple[float, float]:
        epsilon = same_epsilon(point.epsilon)
        # Of two that are equally far, the smaller one.
        return round(abs(math.log(max(epsilon, 1e-9) / TOLD_EPSILON)), 9), epsilon

    nearest = min(map(distance, private))
    rivals = [point for point in private if distance(point) == nearest]
    return max(rivals, key=lambda point: point.rank), rivals


def _quality(point: Point, among: int) -> str:
    """Describe one of so many models by its accuracy, and before it by figures of a rare class."""
    seeds = len(point.hashes)
    by = point.accuracy_by
    if by.of_scores:
        spread = f" (standard deviation {figure_text(by, point.accuracy_std)}, {seeds} seeds)"
        reach = spread if seeds > 1 else interval_text(by, point.scores)
        if among > 1 and seeds == 1 and reach:
            reach = f"{reach.removesuffix(')')}, not corrected for the choice)"
        return f"has {by.words} {figure_text(by, point.accuracy)}{reach}"
    spread = f" (standard deviation {100 * point.accuracy_std:.1f}, {seeds} seeds)"
    text = f"about {share_text(point.accuracy)}" if by.estimated else f"{100 * point.accuracy:.1f}%"
    text = f"is {text}{spread if seeds > 1 else ''} accurate"
    scores = scores_text(point.scores) if is_rare(point.scores) else ""
    return f"has {scores} and {text}" if scores else text


def _rare(rivals: Sequence[Point]) -> str:
    if len(rivals) < 2 or rivals[0].accuracy_by.of_scores or not is_rare(rivals[0].scores):
        return ""
    end = "_estimated" if rivals[0].accuracy_by.estimated else ""
    return (
        " A class is rare, so accuracy is a poor measure. It chose this trial; --choose-by "
        f"roc_auc{end} chooses by ROC AUC."
    )


def _lottery(rivals: Sequence[Point]) -> str:
    if not rivals[0].accuracy_by.estimated:
        return ""
    noise = noise_among(rivals)
    return f" Noise decides the order of these trials: {noise.text}." if noise.swamps else ""


def _majority(point: Point, metrics: Mapping[str, Mapping[str, float]]) -> str:
    texts = (majority_text(metrics[digest]) for digest in point.hashes)
    text = next((each for each in texts if each), "")
    return f" That is {text}." if text else ""


def _attack(point: Point, metrics: Mapping[str, Mapping[str, float]]) -> str:
    if min(metrics[digest].get("epsilon_m_ceiling", math.inf) for digest in point.hashes) == 0:
        return "; no memorization attack was made that could prove a leak"
    text = f", and the attack {_proven(point, metrics)}"
    if point.epsilon_m_low > point.epsilon and not point.delta:
        return f"{text}, which is above the guarantee: see docs/audits.md"
    return text


def _proven(point: Point, metrics: Mapping[str, Mapping[str, float]]) -> str:
    """Say what the attack proved with every seed, and the largest epsilon that it can prove."""
    low = point.epsilon_m_low
    seeds = len(point.hashes)
    most = point.epsilon_m_ceiling
    ceiling = f" (it can prove at most {most:.2f})" if most else ""
    if low == 0:
        some = any(metrics[digest]["epsilon_m_low"] > 0 for digest in point.hashes)
        every = f"does not prove a leak in every one of {seeds} seeds"
        return f"{every if some else 'proves no leak'}{ceiling}"
    every = " in every seed" if seeds > 1 else ""
    if math.isinf(point.epsilon):
        return f"proves{every} that it leaks labels: its epsilon is at least {low:.2f}"
    at = " at delta 0" if point.delta else ""
    return f"proves an epsilon of at least {low:.2f}{at}{every}{ceiling}"

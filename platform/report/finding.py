"""What a sweep found, in two sentences, what it cost and what its audits spoiled.

The same words stand in the terminal, in tracking and on the report's page. The first sentence is
about the baseline without noise, the second about private trials; beside what an attack proves
stands what it could have proven, without which a bound of 0 would say nothing.

>>> finding([]).text
'No trial has finished, so there is nothing to tell yet.'
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.pareto import Point, points, same_epsilon
from labeldp.platform.sweep.accuracy_figures import ChooseBy, estimated_text, majority_text
from labeldp.platform.sweep.choice_noise import ChoiceNoise
from labeldp.platform.sweep.configuration import spoiled_text

#: Of the private trials those nearest to this epsilon are told of, at which a guess at a label
#: between two that are equally likely is right at most 73 times of a hundred.
TOLD_EPSILON = 1.0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a sweep says to who reads nothing else.

    Attributes:
        sentences: One or two.
        cost: What all its trials together have cost; empty where no ledger is at hand.
        spoiled: How many labels were made wrong for the attack; empty where no record tells.
    """

    sentences: tuple[str, ...]
    cost: str = ""
    spoiled: str = ""

    @property
    def text(self) -> str:
        """All of it, as one paragraph."""
        return " ".join(part for part in (*self.sentences, self.cost, self.spoiled) if part)


def finding(
    records: Sequence[TrialRecord],
    *,
    ledger: Mapping[str, Any] | None = None,
    choose_by: ChooseBy | None = None,
    with_attack: bool = True,
) -> Finding:
    """Say what trials found.

    Args:
        records: Trials of one sweep, failed ones too. Baselines, private trials, audits may all be
            missing.
        ledger: Totals of the sweep's ledger, as in the sweep's JSON.
        choose_by: Which accuracy trials are compared by, as in `pareto.points`.
        with_attack: Whether to tell what the attack proved, which is for the labels' owner to show.

    Raises:
        ValueError: Trials that lack the accuracy that they are to be compared by.
    """
    cost = "" if ledger is None else cost_sentence(records, ledger)
    spoiled = spoiled_sentence(records, ledger or {})
    found = points(records, choose_by=choose_by)
    if not found:
        return Finding(sentences=(_nothing(records),), cost=cost, spoiled=spoiled)
    ceilings = _ceilings(records) if with_attack else None
    sentences = []
    baselines = [point for point in found if math.isinf(point.epsilon)]
    if baselines:
        best = max(baselines, key=lambda point: point.accuracy)
        sentences.append(
            f"Without privacy the model is {_accuracy(best)} accurate{_attack(best, ceilings)}."
        )
    figures = {record.hash: record.metrics for record in records}
    private = [point for point in found if math.isfinite(point.epsilon)]
    if private:
        best, rivals = _told(private)
        who = best.variant
        if len(rivals) > 1:
            kinds = "lines" if len({rival.variant for rival in rivals}) > 1 else "settings"
            who = f"the best of {len(rivals)} {kinds} ({best.variant})"
        sentences.append(
            f"At epsilon {best.epsilon:.3g}{_at_delta(best)} {who} is {_accuracy(best)} "
            f"accurate{_attack(best, ceilings)}.{_lottery(rivals)}{_majority(best, figures)}"
        )
    return Finding(sentences=tuple(sentences), cost=cost, spoiled=spoiled)


def cost_sentence(records: Sequence[TrialRecord], ledger: Mapping[str, Any]) -> str:
    """Say what a sweep cost: its private trials apart from what was released without noise.

    Args:
        records: Trials of one sweep.
        ledger: Totals of its ledger, as in its JSON; those of older sweeps don't have them apart.
    """
    epsilons = [record.metrics["epsilon"] for record in records if record.finished]
    private = sum(math.isfinite(epsilon) for epsilon in epsilons)
    price = float(ledger.get("epsilon_private", ledger["epsilon_total"]))
    delta = float(ledger.get("delta_private", ledger["delta"]))
    published = "The baseline without noise publishes its labels"
    if not private:
        return f"{published}." if math.isinf(ledger["epsilon_total"]) else ""
    trials = "The one private trial" if private == 1 else f"The {private} private trials together"
    said = f"{trials} cost epsilon {price:.3g}{f' at delta {delta:g}' if delta else ''}"
    if math.isinf(price):
        return f"{said}: something was released without noise."
    if math.isinf(ledger["epsilon_total"]):
        return f"{said}; the baseline without noise publishes its labels."
    return f"{said}."


def spoiled_sentence(records: Sequence[TrialRecord], facts: Mapping[str, Any]) -> str:
    """Say how many labels were made wrong for audits, or why none; empty where no record tells.

    Args:
        records: Trials of one sweep, which share their canaries.
        facts: `num_labels`, how many there are to train on, where it is known.
    """
    canaries = next((record.canaries for record in records if record.canaries), None)
    if canaries is None:
        return ""
    num_labels = facts.get("num_labels")
    said = spoiled_text(
        canaries=canaries[0],
        coin_canaries=canaries[1],
        num_labels=None if num_labels is None else int(num_labels),
    )
    return f"Labels: {said}."


def _nothing(records: Sequence[TrialRecord]) -> str:
    if not records:
        return "No trial has finished, so there is nothing to tell yet."
    many = "The one trial" if len(records) == 1 else f"All {len(records)} trials"
    return f"{many} failed, so there is nothing to tell."


def _told(private: Sequence[Point]) -> tuple[Point, list[Point]]:
    """The most accurate of the points nearest to the told epsilon, and all of those."""

    def distance(point: Point) -> float:
        return abs(math.log(max(same_epsilon(point.epsilon), 1e-9) / TOLD_EPSILON))

    nearest = min(map(distance, private))
    rivals = [point for point in private if distance(point) == nearest]
    return max(rivals, key=lambda point: point.accuracy), rivals


def _accuracy(point: Point) -> str:
    seeds = len(point.hashes)
    spread = f" (standard deviation {100 * point.accuracy_std:.1f}, {seeds} seeds)"
    estimated = point.accuracy_by is ChooseBy.ESTIMATED
    said = estimated_text(point.accuracy) if estimated else f"{100 * point.accuracy:.1f}%"
    return f"{said}{spread if seeds > 1 else ''}"


def _lottery(rivals: Sequence[Point]) -> str:
    """Say so where noise, and not accuracy, decides which of the lines looks best."""
    estimates = [point.estimate for point in rivals if point.estimate is not None]
    if not estimates or rivals[0].accuracy_by is not ChooseBy.ESTIMATED:
        return ""
    noise = ChoiceNoise.among(estimates)
    return f" Which of them is best, noise decides: {noise.text}." if noise.swamps else ""


def _majority(point: Point, figures: Mapping[str, Mapping[str, float]]) -> str:
    """Say so where always answering the largest class would do as well."""
    said = (majority_text(figures[digest]) for digest in point.hashes)
    text = next((each for each in said if each), "")
    return f" That is {text}." if text else ""


def _at_delta(point: Point) -> str:
    return f" and delta {point.delta:g}" if point.delta else ""


def _ceilings(records: Sequence[TrialRecord]) -> dict[str, float]:
    """By trial, the most that the attack on it could have proven; 0 where there was none."""
    return {
        record.hash: record.metrics.get("epsilon_m_ceiling", math.inf)
        for record in records
        if record.finished
    }


def _attack(point: Point, ceilings: Mapping[str, float] | None) -> str:
    """What the attack proved of a point's models."""
    if ceilings is None:
        return ""
    ceiling, proven = min(ceilings[digest] for digest in point.hashes), point.epsilon_m_low
    if ceiling == 0:
        return "; no memorization attack was made that could prove a leak"
    if proven == 0:
        most = f", though it could have proven {ceiling:.2f}" if math.isfinite(ceiling) else ""
        return f", and the attack proves no leak{most}"
    if math.isinf(point.epsilon):
        return f", and the attack proves that it leaks labels: its epsilon is at least {proven:.2f}"
    at = " at delta 0" if point.delta else ""
    said = f", and the attack proves an epsilon of at least {proven:.2f}{at}"
    if proven > point.epsilon and not point.delta:
        return f"{said}, which is above the guarantee: docs/audits.md says what to do"
    return said

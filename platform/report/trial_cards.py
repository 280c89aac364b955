"""Run cards for the report's page: what is to be known of each trial, in a fold.

What all trials have in common is said once, above them. Numbers that were made of true labels are
on the owner's page of audits and not here, but for epsilon_m in the owner's edition.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.edition import Edition
from labeldp.platform.report.pareto import same_epsilon
from labeldp.platform.report.result_table import DAGGER
from labeldp.platform.report.styles import MethodStyle
from labeldp.platform.report.wording import counted, number, percent, short_key
from labeldp.platform.sweep.accuracy_figures import estimate_of, estimated_text, majority_text

#: Settings that name places on the owner's machine, and are nobody else's business.
_PLACES = ("data.root", "data.path", "data.embeddings")


@dataclass(frozen=True, kw_only=True)
class TrialCard:
    """One trial.

    Attributes:
        hash: Its identity.
        title: Method and place in the search space.
        outcome: Its accuracy and epsilon, in a line.
        style: The method's looks.
        facts: What -> how much.
        settings: Those that differ between trials of the sweep, by dotted key.
        releases: The releases that it read.
    """

    hash: str
    title: str
    outcome: str
    style: MethodStyle
    facts: Mapping[str, str]
    settings: Mapping[str, str]
    releases: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TrialCards:
    """All of a sweep's finished trials.

    Attributes:
        cards: In the order of the records.
        shared: Settings that are the same in every trial, by dotted key.
    """

    cards: tuple[TrialCard, ...]
    shared: Mapping[str, str]


def trial_cards(
    records: Sequence[TrialRecord], *, styles: Mapping[str, MethodStyle], edition: Edition
) -> TrialCards:
    """Return the cards of finished trials.

    Args:
        records: Trials of one sweep.
        styles: Looks by variant.
        edition: The public one has neither epsilon_m nor places on the owner's machine.
    """
    finished = [record for record in records if record.finished]
    keys = dict.fromkeys(key for record in finished for key in record.config)
    if edition is Edition.PUBLIC:
        keys = dict.fromkeys(key for key in keys if key not in _PLACES)
    values = {key: [_value(record.config.get(key)) for record in finished] for key in keys}
    shared = {key: mine[0] for key, mine in values.items() if len(set(mine)) == 1}
    cards = []
    for row, record in enumerate(finished):
        own = {key: mine[row] for key, mine in values.items() if key not in shared}
        cards.append(
            TrialCard(
                hash=record.hash,
                title=title_of(record),
                outcome=_outcome(record),
                style=styles[record.variant],
                facts=_facts(record, edition),
                settings=own,
                releases=tuple(record.release_keys),
            )
        )
    return TrialCards(cards=tuple(cards), shared=shared)


def title_of(record: TrialRecord) -> str:
    """Return a trial's method and what sets it apart."""
    settings = (f"{short_key(key)} {_value(value)}" for key, value in record.point.items())
    return ", ".join([record.variant, *settings])


def _says_epsilon(record: TrialRecord) -> bool:
    epsilon = record.metrics["epsilon"]
    return any(
        key.endswith("epsilon")
        and isinstance(value, int | float)
        and same_epsilon(value) == same_epsilon(epsilon)
        for key, value in record.point.items()
    )


def _outcome(record: TrialRecord) -> str:
    metrics = record.metrics
    found = estimate_of(metrics)
    if "accuracy" in metrics:
        accuracy = percent(metrics["accuracy"])
    elif found is not None:
        accuracy = estimated_text(found.accuracy)
    epsilon = metrics["epsilon"]
    if _says_epsilon(record):
        return f"{accuracy} accurate"
    private = f"epsilon {number(epsilon)}" if math.isfinite(epsilon) else "not private"
    return f"{private}, {accuracy} accurate"


def _facts(record: TrialRecord, edition: Edition) -> dict[str, str]:
    metrics, config = record.metrics, record.config
    facts: dict[str, str] = {}
    if "accuracy" in metrics:
        facts["accuracy, public test split"] = percent(metrics["accuracy"])
    found = estimate_of(metrics)
    if found is not None:
        low, high = found.interval()
        facts["accuracy, estimated"] = (
            f"{estimated_text(found.accuracy)}, 95% interval {percent(low)} to {percent(high)}"
        )
    if (majority := majority_text(metrics)) and math.isfinite(metrics["epsilon"]):
        facts["largest class"] = majority
    delta = metrics["delta"]
    facts["guarantee"] = (
        "none: trained on the true labels"
        if math.isinf(metrics["epsilon"])
        else f"({number(metrics['epsilon'])}, {number(delta)})-label differential privacy"
    )
    if edition is Edition.OWNER and metrics.get("epsilon_m_ceiling", 0) > 0:
        low, high = metrics["epsilon_m_low"], metrics["epsilon_m_high"]
        facts["epsilon_m"] = (
            f"{number(round(low, 2))} to {number(round(high, 2))}{DAGGER if delta else ''}, "
            f"ceiling {number(round(metrics['epsilon_m_ceiling'], 2))}"
        )
    if "answered" in metrics:
        asked = config.get("trainer.ensemble.queries")
        of = "" if asked is None else f" of {asked} queries"
        facts["answers of teachers"] = f"{metrics['answered']:.0f}{of}"
    facts["league"] = record.features_from.words
    facts["noise"] = record.noise.value
    facts["read"] = counted(len(record.release_keys), "release")
    if "train_seconds" in metrics:
        facts["training"] = f"{metrics['train_seconds']:.1f} s"
    facts["code"] = record.git_commit[:12] or "unknown"
    return facts


def _value(value: object) -> str:
    if value is None or value == "None":  # tracking gives every value back as text
        return "not set"
    return number(value) if isinstance(value, float) else str(value)

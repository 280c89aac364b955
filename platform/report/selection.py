"""Which trial of a sweep is published, what the choice tells, and which are refused at first."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from labeldp.mechanisms.ledger import Budget
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.records.trial_record import TrialRecord
from labeldp.platform.report.folder_ledger import FolderLedger
from labeldp.platform.report.learned_sweeps import (
    depends_on_all,
    keys_behind,
    learns,
    plan_behind,
    plan_of,
)
from labeldp.platform.report.total_ledger import Total, total_of, with_plan
from labeldp.platform.sweep.accuracy_figures import ChooseBy, chosen_by, doubt_of, refuse_lottery

#: Stands for the most accurate trial, in place of a hash.
BEST = "best"
#: No limit at all.
ANY = Budget(epsilon=math.inf)
_BY = {
    ChooseBy.TEST: "accuracy on the public test split",
    ChooseBy.ESTIMATED: "accuracy estimated on held-out labels",
}


class NotPublishable(ValueError):
    """Something that must not leave the house; the message says what, and what to do."""


class Reservation(StrEnum):
    """Why a trial is published on the owner's second word only.

    FAILED: it did not come to its end. NON_PRIVATE: it saw labels without noise, and has no
    epsilon. SEEDED: who knows the seed of its noise takes the noise off again.
    """

    FAILED = "failed"
    NON_PRIVATE = "non-private"
    SEEDED = "seeded"


_MEANING = {
    Reservation.FAILED: "it failed, so that there is nothing but its settings to publish",
    Reservation.NON_PRIVATE: (
        "it is not private: it was trained on labels without noise, and may tell any of them"
    ),
    Reservation.SEEDED: "its noise came from a seed, and who knows that takes the noise off again",
}


@dataclass(frozen=True, kw_only=True)
class HowChosen:
    """How a trial came to be the one that is published.

    Attributes:
        by: The accuracy that decided; empty where the owner named the trial.
        among: How many trials could have been published in its place, and itself. Failed trials
            count: whether a trial fails depends on its releases.
        cost: What the releases of all of those cost together, releases of trials that left no
            record included.
        learned: Whether a search or a scheduler had a say in its settings or its length.
        doubt: Why the best one may not be the best; empty where there is no reason.
    """

    by: str
    among: int
    cost: Total
    learned: bool = False
    doubt: str = ""


@dataclass(frozen=True, kw_only=True)
class Selected:
    """A trial to publish.

    Attributes:
        record: The trial.
        cost: What the releases on which it depends cost, by the ledger, or by its record if that
            is more.
        own: What those cost that it read itself: as `cost`, unless its sweep learns.
        keys: The releases on which it depends.
        choice: How it was chosen.
    """

    record: TrialRecord
    cost: Total
    own: Total
    keys: tuple[str, ...]
    choice: HowChosen


def selected(
    folder: FolderLedger,
    trial: str,
    *,
    at_epsilon: float | None = None,
    choose_by: ChooseBy | None = None,
    accepted: Collection[Reservation] = (),
) -> Selected:
    """Return the trial that is named, or the best one, if it may be published.

    Args:
        folder: Its results folder.
        trial: The beginning of its hash, or `best`: the most accurate of those that have an epsilon
            and whose noise is a secret.
        at_epsilon: The most that the best one may cost; any epsilon if None.
        choose_by: Which accuracy decides; what the sweep was told, if it was, or that on the test
            split, where there is one, if None.
        accepted: What the owner has said a second time is meant.

    Raises:
        NotPublishable: The trial is refused, or the ledger has holes or contradicts its record.
        ValueError: There is no such trial, or several; settings that make no sense together; or
            the best would be chosen by noise.
    """
    if folder.problems:
        raise NotPublishable(
            f"the ledger of {folder.path} is not whole, so that nobody knows what anything of it "
            f"cost: {folder.problems[0]}"
        )
    doubt = ""
    if trial == BEST:
        asked = choose_by or folder.results.identity.choose_by
        chosen, rivals = _best(folder, at_epsilon=at_epsilon, choose_by=asked)
        accuracy = chosen_by((rival.metrics for rival in rivals), asked)
        by, doubt = _BY[accuracy], doubt_of((each.metrics for each in rivals), by=accuracy)
    else:
        if at_epsilon is not None or choose_by is not None:
            raise ValueError(
                f"--at-epsilon and --choose-by go with --trial {BEST}; a trial that is named is "
                "that one whatever it costs"
            )
        chosen, rivals, by = folder.results.trial(trial), private_trials(folder), ""
    own = cost_of(folder, [chosen])
    _refuse(folder, chosen, own, accepted)
    limit = ANY if at_epsilon is None else Budget(epsilon=at_epsilon)
    failed = failed_rivals(folder, limit=limit)
    among = {record.hash: record for record in (*rivals, *failed, chosen)}
    for record in among.values():
        check_record(folder, record)
    cost = price_of(folder, chosen)
    together = cost_of_page(folder, among.values(), cut_off=keys_cut_off(folder, limit=limit))
    together = _dearer(together, cost.epsilon)
    choice = HowChosen(by=by, among=len(among), cost=together, learned=learns(folder), doubt=doubt)
    keys = keys_behind(folder, chosen)
    return Selected(record=chosen, cost=cost, own=own, keys=keys, choice=choice)


def cost_of(folder: FolderLedger, records: Iterable[TrialRecord]) -> Total:
    """Return what the releases that trials have read cost together, by the ledger.

    It is stated at the largest delta that one of them was given.
    """
    return _paid(folder, records)


def cost_of_page(
    folder: FolderLedger, records: Iterable[TrialRecord], *, cut_off: Collection[str] = ()
) -> Total:
    """Return what trials cost who sees all of them, and so what a sweep that learns has found.

    Args:
        folder: Their results folder.
        records: The trials, failed ones that could have been among them included.
        cut_off: Releases of trials that left no record.
    """
    paid = _paid(folder, records, behind=True, also=cut_off)
    return with_plan(paid, plan_of(folder.results.identity))


def price_of(folder: FolderLedger, record: TrialRecord) -> Total:
    """Return what a trial costs who sees it: all releases on which it depends, by the ledger.

    Prices have sunk since some records were written: what the trial was told stands.
    """
    behind, plan = _paid(folder, [record], behind=True), plan_behind(folder)
    # What was not asked may have needed a delta, also where what was asked cost more.
    if plan.epsilon > behind.epsilon_private or depends_on_all(folder):
        behind = with_plan(behind, plan)
    return _dearer(behind, record.metrics.get("epsilon", 0.0))


def within(
    folder: FolderLedger, records: Iterable[TrialRecord], limit: Budget
) -> list[TrialRecord]:
    """Return the trials that cost who sees one no more than a limit."""
    return [record for record in records if limit.allows(price_of(folder, record).epsilon)]


def check_record(folder: FolderLedger, record: TrialRecord) -> None:
    """Refuse a finished trial whose record and the ledger contradict each other.

    Raises:
        NotPublishable: Its releases cost more than it says, or it names none.
    """
    said, paid = record.metrics.get("epsilon"), cost_of(folder, [record])
    if said is not None and not Budget(epsilon=max(said, 1e-300)).allows(paid.epsilon):
        raise NotPublishable(
            f"the record of trial {record.hash} says epsilon {said:g}, and by the ledger of "
            f"{folder.path} the releases that it read cost {paid.epsilon:g}; find out which is "
            "right before anything leaves"
        )
    if record.finished and not record.release_keys:
        raise NotPublishable(
            f"the record of trial {record.hash} names no release that it read, so that nobody "
            f"knows what it cost; find out what became of them before anything of {folder.path} "
            "leaves"
        )


def _paid(
    folder: FolderLedger,
    records: Iterable[TrialRecord],
    *,
    behind: bool = False,
    also: Collection[str] = (),
) -> Total:
    """The sum of what trials read, or of all that they depend on, and of further releases."""
    every = list(records)
    named = (keys_behind(folder, each) if behind else each.release_keys for each in every)
    keys = {key for some in (*named, also) for key in some}
    lines = [line.charge for line in folder.lines if line.charge.key in keys]
    given = max((each.metrics.get("delta", 0.0) for each in every), default=0.0)
    return total_of([lines], delta=given if 0 < given < 1 else folder.delta)


def _dearer(cost: Total, epsilon: float) -> Total:
    return replace(cost, epsilon=max(cost.epsilon, epsilon))


def noise_of(folder: FolderLedger, record: TrialRecord) -> NoiseKind:
    """Return where a trial's noise came from: SEEDED if its record, or any line of it, says so.

    A line of a source that is not known counts as seeded.
    """
    lines = folder.lines_of(record.release_keys)
    seeded = any(line.noise is NoiseKind.SEEDED for line in lines)
    return NoiseKind.SEEDED if seeded else record.noise


def reservations(folder: FolderLedger, record: TrialRecord, cost: Total) -> tuple[Reservation, ...]:
    """Return why a trial is not published without a second word, by its record or the ledger."""
    epsilon = max(cost.epsilon, record.metrics.get("epsilon", 0.0))
    found = {
        Reservation.FAILED: not record.finished,
        Reservation.NON_PRIVATE: math.isinf(epsilon),
        Reservation.SEEDED: noise_of(folder, record) is NoiseKind.SEEDED,
    }
    return tuple(reservation for reservation, holds in found.items() if holds)


def private_trials(folder: FolderLedger, *, limit: Budget = ANY) -> list[TrialRecord]:
    """Return finished trials that have an epsilon within the limit and whose noise is a secret."""
    every = folder.results.records.values()
    found = (each for each in every if not reservations(folder, each, cost_of(folder, [each])))
    return within(folder, found, limit)


def failed_rivals(folder: FolderLedger, *, limit: Budget = ANY) -> list[TrialRecord]:
    """Return the trials that would be among `private_trials` if they had not failed.

    Whether a trial fails depends on its releases, so a choice has read these too.
    """
    every = folder.results.records.values()
    only = (Reservation.FAILED,)
    found = (each for each in every if reservations(folder, each, cost_of(folder, [each])) == only)
    return within(folder, found, limit)


def keys_cut_off(folder: FolderLedger, *, limit: Budget = ANY) -> tuple[str, ...]:
    """Return the releases of trials that were cut off before they left a record.

    Labels that were handed out, and noise from a seed, are of trials that are never chosen.
    """
    return tuple(
        line.charge.key
        for line in folder.lines
        if not line.readers
        and line.noise not in (None, NoiseKind.SEEDED)
        and limit.allows(line.epsilon)
    )


def _best(
    folder: FolderLedger, *, at_epsilon: float | None, choose_by: ChooseBy | None
) -> tuple[TrialRecord, list[TrialRecord]]:
    """The most accurate trial, and all that it was compared with."""
    if at_epsilon is not None and not at_epsilon > 0:
        raise ValueError(f"--at-epsilon is {at_epsilon}; it must be above 0")
    limit = ANY if at_epsilon is None else Budget(epsilon=at_epsilon)
    rivals = private_trials(folder, limit=limit)
    if not rivals:
        known = sorted({price_of(folder, each).epsilon for each in private_trials(folder)})
        there = ", ".join(f"{epsilon:.4g}" for epsilon in known) or "none"
        within = "" if at_epsilon is None else f" and costs {at_epsilon:g} at most"
        raise ValueError(
            f"no trial of {folder.path} is finished, has an epsilon{within}, and noise without a "
            f"seed; epsilons that there are: {there}"
        )
    by = chosen_by((record.metrics for record in rivals), choose_by)
    refuse_lottery((each.metrics for each in rivals), by=by)
    best = max(rivals, key=lambda record: (record.metrics[by.metric], -record.metrics["epsilon"]))
    return best, rivals


def _refuse(
    folder: FolderLedger,
    record: TrialRecord,
    cost: Total,
    accepted: Collection[Reservation],
) -> None:
    """Refuse a trial that nobody has asked for twice, or whose record contradicts the ledger."""
    left = [each for each in reservations(folder, record, cost) if each not in accepted]
    if left:
        why = "; ".join(_MEANING[each] for each in left)
        again = " ".join(f"--accept {each.value}" for each in left)
        raise NotPublishable(
            f"trial {record.hash} is not published: {why}. If it is meant all the same, say so a "
            f"second time: {again}"
        )

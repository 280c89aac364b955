"""The trial of a sweep that is published, the price of the choice, and refusals at the first word.

Releases of other trials count where a reader learns something of them: the best trial was chosen
among others, a search chose settings by earlier results, and a trial may fail for its releases.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from labeldp.mechanisms.ledger import Budget, Total, shown
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.ledger import FolderLedger, plan_of, total_of
from labeldp.platform.settings.metrics import ChooseBy, chosen_by, doubt_of, refuse_lottery

#: Stands for the most accurate trial, in place of a hash.
BEST = "best"
ANY = Budget(epsilon=math.inf)


class Reservation(StrEnum):
    """A reason to publish a trial only if its owner confirms it with `--accept`."""

    FAILED = "failed"
    NON_PRIVATE = "non-private"
    SEEDED = "seeded"


_MEANING = {
    Reservation.FAILED: "it failed, so only its settings can be published",
    Reservation.NON_PRIVATE: (
        "it is not private: it was trained on labels without noise, and may reveal any of them"
    ),
    Reservation.SEEDED: "its noise came from a seed, which removes the noise",
}


@dataclass(frozen=True, kw_only=True)
class Selected:
    """A trial to publish.

    Attributes:
        cost: Price of the releases on which it depends, by the ledger, or by its record if more.
        by: The accuracy that decided; empty where the owner named the trial.
        among: Number of trials that could have been published in its place, itself and failed ones
            included: a trial may fail because of its releases.
        together: Price of the releases of all of those, and of trials that left no record.
        learned: Whether a search or a scheduler decided on its settings or its length.
        doubt: Reason why another trial may be better; empty where there is none.
    """

    record: TrialRecord
    cost: Total
    by: str
    among: int
    together: Total
    learned: bool = False
    doubt: str = ""


def selected(
    folder: FolderLedger,
    trial: str,
    *,
    at_epsilon: float | None = None,
    choose_by: ChooseBy | None = None,
    accepted: Collection[Reservation] = (),
) -> Selected:
    """Return the trial that is named, or the best one, if it may be published.

    `best` is the most accurate of those with an epsilon and secret noise. `choose_by` None is the
    sweep's own choice, or else the test split where there is one. The owner has confirmed the
    `accepted` reservations.

    Raises:
        ValueError: The trial is refused, or the ledger has holes or contradicts its record.
    """
    check_whole(folder)
    limit = ANY if at_epsilon is None else Budget(epsilon=at_epsilon)
    by = doubt = ""
    rivals, failed, cut_off = rivals_of(folder, limit=limit)
    if trial == BEST:
        metrics = [rival.metrics for rival in rivals]
        if not rivals:
            prices = sorted({price_of(folder, each).epsilon for each in rivals_of(folder)[0]})
            there = ", ".join(map(shown, prices)) or "none"
            most = "" if at_epsilon is None else f" and costs {at_epsilon:g} at most"
            raise ValueError(
                f"no trial of {folder.path} is finished, has an epsilon{most}, and noise without "
                f"a seed; epsilons that there are: {there}"
            )
        accuracy = chosen_by(metrics, choose_by or folder.identity.choose_by)
        # Where noise decides, the best is the luckiest, and its accuracy is not what it shows.
        refuse_lottery(metrics, by=accuracy)
        chosen = max(
            rivals,
            key=lambda x: (accuracy.rank(x.metrics[accuracy.metric]), -x.metrics["epsilon"]),
        )
        by = accuracy.long_words
        doubt = doubt_of(metrics, by=accuracy)
    elif at_epsilon is not None or choose_by is not None:
        raise ValueError(
            f"--at-epsilon and --choose-by go with --trial {BEST} only; leave them out to publish "
            "the trial that is named, whatever it costs"
        )
    else:
        chosen = folder.trial(trial)
    left = [each for each in reservations(folder, chosen) if each not in accepted]
    if left:
        why = "; ".join(_MEANING[each] for each in left)
        again = " ".join(f"--accept {each.value}" for each in left)
        raise ValueError(
            f"trial {chosen.hash} is not published: {why}. If you mean to publish it all the same, "
            f"confirm it: {again}"
        )
    # Failed trials too: that they failed is a result of their releases, and part of the choice.
    among = {record.hash: record for record in (*rivals, *failed, chosen)}
    for record in among.values():
        check_record(folder, record)
    cost = price_of(folder, chosen)
    together = cost_of_page(folder, among.values(), cut_off=cut_off)
    return Selected(
        record=chosen,
        cost=cost,
        by=by,
        among=len(among),
        together=together.at_least(Total(epsilon=cost.epsilon)),
        learned=folder.learns,
        doubt=doubt,
    )


def check_whole(folder: FolderLedger) -> None:
    """Refuse a folder whose ledger lacks lines."""
    if folder.problems:
        raise ValueError(
            f"the ledger of {folder.path} is incomplete, so the cost is unknown: "
            f"{folder.problems[0]}"
        )


def check_record(folder: FolderLedger, record: TrialRecord) -> None:
    """Refuse a finished trial whose record and the ledger contradict each other."""
    stated = record.metrics.get("epsilon")
    paid = cost_of(folder, [record])
    if stated is not None and not Budget(epsilon=max(stated, 1e-300)).allows(paid.epsilon):
        raise ValueError(
            f"the record of trial {record.hash} states epsilon {stated:g}, and by the ledger of "
            f"{folder.path} the releases that it read cost {shown(paid.epsilon, 6)}; find out "
            "which is right before you publish anything"
        )
    if record.finished and not record.release_keys:
        raise ValueError(
            f"the record of trial {record.hash} names no release that it read, so its cost is "
            f"unknown; find them before you publish anything of {folder.path}"
        )


def cost_of(
    folder: FolderLedger, records: Iterable[TrialRecord], keys: Iterable[str] | None = None
) -> Total:
    """Return what trials' releases, or those at `keys`, cost together.

    It is stated at the largest delta that one of the trials was given.
    """
    every = list(records)
    given = max((each.metrics.get("delta", 0.0) for each in every), default=0.0)
    delta = given if 0 < given < 1 else folder.delta
    own = (key for each in every for key in each.release_keys)
    read = frozenset(own if keys is None else keys)
    if (read, delta) not in folder.sums:
        lines = [line.charge for line in folder.lines_of(read)]
        folder.sums[read, delta] = total_of([lines], delta=delta)
    return folder.sums[read, delta]


def cost_of_page(
    folder: FolderLedger, records: Iterable[TrialRecord], *, cut_off: Collection[str] = ()
) -> Total:
    """Return the price of seeing all of these trials, and so what a sweep that learns has found."""
    every = list(records)
    behind = (key for each in every for key in folder.keys_behind(each))
    return cost_of(folder, every, (*behind, *cut_off)).at_least(plan_of(folder.identity))


def price_of(folder: FolderLedger, record: TrialRecord) -> Total:
    """Return the price of seeing one trial: all releases on which it depends, or its record's."""
    behind = cost_of(folder, [record], folder.keys_behind(record))
    plan = plan_of(folder.identity, counts=not folder.depends_on_all)
    # Releases that were planned and not made may have needed a delta, also where others cost more.
    if plan.epsilon > behind.epsilon_private or folder.depends_on_all:
        behind = behind.at_least(plan)
    return behind.at_least(Total(epsilon=record.metrics.get("epsilon", 0.0)))


def within(
    folder: FolderLedger, records: Iterable[TrialRecord], limit: Budget
) -> list[TrialRecord]:
    """Return the trials whose price is within a limit."""
    if math.isinf(limit.epsilon):
        return list(records)
    return [record for record in records if limit.allows(price_of(folder, record).epsilon)]


def noise_of(folder: FolderLedger, record: TrialRecord) -> NoiseKind:
    """Return the source of a trial's noise: SEEDED if its record, or any line of it, is."""
    lines = folder.lines_of(record.release_keys)
    seeded = any(line.noise is NoiseKind.SEEDED for line in lines)
    return NoiseKind.SEEDED if seeded else record.noise


def reservations(folder: FolderLedger, record: TrialRecord) -> tuple[Reservation, ...]:
    """Return why a trial is published only if confirmed, by its record or the ledger."""
    epsilon = max(cost_of(folder, [record]).epsilon, record.metrics.get("epsilon", 0.0))
    found = {
        Reservation.FAILED: not record.finished,
        Reservation.NON_PRIVATE: math.isinf(epsilon),
        Reservation.SEEDED: noise_of(folder, record) is NoiseKind.SEEDED,
    }
    return tuple(reservation for reservation, holds in found.items() if holds)


def rivals_of(
    folder: FolderLedger, *, limit: Budget = ANY
) -> tuple[list[TrialRecord], list[TrialRecord], list[str]]:
    """Return what a choice within a limit is made of.

    Returns:
        Finished trials that have an epsilon and whose noise is a secret; those that would be among
        them if they had not failed; and releases of trials that were cut off before they left a
        record. Labels that were handed out, and noise from a seed, are of trials that are never
        chosen.
    """
    why = {each.hash: reservations(folder, each) for each in folder.records.values()}
    private, failed = (
        [each for each in folder.records.values() if why[each.hash] == exactly]
        for exactly in ((), (Reservation.FAILED,))
    )
    cut_off = [
        line.charge.key
        for line in folder.lines
        if not line.readers
        and line.noise not in (None, NoiseKind.SEEDED)
        and limit.allows(line.epsilon)
    ]
    return within(folder, private, limit), within(folder, failed, limit), cut_off

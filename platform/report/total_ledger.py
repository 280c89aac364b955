"""What several results folders cost together: the worst label over all of them.

Vaults know nothing of each other, and their labels can't be compared in the open: a digest of them
is keyed by each vault's own secret. Folders are of the same labels, row by row, where their vaults
are copies, where both secret and digest agree, and, for all that is assumed here, where their
public data are the same. Of all others nobody can tell, so both sums are given: as if any label of
one might be any label of the other, and as if they had none in common.

This is also where the plan of a sweep that learned counts (`learned_sweeps.py`): in `spent_by`,
which the sweep's own report, a remade one, `labeldp ledger` and Python all ask.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import Budget, delta_of_total, epsilon_at, stated
from labeldp.mechanisms.vault import Charge
from labeldp.platform.report.folder_ledger import FolderLedger
from labeldp.platform.report.learned_sweeps import LearnedPlan, plan_of

#: Combinations of histories that are told apart; beyond, every label is charged with every line.
MOST_COMBINATIONS = 1_000


@dataclass(frozen=True, kw_only=True)
class Total:
    """What the worst label has paid.

    Attributes:
        releases: How many lines that is.
        epsilon: Of the worst label, at `delta`.
        delta: 0 where every release is pure.
        epsilon_private: As `epsilon`, without the lines that handed labels out as they are.
        handed_out: How many of those there are.
    """

    releases: int
    epsilon: float
    delta: float
    epsilon_private: float
    handed_out: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Spending:
    """What one sweep has spent.

    Attributes:
        charges: Its lines.
        counted: Those of them that are not the lines of a copy as well; all if None.
        plan: The dearest way that it could have gone.
    """

    charges: Sequence[Charge]
    counted: Sequence[Charge] | None = None
    plan: LearnedPlan = field(default_factory=LearnedPlan)

    @property
    def new(self) -> Sequence[Charge]:
        """The lines that count."""
        return self.charges if self.counted is None else self.counted

    @property
    def learned(self) -> bool:
        """Whether the plan counts in place of the lines: these are themselves an outcome."""
        return bool(self.new and self.plan.epsilon)

    def dearest(self, *, delta: float) -> LearnedPlan:
        """Return what the dearest way of a sweep that learned costs: its plan, or its lines."""
        lines = total_of([self.charges], delta=delta)
        if Budget(epsilon=self.plan.epsilon).allows(lines.epsilon_private):
            return self.plan
        return LearnedPlan(epsilon=lines.epsilon_private, delta=max(lines.delta, self.plan.delta))


@dataclass(frozen=True, kw_only=True)
class Account:
    """What some results folders cost.

    Attributes:
        folders: Each once, with lines that repeat those of an earlier copy marked.
        groups: Which of them are of the same labels, as positions in `folders`.
        together: Their total if all are of the same people's labels: true of any labels.
        apart: What no group has paid more than: true where groups have no label in common.
        notes: What a reader must know of copies, and of sweeps that learned.
    """

    folders: tuple[FolderLedger, ...]
    groups: tuple[tuple[int, ...], ...]
    together: Total
    apart: Total
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What says that lines are missing, of all folders."""
        return tuple(problem for folder in self.folders for problem in folder.problems)

    @property
    def is_whole(self) -> bool:
        """Whether nothing says that a line is missing."""
        return not self.problems


def account_of(folders: Iterable[FolderLedger], *, delta: float | None = None) -> Account:
    """Add up what folders have spent.

    Args:
        folders: One folder that is named twice counts once.
        delta: At which epsilon is stated where releases are not pure; the largest of the folders'
            own if None.

    Raises:
        ValueError: No folder at all.
        StoreUnusable: A copy's store can't be compared with the other's.
    """
    every, notes = _copies_marked(list({each.path.resolve(): each for each in folders}.values()))
    if not every:
        raise ValueError("no results folder is named; name one at least")
    groups = _groups(every)
    at = max(folder.delta for folder in every) if delta is None else delta
    spent = [[_spending(every[place]) for place in group] for group in groups]
    return Account(
        folders=tuple(every),
        groups=groups,
        together=spent_by(spent, delta=at),
        apart=_of_any(spent, delta=at),
        notes=(*notes, *_plans_in_words(every, delta=at)),
    )


def spent_by(groups: Sequence[Sequence[Spending]], *, delta: float) -> Total:
    """Return what the worst label has paid to sweeps, if any label of one group may be any other's.

    Where what trials found decides what is asked next, the sum of what was asked is itself an
    outcome and no guarantee: the dearest way that the sweep could have gone is one. It stands for
    the lines of its sweep, also where these cost as much: beside other sweeps another way may cost
    more. The releases of that way are not known afterwards, so its epsilon and its delta are added
    to those of all others as they are, which is never too little.

    Args:
        groups: Sweeps on the same labels, whose lines speak of them by the same positions, group
            by group.
        delta: At which epsilon is stated where releases are not pure.
    """
    every = [sweep for group in groups for sweep in group]
    lines = _lines_of(groups, delta=delta)
    # Before its first release a sweep has learned nothing, and asked for nothing.
    least = [with_plan(lines, sweep.plan) for sweep in every if sweep.charges]
    learned = [sweep for sweep in every if sweep.learned]
    if not learned:
        return _largest([lines, *least])
    others = [[sweep for sweep in group if sweep not in learned] for group in groups]
    rest = _lines_of(others, delta=delta)
    dearest = [sweep.dearest(delta=delta) for sweep in learned]
    added = sum(each.epsilon for each in dearest)
    composed = replace(
        rest,
        epsilon=rest.epsilon + added,
        epsilon_private=rest.epsilon_private + added,
        delta=rest.delta + sum(each.delta for each in dearest),
    )
    return _largest([lines, composed, *least])


def _of_any(groups: Sequence[Sequence[Spending]], *, delta: float) -> Total:
    """What the worst label of any one group has paid, at a delta at which that is true of all."""
    at = max(spent_by([group], delta=delta).delta for group in groups)
    # Groups of pure releases hold at any delta, the others at the largest that one of them needs.
    return _largest([spent_by([group], delta=at or delta) for group in groups])


def with_plan(total: Total, plan: LearnedPlan) -> Total:
    """Return a total, or the plan of the sweep that it is of where that is more."""
    return replace(
        total,
        epsilon=max(total.epsilon, plan.epsilon),
        epsilon_private=max(total.epsilon_private, plan.epsilon),
        delta=max(total.delta, plan.delta),
    )


def _largest(totals: Sequence[Total]) -> Total:
    """What none of these exceeds, number by number: the dearest of all need not be so in each."""
    names = [each.name for each in fields(Total)]
    return Total(**{name: max(getattr(total, name) for total in totals) for name in names})


def _lines_of(groups: Sequence[Sequence[Spending]], *, delta: float) -> Total:
    """What the lines of sweeps cost, whatever was planned."""
    return total_of(
        [[line for sweep in group for line in sweep.new] for group in groups], delta=delta
    )


def total_of(groups: Sequence[Sequence[Charge]], *, delta: float) -> Total:
    """Return what the worst label has paid, if any label of one group may be any of another.

    Args:
        groups: Lines that speak of the same labels by the same positions, group by group.
        delta: At which epsilon is stated where releases are not pure.
    """
    charges = [charge for group in groups for charge in group]
    private = [[charge for charge in group if not charge.hands_out] for group in groups]
    at = delta_of_total(charges, delta=delta)
    return Total(
        releases=len(charges),
        epsilon=_epsilon(groups, delta=at),
        delta=at,
        epsilon_private=_epsilon(private, delta=at),
        handed_out=len(charges) - sum(map(len, private)),
    )


def _epsilon(groups: Sequence[Sequence[Charge]], *, delta: float) -> float:
    rewritten, num_labels = _as_one_vault(groups)
    if not rewritten:
        return 0.0
    return stated(epsilon_at(rewritten, num_labels=num_labels, delta=delta))


def _as_one_vault(groups: Sequence[Sequence[Charge]]) -> tuple[list[Charge], int]:
    """Rewrite lines onto labels that stand for all combinations of histories, one of each group.

    Returns:
        The lines, and how many such labels there are.
    """
    touched = [_histories(group) for group in groups]
    sizes = [table.shape[1] for table in touched]
    # Within one group there is nothing to combine.
    if len(sizes) > 1 and np.prod([float(size) for size in sizes]) > MOST_COMBINATIONS:
        # Dearer than the truth at worst, never cheaper.
        return [replace(charge, indices=None) for group in groups for charge in group], 1
    places = np.indices(sizes).reshape(len(sizes), -1)
    lines = [
        replace(charge, indices=np.flatnonzero(row[place]))
        for group, table, place in zip(groups, touched, places, strict=True)
        for charge, row in zip(group, table, strict=True)
    ]
    return lines, places.shape[1]


def _histories(charges: Sequence[Charge]) -> NDArray[np.bool_]:
    """Which lines touched a label, for each history that there is: [lines, histories]."""
    parts = {
        charge.indices.tobytes(): charge.indices for charge in charges if charge.indices is not None
    }
    size = 1 + max((int(rows.max()) for rows in parts.values()), default=0)
    group: NDArray[np.intp] = np.zeros(size, dtype=np.intp)
    for rows in parts.values():
        group *= 2
        group[rows] += 1
        # Numbered anew from 0 without sorting: there may be millions of labels.
        there = np.bincount(group) > 0
        group = (np.cumsum(there) - 1)[group]
    first = np.unique(group, return_index=True)[1]
    table = np.ones((len(charges), len(first)), dtype=bool)
    for number, charge in enumerate(charges):
        if charge.indices is not None:
            table[number] = np.isin(first, charge.indices)
    return table


def _spending(folder: FolderLedger) -> Spending:
    return Spending(
        charges=[line.charge for line in folder.lines],
        counted=[line.charge for line in folder.lines if not line.repeats],
        plan=plan_of(folder.results.identity),
    )


def _plans_in_words(folders: Sequence[FolderLedger], *, delta: float) -> list[str]:
    """Say which folders count by their plan and not by their lines, and why."""
    return [
        f"What {folder.path} asked for was chosen by what it had found before: the sum of that is "
        "an outcome itself, and no guarantee can be read off it. It counts as the dearest way that "
        f"it could have gone, epsilon {plan.epsilon:.4g}"
        + (f" at delta {plan.delta:g}" if plan.delta else "")
        for folder, spent in ((folder, _spending(folder)) for folder in folders)
        if spent.learned
        for plan in [spent.dearest(delta=delta)]
    ]


def _groups(folders: Sequence[FolderLedger]) -> tuple[tuple[int, ...], ...]:
    """Positions of folders that are of the same labels."""
    groups: list[list[int]] = []
    for place, folder in enumerate(folders):
        own = [group for group in groups if any(_same(folders[other], folder) for other in group)]
        groups = [group for group in groups if group not in own]
        groups.append([*(other for group in own for other in group), place])
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _same(one: FolderLedger, other: FolderLedger) -> bool:
    facts = (
        (one.vault, other.vault),
        (one.labels, other.labels),
        (one.fingerprint, other.fingerprint),
    )
    return any(mine and mine == theirs for mine, theirs in facts)


def _copies_marked(
    folders: Sequence[FolderLedger],
) -> tuple[list[FolderLedger], tuple[str, ...]]:
    """Mark lines that a copy of a vault has from before it was copied: those are one release."""
    done: list[FolderLedger] = []
    notes = []
    for folder in folders:
        copied, origin = 0, ""
        for earlier in done:
            if folder.vault and earlier.vault == folder.vault:
                shared = _common(earlier, folder)
                if shared >= copied:
                    copied, origin = shared, str(earlier.path)
        if origin:
            notes.append(
                f"{folder.path} and {origin} hold copies of one vault. So many lines of both, "
                f"{copied}, are the same releases and count once. Two copies draw the same release "
                "with different noise: what either of them released later counts for itself"
            )
        lines = tuple(
            replace(line, repeats=origin if line.number <= copied else "") for line in folder.lines
        )
        done.append(replace(folder, lines=lines))
    return done, tuple(notes)


def _common(one: FolderLedger, other: FolderLedger) -> int:
    """How many lines both have from before one was copied from the other.

    Lines of unknown time count as made after that: two small releases may be equal by chance.
    """
    assert one.kept is not None and other.kept is not None
    mine, theirs = one.kept.contents(), other.kept.contents()
    shared = 0
    for ours, yours in zip(one.lines, other.lines, strict=False):
        key = ours.charge.key
        known = ours.made is not None and ours.made == yours.made and key == yours.charge.key
        if not known or mine.get(key) != theirs.get(key):
            break
        shared += 1
    return shared

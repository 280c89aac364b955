"""The ledgers of results folders: what was released of labels, and what the worst label paid.

The vault's store has the charges and their times, the trials' records what each trial read.
Where one of them has a line that the other lacks, the folder has a problem, and no sum holds.

A sweep that learns (a search, a scheduler) takes settings from what earlier trials found. Two
things follow. A trial depends on the releases of others, and its price includes them
(`FolderLedger.keys_behind`). And the sum of the requests is itself an outcome, not a guarantee: the
plan that the driver wrote before the first trial counts, the dearest way that the sweep could have
gone (`spent_by`).
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from itertools import chain, product
from math import inf, isfinite, isinf, prod
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import (
    Budget,
    Total,
    epsilon_or_infinity,
    failure_of,
    least_total,
    ledger_of,
    stated,
    total_of_prices,
)
from labeldp.mechanisms.persons import event_of_several
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_store import is_of, write_event
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.results import (
    KeptResults,
    SweepIdentity,
    TrialRecord,
    read_results,
)
from labeldp.platform.report.wording import RELEASES, counted, price, what_of
from labeldp.platform.vault.shared_vault import joint_ledger, kept_fits, labels_of_one, lost_fits
from labeldp.platform.vault.vault_store import KeptLedger, read_ledger

#: Combinations of histories that are distinguished; beyond, every label is charged with every line.
MOST_COMBINATIONS = 1_000
#: Keys of a sweep's JSON about its ledger.
OF_ALL = ("releases", "epsilon_releases", "epsilon_selection", "epsilon_total", "delta")
#: Any of these files makes a folder one of results, or a fit's of a shared vault.
_OF_RESULTS = frozenset({"vault.db", "sweep.json"})


class Audience(StrEnum):
    """The readers of a release, a page or a card, in the words of the ledger's table."""

    PUBLIC = "anybody"
    OWNER = "the owner of the labels only"


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """One release and its cost.

    Attributes:
        labels: Number of labels touched; None for all of an unknown number.
        of_baseline: Whether only trials without noise read it, or may have, without a record. A
            noisy count of a baseline's right answers is private for held-out labels alone: the
            answers were made of the labels to train on.
        repeats: Path of an earlier copy of this folder that has the same line; that one counts.
    """

    charge: Charge
    epsilon: float
    delta: float
    labels: int | None
    readers: tuple[TrialRecord, ...] = ()
    of_baseline: bool = False
    repeats: str = ""

    @property
    def noise(self) -> NoiseKind | None:
        """Source of the noise; None where the labels were handed out as they are."""
        return None if self.charge.hands_out else self.charge.noise

    @property
    def audience(self) -> Audience:
        """Readers who may see it."""
        hidden = self.noise in (None, NoiseKind.SEEDED) or self.of_baseline
        return Audience.OWNER if hidden else Audience.PUBLIC

    @property
    def ours(self) -> bool:
        """Whether it is of our mechanism, and not of a user's own code by the same name."""
        return any(is_of(kind, self.charge.mechanism) for kind in RELEASES)

    @property
    def day(self) -> str:
        """Day of the release."""
        return self.charge.made.partition("T")[0]

    def facts(self, *, public: bool = False) -> dict[str, Any]:
        """Return it as plain values; the public sees its day, and no name of a user's own."""
        return {
            "release": self.charge.key,
            "made": self.day if public else self.charge.made,
            "what": self.what(public=public).partition(" ")[2],
            "noise": "none" if self.noise is None else self.noise.value,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "labels": "all" if self.labels is None else self.labels,
        }

    def what(self, *, number: int = 1, public: bool = False) -> str:
        """Return `number` such releases in words; the public reads no name of a user's own."""
        ours = self.ours
        name = str(self.charge.mechanism.get("name")) if ours or not public else ""
        return what_of(name, number=number, ours=ours)


@dataclass(frozen=True, kw_only=True)
class FolderLedger(KeptResults):
    """A results folder with all lines of its ledger, in the order in which they were charged.

    Epsilon is stated at `delta` where releases are not pure. `problems` are signs of missing lines;
    `kept` is the vault's store as it was read. A release is of `several` labels of one person, at
    most: a fit of a shared vault may have known somebody by several names.
    """

    delta: float
    lines: tuple[LedgerLine, ...]
    problems: tuple[str, ...]
    kept: KeptLedger
    several: int = 1

    @cached_property
    def sums(self) -> dict[tuple[frozenset[str], float], Total]:
        """Sums that were asked for, by keys and delta: trials of a search depend on the same."""
        return {}

    @property
    def fingerprint(self) -> str:
        """Of the public data; empty where `sweep.json` has none."""
        return self.identity.fingerprint or ""

    @property
    def learns(self) -> bool:
        """Whether earlier trials decided on settings or lengths of later ones."""
        return (
            self.identity.learned_epsilon is not None
            or (self.path / "search.json").exists()
            or any(record.stopped_early for record in self.records.values())
        )

    @property
    def depends_on_all(self) -> bool:
        """Whether each trial depends on all releases.

        That is so where a searched axis touches a release, and where it is unknown which labels are
        held out: then no release can be left out of a trial's price.
        """
        identity = self.identity
        return self.learns and (identity.learned_releases is not False or not identity.num_labels)

    def charges(self, *, copied: bool = False) -> list[Charge]:
        """Return the charges to a person, without those of an earlier copy or with them."""
        charges = (line.charge for line in self.lines if copied or not line.repeats)
        return [replace(each, event=event_of_several(each, self.several)) for each in charges]

    @property
    def is_planned(self) -> bool:
        """Whether the plan of what it could have cost counts in place of the lines."""
        return bool(self.charges() and self.identity.learned_epsilon)

    def dearest(self, *, delta: float) -> Total:
        """Return the plan, or the lines with noise where these cost more."""
        plan = plan_of(self.identity)
        lines = total_of([self.charges(copied=True)], delta=delta)
        if Budget(epsilon=plan.epsilon).allows(lines.epsilon_private):
            return plan
        return Total(epsilon=lines.epsilon_private, delta=max(lines.delta, plan.delta))

    def lines_of(self, keys: Collection[str]) -> tuple[LedgerLine, ...]:
        """Return the lines of the releases at `keys`."""
        return tuple(line for line in self.lines if line.charge.key in keys)

    def keys_behind(self, record: TrialRecord) -> tuple[str, ...]:
        """Return the releases on which a trial depends: its own, and those that it was chosen by.

        Trials learn from those of their variant with equal prices for training: a request that was
        made again, of another device or version, has another key. Counts of right answers on
        held-out labels are the rest.
        """
        behind = list(record.release_keys)
        training = self.identity.num_labels
        if self.depends_on_all:
            behind += [line.charge.key for line in self.lines if not line.charge.hands_out]
        elif self.learns and training:
            charges = [line.charge for line in self.lines]
            paid = {each.key: each.event for each in charges if not each.is_beyond(training)}
            own = {paid[key] for key in record.release_keys if key in paid}
            for other in self.records.values():
                events = {paid[key] for key in other.release_keys if key in paid}
                # A trial that failed or was stopped may have read a part of them.
                if other.variant == record.variant and (events <= own or own <= events):
                    behind += other.release_keys
            # Releases of trials that left no record may belong to any search.
            behind += [line.charge.key for line in self.lines if not line.readers]
        return tuple(dict.fromkeys(behind))


def read_folder(path: Path, *, delta: float | None = None) -> FolderLedger:
    """Return the ledger of the results folder at `path`.

    Epsilon of releases that are not pure is stated at `delta`, or at the largest that one of its
    trials was given.
    """
    results = read_results(path)
    records = results.records.values()
    if delta is None:
        given = (record.config.get("trainer.delta") for record in records)
        known = [each for each in given if isinstance(each, float) and 0 < each < 1]
        delta = max(known, default=USUAL_DELTA)
    store = results.store
    kept = read_ledger(store) if store.exists() else KeptLedger(path=store)
    bare = {charge.key for charge in kept.charges if charge.hands_out}
    readers: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        for key in dict.fromkeys(record.release_keys):
            readers[key].append(record)
    lines = []
    for charge in kept.charges:
        epsilon, at = total_of_prices([charge], delta=delta)
        own = readers.get(charge.key, [])
        touched = charge.indices
        # A trial without noise read the labels. What else it read is made of its answers.
        read = [not bare.isdisjoint(record.release_keys) for record in own]
        lines.append(
            LedgerLine(
                charge=charge,
                epsilon=epsilon,
                delta=at,
                labels=results.identity.all_labels if touched is None else len(touched),
                readers=tuple(own),
                of_baseline=all(read) if read else bool(bare),
            )
        )
    problems = _problems(results, kept)
    return FolderLedger(
        **vars(results), delta=delta, lines=tuple(lines), problems=problems, kept=kept
    )


def _problems(results: KeptResults, kept: KeptLedger) -> tuple[str, ...]:
    """Signs of lines that are missing beside what the vault's store itself reports."""
    records = results.records.values()
    named = results.identity.vault
    if not kept.vault:
        gone = (
            f"{kept.path} is missing, with the ledger of this folder's spending; restore it "
            "from a copy: until then no sum here is complete"
        )
        # A folder whose trials read nothing may never have had a vault.
        trace = named is not None or any(record.release_keys for record in records)
        return (gone,) if trace else ()
    found = [*kept.problems, *lost_fits(results.path.parent.parent)]
    searched = (results.path / "search.json").exists()
    private = any(not charge.hands_out for charge in kept.charges)
    if (records or searched) and not results.identity:
        found.append(
            f"{results.path / 'sweep.json'} is missing, which names the vault, and of a search the "
            "most that it may have cost; restore it from a copy"
        )
    elif private and searched and results.identity.learned_epsilon is None:
        found.append(
            f"{results.path} has a search, and its sweep.json does not say what it may have cost"
        )
    if named not in (None, kept.vault):
        found.append(
            f"{kept.path} is not the vault that sweep.json beside it names; no sum includes what "
            "that vault spent"
        )
    # The reverse, a line that no trial has read, is of a trial that was cut off.
    known = {charge.key for charge in kept.charges}
    for record in records:
        if missing := [key for key in record.release_keys if key not in known]:
            found.append(
                f"trial {record.hash} of {results.path} read release {missing[0]}, which the "
                "ledger lacks; no sum includes its cost"
            )
    return tuple(found)


def plan_of(identity: SweepIdentity, *, counts: bool = False) -> Total:
    """Return the plan of all trials with noise, or of their `counts` on held-out labels alone.

    A sweep that does not learn has one of 0.
    """
    epsilon = identity.learned_counts if counts else identity.learned_epsilon
    if not epsilon:
        return Total()
    return Total(epsilon=epsilon, epsilon_private=epsilon, delta=identity.learned_delta or 0.0)


def sweep_totals(
    charges: Sequence[Charge], identity: SweepIdentity, *, delta: float
) -> dict[str, Any]:
    """Return the totals of one sweep, as its JSON, its report and tracking have them.

    Every release is charged, whichever trial is picked in the end: choosing among trials by the
    public test split, or by estimates that are among those releases, is post-processing. For a
    sweep that learns, the difference to its plan is the price of choosing. A baseline without noise
    has an infinite price, so the releases with noise are also summed up by themselves.
    """
    lines = total_of([charges], delta=delta)
    # Before its first release a sweep has learned nothing, and requested nothing.
    total = lines.at_least(plan_of(identity)) if charges else lines
    return {
        "releases": lines.releases,
        "epsilon_releases": lines.epsilon,
        "epsilon_selection": total.epsilon - lines.epsilon if isfinite(total.epsilon) else 0.0,
        "epsilon_total": total.epsilon,
        "delta": total.delta,
        "epsilon_private": total.epsilon_private,
    }


def spent_by(groups: Sequence[Sequence[FolderLedger]], *, delta: float) -> Total:
    """Return what the worst label has paid to sweeps, if any label of one group may be any other's.

    Sweeps of a group are on the same labels, by the same positions. The plan of a sweep that
    learned stands for its lines, also where these cost as much: beside other sweeps another way may
    cost more. The releases of that way are not known afterwards, so its epsilon and its delta are
    added to those of all others as they are, which is never too little.
    """
    every = [sweep for group in groups for sweep in group]
    plans = [plan_of(sweep.identity) for sweep in every if sweep.lines]
    charges = [[line for sweep in group for line in sweep.charges()] for group in groups]
    # A single sweep that learned costs its plan at least, whatever its lines add up to.
    total = total_of(charges, delta=delta).at_least(*plans)
    dearest = [sweep.dearest(delta=delta) for sweep in every if sweep.is_planned]
    if not dearest:
        return total
    others = [[sweep for sweep in group if not sweep.is_planned] for group in groups]
    rest = total_of(
        [[line for sweep in group for line in sweep.charges()] for group in others], delta=delta
    )
    added = sum(each.epsilon for each in dearest)
    return total.at_least(
        replace(
            rest,
            epsilon=rest.epsilon + added,
            epsilon_private=rest.epsilon_private + added,
            delta=rest.delta + sum(each.delta for each in dearest),
        )
    )


def total_of(groups: Sequence[Sequence[Charge]], *, delta: float) -> Total:
    """Return what the worst label has paid, if any label of one group may be any of another.

    Lines of a group speak of the same labels by the same positions.
    """
    private = [[charge for charge in group if not charge.hands_out] for group in groups]
    noisy = [charge for group in private for charge in group]
    epsilon, at = least_total(partial(_epsilon, private), noisy, delta=delta)
    # Labels that were handed out have no epsilon, and would make every sum infinite.
    handed_out = sum(map(len, groups)) - len(noisy)
    return Total(
        releases=len(noisy) + handed_out,
        epsilon=inf if handed_out else epsilon,
        delta=at,
        epsilon_private=epsilon,
        handed_out=handed_out,
    )


def _epsilon(groups: Sequence[Sequence[Charge]], *, delta: float) -> float:
    """Epsilon of the worst of all labels that there may be: any of one group is any of another."""
    histories = []
    for group in groups:
        touched = [charge.indices.max() for charge in group if charge.indices is not None]
        known = ledger_of(group, num_labels=1 + int(max(touched, default=0)))
        histories.append([list(history.elements()) for history in known.histories])
    if len(groups) > 1 and prod(map(len, histories)) > MOST_COMBINATIONS:
        # Dearer than the truth at worst, never cheaper.
        histories = [[[charge.event for charge in group]] for group in groups]
    left = delta - failure_of(charge for group in groups for charge in group)
    return stated(
        max(epsilon_or_infinity(list(chain(*parts)), delta=left) for parts in product(*histories))
    )


def _groups(folders: Sequence[FolderLedger]) -> list[list[FolderLedger]]:
    """Return folders with the same labels, row by row, group by group.

    Vaults know nothing of each other, and their labels can't be compared in the open: a digest of
    them is keyed by each vault's own secret. Folders have the same labels where their vaults are
    copies, where secret and digest agree, and, by assumption, where their public data are the same.
    """
    marks = []
    for folder in folders:
        facts = {
            "vault": folder.kept.vault,
            "labels": folder.kept.labels,
            "data": folder.fingerprint,
        }
        # An empty mark is left out: two folders that both lack it need not be alike.
        marks.append({(name, mark) for name, mark in facts.items() if mark})
    alike = np.array([[bool(mine & other) for other in marks] for mine in marks])
    count, group_of = connected_components(alike, directed=False)
    return [
        [folder for folder, of in zip(folders, group_of, strict=True) if of == group]
        for group in range(count)
    ]


def _copies_marked(folders: Iterable[FolderLedger]) -> tuple[list[FolderLedger], list[str]]:
    """Mark lines that a copy of a vault has from before it was copied: those are one release."""
    done: list[FolderLedger] = []
    notes = []
    origins: dict[str, str] = {}
    for folder in folders:
        digests = [line.digest for line in folder.kept.lines]
        lines = tuple(
            replace(line, repeats=origins.get(digest, ""))
            for line, digest in zip(folder.lines, digests, strict=True)
        )
        done.append(replace(folder, lines=lines))
        for origin, copied in Counter(line.repeats for line in lines if line.repeats).items():
            notes.append(
                f"{folder.path} and {origin} hold copies of one vault. The first {copied} lines "
                "are the same releases and count once. Later releases of each copy have their own "
                "noise and count separately"
            )
        # The first folder that has a line stays its origin, also of further copies.
        origins = {**dict.fromkeys(digests, str(folder.path)), **origins}
    return done, notes


def sentences(lines: Iterable[LedgerLine], *, public: bool = False) -> list[str]:
    """Describe a folder's releases, equal ones in one sentence; those with a bound first.

    In public, names that users chose (mechanisms, lines of a comparison) are left out.
    """
    groups: dict[str, list[LedgerLine]] = defaultdict(list)
    for line in lines:
        # Draws are numbered, and so differ between releases that are alike.
        alike = [{**line.charge.mechanism, "noise": line.noise}, line.epsilon, line.delta]
        alike += [line.labels, line.day, line.audience]
        groups[json.dumps(alike, sort_keys=True, default=str)].append(line)
    ordered = sorted(
        groups.values(),
        key=lambda x: (isinf(x[0].epsilon), str(x[0].charge.mechanism.get("name")), x[0].epsilon),
    )
    return [_sentence(group, public=public) for group in ordered]


def _sentence(group: Sequence[LedgerLine], *, public: bool) -> str:
    first = group[0]
    number = len(group)
    readers = {record.hash: record.variant for line in group for record in line.readers}
    # The names of a comparison's lines are the sweep's own words. That no trial on the public page
    # has read a line is not for the public either.
    variants = (
        "" if public or not readers else f"for {', '.join(dict.fromkeys(readers.values()))}; "
    )
    read = f"read by {counted(len(readers), 'trial')}, " if readers or not public else ""
    each = " each" if number > 1 and not isinf(first.epsilon) else ""
    labels = "all labels" if first.labels is None else f"{first.labels:,} labels"
    if first.noise is None:
        seen = "For the owner of the labels only: these are the labels."
    elif first.noise is NoiseKind.SEEDED:
        seen = "For the owner of the labels only: the seed removes this noise."
    elif first.audience is Audience.OWNER:
        seen = "For the owner of the labels only: the baseline without noise read it, or may have."
    else:
        seen = "Anybody may see results computed from it."
    return (
        f"{first.what(number=number, public=public)}, {price(first.epsilon, first.delta)}{each}, "
        f"{read}paid once{each}; {variants}of {labels}, made on {first.day}. {seen}"
    )


def rows(folders: Iterable[FolderLedger]) -> list[dict[str, Any]]:
    """Return every line as a row of plain values."""
    return [
        {
            "folder": str(folder.path),
            "sweep": folder.sweep,
            "line": number,
            **line.facts(),
            "trials": [record.hash for record in line.readers],
            "configurations": list(dict.fromkeys(record.variant for record in line.readers)),
            "who_may_see_it": line.audience.value,
            "counted": not line.repeats,
        }
        for folder in folders
        for number, line in enumerate(folder.lines, start=1)
    ]


def public_lines(lines: Iterable[LedgerLine]) -> list[dict[str, Any]]:
    """Return lines as plain values that anybody may see, and can compute epsilon from.

    Neither sweep nor folder is named, times are days, and a seed of noise is never shown.
    """
    return [
        {
            **line.facts(public=True),
            "mechanism": str(line.charge.mechanism.get("name")) if line.ours else "other",
            "parameters": {
                name: value
                for name, value in line.charge.mechanism.items()
                if line.ours and isinstance(value, int | float) and not isinstance(value, bool)
            },
            "event": json.loads(write_event(line.charge.event)),
            "failure_probability": line.charge.failure_probability,
        }
        for line in lines
    ]


def ledger_report(folders: Sequence[str], *, delta: float | None = None) -> dict[str, Any]:
    """Return what folders, and all folders in them, have spent, for `labeldp ledger --json`.

    `ok` is false where a line is missing, so that sums are too low. `epsilon` at `delta` is of the
    worst label over all folders, if any two of them may have it in common; `epsilon_private` leaves
    out lines that handed labels out, and `epsilon_if_different` is that number if groups of folders
    have no label in common. `same_labels` is None where that is unknown. A shared vault by itself
    knows its people by name: `epsilon` is of the person who paid most, and `cohorts` has more.
    """
    if delta is not None:
        _validate.delta(delta)
    places = {place.resolve(): place for each in folders for place in _results_in(Path(each))}
    alone = Path(folders[0])
    is_vault = (alone / "fits").is_dir() and not (alone / "sweep.json").exists()
    read = [read_folder(each, delta=delta) for each in places.values()]
    if len(folders) > 1 or not is_vault:  # by position, which knows no names
        several = dict[Path, int]()
        fits = (folder.path for folder in read if (folder.path / "fit.json").exists())
        for vault in {fit.parent.parent for fit in fits}:
            several |= labels_of_one(vault)
        read = [replace(folder, several=several.get(folder.path, 1)) for folder in read]
    found, notes = _copies_marked(read)
    # One delta for all: epsilons at different deltas can't be added.
    at = max(folder.delta for folder in found) if delta is None else delta
    groups = _groups(found)
    total = spent_by(groups, delta=at)
    # Groups of pure releases hold at any delta, the others at the largest that one of them needs.
    common = max(spent_by([group], delta=at).delta for group in groups)
    apart = Total().at_least(*(spent_by([group], delta=common or at) for group in groups))
    problems = list(dict.fromkeys(problem for folder in found for problem in folder.problems))
    for folder in found:
        if folder.is_planned:
            plan = folder.dearest(delta=at)
            notes.append(
                f"{folder.path} is a sweep whose earlier results decided later requests, so the "
                "sum of its releases is not a guarantee. It counts as the most that it could have "
                f"cost, {price(plan.epsilon, plan.delta)}"
            )
    if problems:
        notes.append("THIS LEDGER IS NOT WHOLE, and its sums are too low:")
        notes += [f"- {problem}" for problem in problems]
    group_of = {folder.path: number for number, group in enumerate(groups) for folder in group}
    by_name = len(folders) == 1 and is_vault and not problems
    return {
        "ok": not problems,
        "releases": total.releases,
        "epsilon": total.epsilon,
        "delta": total.delta,
        "epsilon_private": total.epsilon_private,
        "same_labels": True if len(groups) == 1 else None,
        "epsilon_if_different": apart.epsilon_private,
        "folders": [
            {
                "folder": str(folder.path),
                "sweep": folder.sweep,
                "vault": folder.kept.vault,
                "fingerprint": folder.fingerprint,
                "labels": folder.identity.all_labels,
                "releases": len(folder.lines),
                "group": group_of[folder.path],
            }
            for folder in found
        ],
        "lines": rows(found),
        "words": [*_in_words(found, groups, total, apart), *notes],
        "problems": problems,
        "cohorts": [],
        **(vault_ledger(alone, delta=delta) if by_name else {}),
    }


def _results_in(folder: Path) -> list[Path]:
    """Return all results folders in a folder, itself included; links are not followed.

    A folder whose vault is gone is included, so that it is reported as a problem.
    """
    found = [
        Path(place) for place, _, files in os.walk(folder) if not _OF_RESULTS.isdisjoint(files)
    ]
    return sorted(found) or [folder]


def _in_words(
    folders: Sequence[FolderLedger],
    groups: Sequence[Sequence[FolderLedger]],
    total: Total,
    apart: Total,
) -> list[str]:
    """Return lines and totals of folders as paragraphs and items."""
    words = []
    for folder in folders:
        labels = folder.identity.all_labels
        on = "" if labels is None else f" on {labels:,} labels"
        number = counted(len(folder.lines), "release")
        words.append(f"{folder.path}, sweep {folder.sweep}: {number}{on}")
        own = sentences(line for line in folder.lines if not line.repeats)
        words += [f"- {text}" for text in own]
    where = ""
    if len(folders) > 1:
        same = " on the same labels (equal public data, or one secret)" if len(groups) == 1 else ""
        where = f"{counted(len(folders), 'folder')}{same} and "
    which = "those with noise" if total.handed_out else "those"
    words.append(
        f"In all, {where}{counted(total.releases, 'release')}: no label has paid more than "
        f"{price(total.epsilon_private, total.delta)} for {which}."
    )
    if len(groups) > 1:
        parts = "; ".join(" and ".join(str(each.path) for each in group) for group in groups)
        words.append(
            f"The public data of these folders differ ({parts}), so it is unknown whether their "
            "labels belong to the same people. The sum above holds in any case. If these groups "
            "share no label, no label has paid more than "
            f"{price(apart.epsilon_private, apart.delta)}."
        )
    if total.handed_out:
        words.append(
            f"{counted(total.handed_out, 'release')} without any noise: no epsilon bounds what it "
            "reveals, so do not share its results (models, predictions, accuracy). The sum above "
            "holds for the rest."
        )
    return words


def vault_ledger(folder: Path, *, delta: float | None = None) -> dict[str, Any]:
    """Return what the people of a vault have paid, for `labeldp ledger --json`; reads only.

    Fits and requests of one vault name their people. Early ones that later releases name again pay
    for all of them, and late ones for those since they joined.

    `epsilon` is of the person who paid most, at `delta`, as are all others; `epsilon_private` and
    those of `cohorts` leave out releases that handed labels out. A cohort has the number and the
    day of its first release, and the epsilons of those in it who paid least and most.
    """
    fits = kept_fits(folder)
    lines = sorted(
        ((charge, side) for side, kept in fits for charge in kept.charges),
        key=lambda line: line[0].made,
    )
    noisy = [
        (side, [charge for charge in kept.charges if not charge.hands_out]) for side, kept in fits
    ]
    asked = USUAL_DELTA if delta is None else delta
    ledger, everybody = joint_ledger(noisy)
    total, at = ledger.total(delta=asked)
    total = stated(total)
    # At the delta of the total, so that persons can be compared with it.
    paid = ledger.epsilon_per_label(delta=at) if isfinite(total) else np.full(len(everybody), total)
    words = [f"{folder}: {counted(len(lines), 'release')}"]
    told = []
    cohorts: list[dict[str, Any]] = []
    unseen = np.ones(len(everybody), dtype=bool)
    for number, (charge, side) in enumerate(lines, start=1):
        day = charge.made.partition("T")[0]
        labels = side.num_labels if charge.indices is None else len(charge.indices)
        words.append(
            f"- {number}, {day}: {what_of(str(charge.mechanism.get('name')))}, "
            f"{price(*total_of_prices([charge], delta=asked))} for each of "
            f"{counted(labels, side.unit)}"
        )
        if side.people is None:
            continue
        # Each person joins with the first release that names it.
        members = np.searchsorted(everybody, np.unique(side.names))
        members = members[unseen[members]]
        unseen[members] = False
        if len(members):
            least, most = (
                stated(float(each)) for each in (paid[members].min(), paid[members].max())
            )
            cohorts.append(
                {
                    "release": number,
                    "joined": day,
                    "people": len(members),
                    "epsilon_least": least,
                    "epsilon_most": most,
                }
            )
            spent = (
                price(most, at) if least == most else f"{price(least, at)} up to {price(most, at)}"
            )
            told.append(f"{len(members):,} joined with release {number} and have paid {spent}")
    bare = sum(charge.hands_out for charge, _ in lines)
    told.append(
        f"In all, nobody has paid more than {price(total, at)}"
        + (f", beside {counted(bare, 'release')} without any noise" if bare else "")
    )
    return {
        "epsilon": inf if bare else total,
        "epsilon_private": total,
        "epsilon_if_different": total,
        "delta": at,
        "cohorts": cohorts,
        "words": [*words, *told],
    }

"""What a trial of a sweep that learns tells beside its own releases: those that it was chosen by.

A search takes a trial's settings from what earlier trials found, and a scheduler ends it for what
others did. So whoever sees the trial sees something of their releases too, and its own price is
too small a promise. Trials learn from those of their variant that share their releases for
training; what differs among those are counts of right answers on held-out labels. Where an axis of
the search asks for other releases, or where it is not known which labels are held out, nothing is
told apart, and all of the sweep is charged.

What was asked is then an outcome itself. So the plan counts as well, which the driver wrote down
before the first trial: the dearest way that the sweep could have gone (`platform/sweep/cost.py`).
"""

from dataclasses import dataclass

from labeldp.platform.records.results import SweepIdentity, TrialRecord
from labeldp.platform.report.folder_ledger import FolderLedger


@dataclass(frozen=True, kw_only=True)
class LearnedPlan:
    """The dearest way that a sweep could have gone; of one that does not learn it costs nothing.

    Attributes:
        epsilon: Of a label, without what was handed out as it is.
        delta: At which it holds.
    """

    epsilon: float = 0.0
    delta: float = 0.0


#: Of a sweep that does not learn.
FREE = LearnedPlan()


def plan_of(identity: SweepIdentity) -> LearnedPlan:
    """Return the plan of all trials with noise, as `sweep.json` has it."""
    return _plan(identity.learned_epsilon, identity)


def plan_behind(folder: FolderLedger) -> LearnedPlan:
    """Return that part of a sweep's plan on which one of its trials depends."""
    identity = folder.results.identity
    whole = depends_on_all(folder)
    return _plan(identity.learned_epsilon if whole else identity.learned_counts, identity)


def learns(folder: FolderLedger) -> bool:
    """Whether what trials found has decided which others there are, or how long they ran."""
    return (
        folder.results.identity.learned_epsilon is not None
        or (folder.path / "search.json").exists()
        or any(record.stopped_early for record in folder.results.records.values())
    )


def keys_behind(folder: FolderLedger, record: TrialRecord) -> tuple[str, ...]:
    """Return the releases on which a trial depends: its own, and those that it was chosen by."""
    if not learns(folder):
        return tuple(record.release_keys)
    lines = {line.charge.key: line for line in folder.lines}
    training = folder.results.identity.num_labels
    if depends_on_all(folder) or not training:
        private = [key for key, line in lines.items() if not line.charge.hands_out]
        return tuple(dict.fromkeys([*record.release_keys, *private]))
    held_out = {key for key, line in lines.items() if line.charge.is_beyond(training)}
    own = set(record.release_keys) - held_out
    behind = [*record.release_keys]
    for other in folder.results.records.values():
        keys = set(other.release_keys) - held_out
        if other.variant == record.variant and (not keys or keys == own):
            behind += other.release_keys
    # Of trials that left no record, nobody knows where they belong.
    behind += [key for key, line in lines.items() if not line.readers]
    return tuple(dict.fromkeys(behind))


def _plan(epsilon: float | None, identity: SweepIdentity) -> LearnedPlan:
    return LearnedPlan(epsilon=epsilon, delta=identity.learned_delta or 0.0) if epsilon else FREE


def depends_on_all(folder: FolderLedger) -> bool:
    """Whether each trial depends on all releases; older sweeps did not write down if not.

    So it is where nobody knows which labels are held out: then nothing tells trials apart.
    """
    identity = folder.results.identity
    return learns(folder) and (identity.learned_releases is not False or not identity.num_labels)

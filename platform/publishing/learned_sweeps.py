"""What a trial of a sweep that learns tells beside its own releases: those that it was chosen by.

A search takes a trial's settings from what earlier trials found, and a scheduler ends it for what
others did. So whoever sees the trial sees something of their releases too, and its own price is
too small a promise. Trials learn from those of their variant that share their releases for
training; what differs among those are counts of right answers on held-out labels. Where an axis of
the search asks for other releases, or where it is not known which labels are held out, nothing is
told apart, and all of the sweep is charged.

What was asked is then an outcome itself. So the plan counts as well, which the driver wrote down
before the first trial: the dearest way that the sweep could have gone (`platform/cost.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labeldp.platform.publishing.folder_ledger import FolderLedger
from labeldp.platform.records.trial_record import TrialRecord

#: What `sweep.json` says of the plan: epsilon of all trials with noise, of their counts on held-out
#: labels alone, the delta of both, and whether an axis that is searched touches a release.
PLAN, PLANNED_COUNTS, PLANNED_DELTA = "learned_epsilon", "learned_counts", "learned_delta"
RELEASES_SEARCHED = "learned_releases"


@dataclass(frozen=True, kw_only=True)
class LearnedPlan:
    """The dearest way that a sweep could have gone; of one that does not learn it costs nothing.

    Attributes:
        epsilon: Of a label, without what was handed out as it is.
        delta: At which it holds.
    """

    epsilon: float = 0.0
    delta: float = 0.0


def plan_of(identity: Mapping[str, Any]) -> LearnedPlan:
    """Return the plan of all trials with noise, as `sweep.json` has it."""
    return _plan(identity, PLAN)


def plan_behind(folder: FolderLedger) -> LearnedPlan:
    """Return that part of a sweep's plan on which one of its trials depends."""
    return _plan(folder.results.identity, PLAN if depends_on_all(folder) else PLANNED_COUNTS)


def learns(folder: FolderLedger) -> bool:
    """Whether what trials found has decided which others there are, or how long they ran."""
    return (
        PLAN in folder.results.identity
        or (folder.path / "search.json").exists()
        or any(record.stopped_early for record in folder.results.records.values())
    )


def keys_behind(folder: FolderLedger, record: TrialRecord) -> tuple[str, ...]:
    """Return the releases on which a trial depends: its own, and those that it was chosen by."""
    if not learns(folder):
        return tuple(record.release_keys)
    lines = {line.charge.key: line for line in folder.lines}
    if depends_on_all(folder):
        private = [key for key, line in lines.items() if not line.charge.hands_out]
        return tuple(dict.fromkeys([*record.release_keys, *private]))
    training = _training(folder)
    assert training is not None, "then nothing is told apart"
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


def _plan(identity: Mapping[str, Any], epsilon: str) -> LearnedPlan:
    found = LearnedPlan(
        epsilon=_number(identity.get(epsilon)), delta=_number(identity.get(PLANNED_DELTA))
    )
    return found if found.epsilon else LearnedPlan()


def depends_on_all(folder: FolderLedger) -> bool:
    """Whether each trial depends on all releases; older sweeps did not write down if not.

    So it is where nobody knows which labels are held out: then nothing tells trials apart.
    """
    searched = bool(folder.results.identity.get(RELEASES_SEARCHED, True))
    return learns(folder) and (searched or _training(folder) is None)


def _training(folder: FolderLedger) -> int | None:
    """How many labels there are to train on; None where nobody says it."""
    said: int | None = folder.results.identity.get("num_labels")
    return said or None


def _number(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else 0.0

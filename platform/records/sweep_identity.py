"""What `sweep.json` says of a sweep: one type for all who write or ask it, and for old folders.

>>> kept = SweepIdentity.from_json({"sweep": "small", "num_labels": 50, "of_a_later_version": 1})
>>> kept.num_labels, kept.vault
(50, None)
>>> kept.to_json()
{'sweep': 'small', 'num_labels': 50, 'of_a_later_version': 1}
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, Self, get_args

from labeldp.platform.sweep.accuracy_figures import ChooseBy


@dataclass(frozen=True, kw_only=True)
class SweepIdentity:
    """Facts of a sweep that trials' records lack; the fields' names are the file's keys.

    None is what the file does not say: folders of every age lack what was not kept then.

    Attributes:
        sweep: Its name.
        sweep_id: Its run in tracking bears it, wherever the folder is moved.
        fingerprint: Of the public data.
        vault: Id of the vault that everything was released from.
        path: Where the folder lay when it was last opened.
        parent_run_id: The sweep's run in tracking.
        tracking_uri: The store of that run, without passwords.
        num_labels: Labels to train on.
        held_out_labels: Labels that accuracy is estimated on.
        choose_by: Which accuracy its trials are compared by.
        count_epsilon: What a count of right answers costs, where nobody said.
        teachers_trained: By the start that trained teachers last.
        teachers_reused: Whose votes were there.
        learned_epsilon: Of a sweep that learns: the plan's epsilon, of all trials with noise.
        learned_counts: Likewise, of their counts on held-out labels alone.
        learned_delta: At which both hold.
        learned_releases: Whether an axis that is searched touches a release.
        more: What this version does not know, kept as it is.
    """

    sweep: str | None = None
    sweep_id: str | None = None
    fingerprint: str | None = None
    vault: str | None = None
    path: str | None = None
    parent_run_id: str | None = None
    tracking_uri: str | None = None
    num_labels: int | None = None
    held_out_labels: int | None = None
    choose_by: ChooseBy | None = None
    count_epsilon: float | None = None
    teachers_trained: int | None = None
    teachers_reused: int | None = None
    learned_epsilon: float | None = None
    learned_counts: float | None = None
    learned_delta: float | None = None
    learned_releases: bool | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every fact that is known.

        Raises:
            ValueError: Names the first that is not what it should be.
        """
        for name, kinds in _KINDS.items():
            value = getattr(self, name)
            if value is not None and type(value) not in kinds:
                raise ValueError(f"{name} is {value!r:.80}")

    def __bool__(self) -> bool:
        """Whether anything is known: a folder without `sweep.json` knows nothing."""
        return bool(self.to_json())

    @property
    def all_labels(self) -> int | None:
        """How many labels the vault has, those that are held out among them."""
        return None if self.num_labels is None else self.num_labels + (self.held_out_labels or 0)

    @property
    def of_the_owner(self) -> dict[str, str]:
        """What names the owner's places, runs and vault, by its key; it never leaves the house."""
        known = {
            "path": self.path,
            "tracking_uri": self.tracking_uri,
            "vault": self.vault,
            "sweep_id": self.sweep_id,
            "parent_run_id": self.parent_run_id,
        }
        return {name: value for name, value in known.items() if value is not None}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        """Return what a `sweep.json` of any age says.

        Raises:
            ValueError: Names a fact that is not what it should be.
        """
        known = {name: value for name, value in facts.items() if name in _KINDS}
        if isinstance(by := known.get("choose_by"), str):
            try:
                known["choose_by"] = ChooseBy(by)
            except ValueError:
                raise ValueError(f"choose_by is {by!r:.80}") from None
        absent = [name for name, value in known.items() if value is None]
        if absent:  # we never write it, so somebody else did
            raise ValueError(f"{absent[0]} is None")
        return cls(**known, more={name: facts[name] for name in facts if name not in _KINDS})

    def to_json(self) -> dict[str, Any]:
        """Return what is known, and what this version does not know."""
        known = {name: getattr(self, name) for name in _KINDS}
        return {**{key: value for key, value in known.items() if value is not None}, **self.more}


def _kinds(annotation: Any) -> tuple[type, ...]:
    """Return the types that a field takes beside None; JSON has 2 for 2.0."""
    (kind,) = (each for each in get_args(annotation) if each is not NoneType)
    return (float, int) if kind is float else (kind,)


_KINDS = {each.name: _kinds(each.type) for each in fields(SweepIdentity) if each.name != "more"}

"""Attribute inference on UCI Adult: votes about a person's income reveal another attribute.

Wang et al., "In Differential Privacy, There is Truth" (NeurIPS 2022, arXiv:2209.10732), section 2:
250 random forests on disjoint shards predict incomes above 50,000 dollars, without seeing any
column on education; the attacker calls a person a PhD holder if less than 75% of the forests agree.
Race, sex and age are attacked alike. A learned attacker knows the attribute of half of the people,
and so the votes that go with it; it also estimates a group's share among people that it asks about.

As a defense, every teacher learns from as many people of the group as of others, copies included
(`fair`); a label is still in one shard alone. It is fairer, and no protection: on PhD holders the
plurality is right more often, and the attack no worse (docs/audits.md).

Here training rows scale the features. The published code scales those of PhD holders and of the
others each by their own mean and deviation before the forests vote, which takes knowledge of the
groups, and shifts the two differently.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.pate.aggregators import count_votes
from labeldp.trainers.base import Count, Flag, Whole, key, settings
from labeldp.trainers.data import preprocessing
from labeldp.trainers.data.published import read_adult_rows
from labeldp.trainers.methods.pate import fit_forest
from labeldp.trainers.methods.pate_settings import ForestSettings

#: Below this share of agreeing teachers the attack guesses that a person is in the group.
CONSENSUS = 0.75
#: Shares of a group that the learned attacker estimates, each among half of the people.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)

Columns = Mapping[str, NDArray[Any]]


class Attribute(StrEnum):
    """What is inferred about a person; teachers see no column that states it."""

    DOCTORATE = "doctorate"
    NOT_WHITE = "not_white"
    FEMALE = "female"
    OVER_60 = "over_60"

    def of(self, people: Columns) -> Any:
        """Return who has it, bool [N]."""
        column: Any = people[HIDDEN[self][0]]
        match self:
            case Attribute.DOCTORATE:
                return column == "Doctorate"
            case Attribute.NOT_WHITE:
                return column != "White"
            case Attribute.FEMALE:
                return column == "Female"
            case Attribute.OVER_60:
                return column > 60


#: Columns that state an attribute, the one that it is read from first. Wives are female.
HIDDEN: Mapping[Attribute, tuple[str, ...]] = {
    Attribute.DOCTORATE: ("education", "education-num"),
    Attribute.NOT_WHITE: ("race",),
    Attribute.FEMALE: ("sex", "relationship"),
    Attribute.OVER_60: ("age",),
}


@settings
class AdultEnsemble:
    """An ensemble on UCI Adult."""

    attribute: Attribute = key(Attribute.DOCTORATE, "The attribute that is attacked.")
    fair: Flag = key(False, "Let teachers learn from as many people of the group as of others.")
    teachers: Count = key(250, "How many forests (T).")
    trees: Count = key(30, "Of each forest.")
    min_samples_leaf: Count = key(2, "Smallest number of examples in a leaf.")
    others: Count = key(2000, "Largest number of people that are attacked, of each group.")
    seed: Whole = key(0, "Seed of shards, forests and the choice of people.")


@dataclass(frozen=True, kw_only=True)
class GroupVotes:
    """Counts [N, 2] of votes on people with the attribute and others; `accuracy` is of pluralities.

    Both accuracies are shares of the attacked people whose income the plurality has right.
    """

    group: NDArray[np.int64]
    others: NDArray[np.int64]
    accuracy_group: float
    accuracy_others: float


@dataclass(frozen=True, kw_only=True)
class AttributeInference:
    """How well the attack separates the groups.

    `consensus_group` and `consensus_others` are shares of the group on whom more than 75% of the
    teachers agree; `balanced_accuracy` is of the rule "in the group if at most 75% agree" on as
    many people of each group, and `precision` the share of its calls that are right there, the
    paper's measure; `auc` is the chance that the consensus on a person of the group is below that
    on another, ties counted half. `learned` is the balanced accuracy of the learned attacker on
    people that it does not know, `share_error` its mean error of the group's share among them.
    """

    consensus_group: float
    consensus_others: float
    balanced_accuracy: float
    precision: float
    auc: float
    learned: float
    share_error: float


def infer_attribute(
    group: NDArray[Any], others: NDArray[Any], *, seed: int = 0
) -> AttributeInference:
    """Attack votes on people of a group [P, K] and others [O, K], released or reconstructed.

    `seed` chooses the half of the people that the learned attacker knows.
    """
    if 0 in (len(group), len(others)) or group.shape[1:] != others.shape[1:]:
        raise ValueError(
            f"group has shape {group.shape} and others {others.shape}; both must be [N, K] counts "
            "of the same K classes, N at least 1"
        )
    shares = [votes.max(axis=1) / votes.sum(axis=1) for votes in (group, others)]
    high = [float((share > CONSENSUS).mean()) for share in shares]
    called = 2 - sum(high)
    below = shares[0][:, None] < shares[1]
    ties = np.isclose(shares[0][:, None], shares[1], rtol=0, atol=1e-9)
    learned, share_error = _learned(group, others, generator=np.random.default_rng(seed))
    return AttributeInference(
        consensus_group=high[0],
        consensus_others=high[1],
        balanced_accuracy=(1 - high[0] + high[1]) / 2,
        precision=(1 - high[0]) / called if called else float("nan"),
        auc=float((below & ~ties).mean() + ties.mean() / 2),
        learned=learned,
        share_error=share_error,
    )


def _learned(
    group: NDArray[Any], others: NDArray[Any], *, generator: np.random.Generator
) -> tuple[float, float]:
    """Learn from half of the people; return both figures of the other half, or NaN of too few.

    A group's share is read off the share of calls, by the rates of right and wrong calls among the
    people that the attacker knows.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import cross_val_predict

    if min(len(group), len(others)) < 4:
        return float("nan"), float("nan")
    halves = [np.array_split(generator.permutation(votes), 2) for votes in (group, others)]
    known = np.concatenate([half[0] for half in halves])
    truth = np.repeat([1, 0], [len(half[0]) for half in halves])
    forest = RandomForestClassifier(
        min_samples_leaf=max(1, len(group) // 20), class_weight="balanced", random_state=0
    )
    crossed = cross_val_predict(forest, known, truth, cv=2)
    rates = [float(crossed[truth == label].mean()) for label in (1, 0)]
    calls = [forest.fit(known, truth).predict(half[1]) for half in halves]
    count = min(map(len, calls))
    errors = []
    for share in SHARES:
        members = round(share * count)
        asked = np.concatenate([calls[0][:members], calls[1][: count - members]])
        gap = rates[0] - rates[1]
        found = np.clip((asked.mean() - rates[1]) / gap, 0, 1) if gap > 0 else 0.5
        errors.append(abs(found - members / count))
    return float(calls[0].mean() + 1 - calls[1].mean()) / 2, float(np.mean(errors))


def adult_votes(folder: Path, ensemble: AdultEnsemble) -> GroupVotes:
    """Train an ensemble on Adult's training rows and let it vote on people of the test split.

    `adult.data` and `adult.test` lie in the folder.
    """
    train, train_labels = read_adult_rows(folder / "adult.data")
    test, test_labels = read_adult_rows(folder / "adult.test")
    if ensemble.teachers > len(train_labels):
        raise ValueError(
            f"teachers is {ensemble.teachers}, but Adult has {len(train_labels)} training rows"
        )
    generator = np.random.default_rng(ensemble.seed)
    attribute = ensemble.attribute
    has_it = attribute.of(test)
    asked = [
        np.sort(generator.permutation(np.flatnonzero(mask))[: ensemble.others])
        for mask in (~has_it, has_it)
    ]
    encode = preprocessing.Columns.fit(_without(attribute, train))
    train_matrix = encode(_without(attribute, train))
    scale = preprocessing.Numbers.fit(train_matrix)
    features = scale(train_matrix)
    people = scale(encode(_without(attribute, test)))
    votes: list[NDArray[Any]] = []
    shards = np.array_split(generator.permutation(len(train_labels)), ensemble.teachers)
    forest_settings = ForestSettings(
        trees=ensemble.trees, min_samples_leaf=ensemble.min_samples_leaf
    )
    members = attribute.of(train)
    every = np.concatenate(asked)
    for number, shard in enumerate(shards):
        if ensemble.fair:
            shard = _balanced(shard, members, generator)
        forest = fit_forest(
            torch.from_numpy(features[shard]),
            train_labels[shard],
            settings=forest_settings,
            seed=number,
        )
        votes.append(forest.predict(people[every]))
    counts = count_votes(np.stack(votes), num_classes=2).astype(np.int64)
    right = counts.argmax(1) == test_labels[every]
    first = len(asked[0])
    return GroupVotes(
        group=counts[first:],
        others=counts[:first],
        accuracy_group=float(right[first:].mean()),
        accuracy_others=float(right[:first].mean()),
    )


def _balanced(
    shard: NDArray[np.intp], members: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.intp]:
    """Return a shard with copies of its smaller group, so that both are as large."""
    parts = sorted((shard[members[shard]], shard[~members[shard]]), key=len)
    if not len(parts[0]):
        return shard
    return np.concatenate([shard, generator.choice(parts[0], len(parts[1]) - len(parts[0]))])


def _without(attribute: Attribute, columns: Columns) -> dict[str, NDArray[Any]]:
    return {name: column for name, column in columns.items() if name not in HIDDEN[attribute]}

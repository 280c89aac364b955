"""Attribute inference on UCI Adult: votes about a person's income reveal their education.

Wang et al., "In Differential Privacy, There is Truth" (NeurIPS 2022, arXiv:2209.10732), section 2:
250 random forests on disjoint shards predict incomes above 50,000 dollars, without seeing any
column on education; the attacker calls a person a PhD holder if less than 75% of the forests agree.

Here training rows scale the features. The published code scales those of PhD holders and of the
others each by their own mean and deviation before the forests vote, which takes knowledge of the
groups, and shifts the two differently.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.pate.aggregators import count_votes
from labeldp.trainers.base import Count, Whole, key, settings
from labeldp.trainers.data import columns as tables
from labeldp.trainers.data.published import read_adult_rows
from labeldp.trainers.methods.pate import fit_forest
from labeldp.trainers.methods.pate_settings import ForestSettings

#: Columns that reveal the attacked attribute.
ABOUT_EDUCATION = ("education", "education-num")
DOCTORATE = "Doctorate"
#: Below this share of agreeing teachers the attack guesses "PhD".
CONSENSUS = 0.75

Columns = Mapping[str, NDArray[Any]]


@settings
class AdultEnsemble:
    """An ensemble on UCI Adult."""

    teachers: Count = key(250, "How many forests (T).")
    trees: Count = key(30, "Of each forest.")
    min_samples_leaf: Count = key(2, "Smallest number of examples in a leaf.")
    others: Count = key(2000, "Number of randomly chosen people without a PhD that are attacked.")
    seed: Whole = key(0, "Seed of shards, forests and the choice of people.")


#: Counts [N, 2] of votes on each of two groups of people, `phd` and `others`.
GroupVotes = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class AttributeInference:
    """How well the attack separates the groups.

    `consensus_phd` and `consensus_others` are shares of the group on whom more than 75% of the
    teachers agree; `balanced_accuracy` is of the rule "PhD if at most 75% agree" on as many people
    of each group; `auc` is the chance that a PhD holder's consensus is below another person's, ties
    counted half.
    """

    consensus_phd: float
    consensus_others: float
    balanced_accuracy: float
    auc: float


def infer_attribute(phd: NDArray[Any], others: NDArray[Any]) -> AttributeInference:
    """Attack votes on PhD holders [P, K] and others [O, K], released or reconstructed."""
    if 0 in (len(phd), len(others)) or phd.shape[1:] != others.shape[1:]:
        raise ValueError(
            f"phd has shape {phd.shape} and others {others.shape}; both must be [N, K] counts of "
            "the same K classes, N at least 1"
        )
    shares = [votes.max(axis=1) / votes.sum(axis=1) for votes in (phd, others)]
    high = [float((share > CONSENSUS).mean()) for share in shares]
    below = shares[0][:, None] < shares[1]
    ties = np.isclose(shares[0][:, None], shares[1], rtol=0, atol=1e-9)
    return AttributeInference(
        consensus_phd=high[0],
        consensus_others=high[1],
        balanced_accuracy=(1 - high[0] + high[1]) / 2,
        auc=float((below & ~ties).mean() + ties.mean() / 2),
    )


def adult_votes(folder: Path, ensemble: AdultEnsemble) -> GroupVotes:
    """Train an ensemble on Adult's training rows and let it vote on people of the test split.

    `adult.data` and `adult.test` lie in the folder.
    """
    train, train_labels = read_adult_rows(folder / "adult.data")
    test, _ = read_adult_rows(folder / "adult.test")
    if ensemble.teachers > len(train_labels):
        raise ValueError(
            f"teachers is {ensemble.teachers}, but Adult has {len(train_labels)} training rows"
        )
    generator = np.random.default_rng(ensemble.seed)
    is_phd = test["education"] == DOCTORATE
    others = np.sort(generator.permutation(np.flatnonzero(~is_phd))[: ensemble.others])
    encode = tables.Columns.fit(_without_education(train))
    train_matrix = encode(_without_education(train))
    scale = tables.Numbers.fit(train_matrix)
    features = scale(train_matrix)
    people = scale(encode(_without_education(test)))
    groups = {"phd": people[is_phd], "others": people[others]}
    votes: dict[str, list[NDArray[np.int64]]] = {group: [] for group in groups}
    shards = np.array_split(generator.permutation(len(train_labels)), ensemble.teachers)
    forest_settings = ForestSettings(
        trees=ensemble.trees, min_samples_leaf=ensemble.min_samples_leaf
    )
    for number, shard in enumerate(shards):
        forest = fit_forest(
            torch.from_numpy(features[shard]),
            train_labels[shard],
            settings=forest_settings,
            seed=number,
        )
        for group, asked in groups.items():
            votes[group].append(forest.predict(asked))
    return {
        group: count_votes(np.stack(each), num_classes=2).astype(np.int64)
        for group, each in votes.items()
    }


def _without_education(columns: Columns) -> dict[str, NDArray[Any]]:
    return {name: column for name, column in columns.items() if name not in ABOUT_EDUCATION}

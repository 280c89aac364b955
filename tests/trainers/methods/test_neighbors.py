"""Nearest labels as teachers: who votes is public, and one label moves one vote of its queries."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.pate import TeacherVotes, nearest
from labeldp.trainers.settings.pate import EnsembleConfig, TeacherKind
from tests.trainers.small_data import small_images, small_table

CONFIG = EnsembleConfig(kind=TeacherKind.NEIGHBORS, teachers=9, queries=50, queries_per_label=3)


def votes_of(
    config: EnsembleConfig, data: PublicData, labels: NDArray[np.int64]
) -> NDArray[np.uint8]:
    shards = LabelVault(labels=labels, num_classes=3).partition(config.teachers, seed=config.seed)
    return TeacherVotes(config=config)(range(config.teachers), shards, data)


@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("small", [small_table, small_images])
def test_a_label_moves_one_vote_of_each_query_that_it_is_near_and_of_no_more_than_the_limit(
    small: type, most: int | None
) -> None:
    data, labels = small(examples=300)
    config = replace(CONFIG, queries_per_label=most)
    first, moved = votes_of(config, data, labels), []
    assert first.shape == (9, 50) and first.dtype == np.uint8
    assert (first == labels[config.query_positions(300)]).mean() > 0.6
    for label in range(300):
        changed = labels.copy()
        changed[label] = (changed[label] + 1) % 3
        differs = votes_of(config, data, changed) != first
        assert differs.sum(axis=0).max() <= 1, "two votes of one query"
        moved.append(differs.any(axis=0).sum())
    # Each vote is one label's, so the limit is reached only if the votes are spread.
    assert sum(moved) == 9 * 50
    assert max(moved) == most if most else max(moved) > 3


@pytest.mark.parametrize("most", [50, 2])
def test_the_nearest_are_those_of_a_plain_search(most: int) -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(260, 3, 2)).astype(np.float32)
    queries = random.permutation(260)[:50]
    found = nearest(torch.from_numpy(features), queries, count=10, most=most)
    used = np.zeros(260, dtype=int)
    for query, rows in zip(queries, found, strict=True):
        distances = np.linalg.norm((features - features[query]).reshape(260, -1), axis=1)
        distances[used >= most] = np.inf
        assert rows.tolist() == np.argsort(distances, kind="stable")[:10].tolist()
        used[rows] += 1
    assert used.max() <= most


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"teachers": 300}, r"ensemble\.teachers is 300, but there are 300 labels.*fewer neighb"),
        ({"queries_per_label": 1}, r"queries_per_label is 1, but 50 queries with 9 n.* need 2;"),
        ({"teachers": 100, "queries_per_label": 24}, r"neighbors each among 300 labels need 25;"),
    ],
)
def test_neighbors_that_do_not_suffice_are_refused(changes: dict[str, Any], words: str) -> None:
    data, labels = small_table(examples=300)
    with pytest.raises(ValueError, match=words):
        votes_of(replace(CONFIG, **changes), data, labels)


def test_the_least_limit_suffices_and_identifiers_have_no_neighbors() -> None:
    data, labels = small_table(examples=300)
    votes_of(replace(CONFIG, teachers=100, queries_per_label=25), data, labels)
    names = replace(data, train_features=(data.train_features > 0).long())
    with pytest.raises(ValueError, match="the distance between neighbors can't use them"):
        votes_of(CONFIG, names, labels)
    with pytest.raises(ValueError, match=r"queries_per_label is 3, but each of probe teachers"):
        replace(CONFIG, kind=TeacherKind.PROBE)

"""The published splits, number for number, and what cannot be split."""

import json

import numpy as np
import pytest

from tests.shared_material import shared_path
from tests.trainers.published_order import published_queries, published_shards


def test_shards_are_the_published_ones() -> None:
    structure = json.loads(shared_path("oracle", "antipodes", "structure.json").read_text())
    cases = structure["teacher_partition_seed1337"]
    assert len(cases) >= 4
    for name, golden in cases.items():
        examples, teachers, teacher = (int(part.lstrip("nTid")) for part in name.split("_"))
        shard = published_shards(examples=examples, teachers=teachers)[teacher]
        assert len(shard) == golden["size"] and shard.sum() == golden["sum"]
        assert shard[:10].tolist() == golden["first10"]


def test_queries_are_the_published_ones() -> None:
    structure = json.loads(shared_path("oracle", "antipodes", "structure.json").read_text())
    queries = published_queries(examples=50_000, count=10_000)
    assert queries[:10].tolist() == structure["student_subset_seed1437_first10"]
    assert queries.sum() == structure["student_subset_seed1437_sum_first10000"]


def test_shards_are_disjoint() -> None:
    shards = np.concatenate(published_shards(examples=101, teachers=4))
    assert len(np.unique(shards)) == len(shards) == 100


def test_too_few_examples_are_refused() -> None:
    with pytest.raises(ValueError, match="teachers is 11"):
        published_shards(examples=10, teachers=11)
    with pytest.raises(ValueError, match="count is 11"):
        published_queries(examples=10, count=11)

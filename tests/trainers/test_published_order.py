"""The splits that PATE-FM was published with, number for number (Malek et al. 2021).

They shuffle with Python's generator and public seeds. The vault draws its own partition; published
figures can be repeated on these.
"""

import json
import random

import numpy as np
from numpy.typing import NDArray

from tests.shared_material import shared_path


def shuffled(count: int, seed: int) -> NDArray[np.int64]:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return np.array(order, dtype=np.int64)


def test_shards_and_queries_are_the_published_ones() -> None:
    structure = json.loads(shared_path("oracle", "antipodes", "structure.json").read_text())
    cases = structure["teacher_partition_seed1337"]
    assert len(cases) >= 4
    for name, golden in cases.items():
        examples, teachers, teacher = (int(part.lstrip("nTid")) for part in name.split("_"))
        size = examples // teachers
        shard = shuffled(examples, 1337)[size * teacher : size * (teacher + 1)]
        assert len(shard) == golden["size"] and shard.sum() == golden["sum"]
        assert shard[:10].tolist() == golden["first10"]
    queries = shuffled(50_000, 1437)[:10_000]
    assert queries[:10].tolist() == structure["student_subset_seed1437_first10"]
    assert queries.sum() == structure["student_subset_seed1437_sum_first10000"]

"""What the driver pays for a teacher: 10,000 simulated ones through the pool."""

import time
from pathlib import Path

import numpy as np
import pytest
import ray

from labeldp.platform.sweep.cluster import connected
from labeldp.platform.sweep.sweep import Resources
from labeldp.platform.vault.teacher_pool import train_ensemble
from labeldp.platform.vault.vote_store import VoteJournal
from tests.platform.sweep.simulated_teachers import (
    CLASSES,
    QUERIES,
    Simulated,
    expected_votes,
    shards_of,
)

pytestmark = [pytest.mark.benchmark, pytest.mark.ray_cluster]

TEACHERS = 10_000


def test_a_teacher_costs_the_driver_less_than_2_milliseconds(tmp_path: Path) -> None:
    journal = VoteJournal(
        tmp_path / "v", key="k", teachers=TEACHERS, queries=QUERIES, classes=CLASSES
    )
    with connected("local"):
        start, used = time.perf_counter(), time.process_time()
        trained = train_ensemble(
            Simulated(),
            data=ray.put("public data"),
            shards=shards_of(TEACHERS),
            batch=1,  # the dearest way: a message for every teacher
            journal=journal,
            actors=4,
            each=Resources(cpus=0.25),
        )
        used, wall = time.process_time() - used, time.perf_counter() - start
    np.testing.assert_array_equal(journal.votes(), expected_votes(TEACHERS))
    assert trained == TEACHERS
    print(
        f"\n{TEACHERS:,} teachers: {1e3 * used / TEACHERS:.2f} ms of the driver's processor each, "
        f"{wall:.0f} s in all"
    )
    assert used / TEACHERS < 2e-3

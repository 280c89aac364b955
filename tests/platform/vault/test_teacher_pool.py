"""The pool: every teacher once, whatever dies; what can't be trained is named and the rest kept."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import ray

from labeldp.platform.sweep.cluster import Capacity, connected
from labeldp.platform.sweep.sweep import CannotFit, Resources
from labeldp.platform.vault import pool_members
from labeldp.platform.vault.pool_members import TRIES
from labeldp.platform.vault.teacher_actor import VoteFunction
from labeldp.platform.vault.teacher_pool import (
    EnsembleIncomplete,
    PoolOutcome,
    PoolProgress,
    PoolSize,
    TeacherWork,
    batches_of,
    train_ensemble,
)
from labeldp.platform.vault.vote_store import VoteJournal
from tests.faults.processes import Process, family, titled, wait_until
from tests.platform.sweep.simulated_teachers import (
    CLASSES,
    QUERIES,
    Simulated,
    Unloadable,
    expected_votes,
    shards_of,
    tries_of,
)

TEACHERS = 12
QUARTER = Resources(cpus=0.25)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Capacity]:
    with connected("local") as capacity:
        yield capacity


def a_journal(folder: Path, teachers: int = TEACHERS) -> VoteJournal:
    return VoteJournal(folder / "v", key="k", teachers=teachers, queries=QUERIES, classes=CLASSES)


def train(
    folder: Path,
    vote: VoteFunction,
    *,
    actors: int = 2,
    each: Resources = QUARTER,
    on_progress: Callable[[PoolProgress], None] = lambda progress: None,
) -> PoolOutcome:
    data = ray.put("public data")
    return train_ensemble(
        TeacherWork(vote=vote, data=data, shards=shards_of(TEACHERS), batch=2),
        journal=a_journal(folder),
        pool=PoolSize(actors=actors, each=each),
        on_progress=on_progress,
    )


def test_batches_are_always_the_same_ones() -> None:
    assert batches_of(5, 2) == [[0, 1], [2, 3], [4]]
    assert batches_of(3, 100) == [[0, 1, 2]]


@pytest.mark.ray_cluster
def test_every_teacher_votes_once_and_never_again(cluster: Capacity, tmp_path: Path) -> None:
    told: list[PoolProgress] = []
    outcome = train(tmp_path, Simulated(), on_progress=told.append)
    assert (outcome.trained, outcome.reused) == (TEACHERS, 0)
    np.testing.assert_array_equal(a_journal(tmp_path).votes(), expected_votes(TEACHERS))
    assert [state.done for state in told] == [2, 4, 6, 8, 10, 12]
    assert told[-1].seconds_left == 0 < told[0].seconds_left
    # A second run has nothing to do: not even an actor that could not start would matter.
    again = train(tmp_path, Unloadable())
    assert (again.trained, again.reused) == (0, TEACHERS)


@pytest.mark.ray_cluster
@pytest.mark.fault
@pytest.mark.parametrize("harm", ["fails", "dies"])
def test_a_batch_that_fails_twice_is_trained_and_others_lose_nothing(
    harm: str, cluster: Capacity, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    outcome = train(tmp_path, Simulated(**{harm: 5}, times=TRIES - 1, notes=notes))
    assert outcome.trained == TEACHERS
    np.testing.assert_array_equal(a_journal(tmp_path).votes(), expected_votes(TEACHERS))
    # Those that may have been at work when an actor died are begun once more.
    for batch in batches_of(TEACHERS, 2):
        expected = TRIES if batch == [4, 5] else 1
        assert expected <= tries_of(notes, batch) <= expected + (harm == "dies")


@pytest.mark.ray_cluster
@pytest.mark.fault
@pytest.mark.parametrize(
    ("harm", "words"), [("fails", "RuntimeError: .*bewitched"), ("dies", "Actor")]
)
def test_a_batch_that_always_fails_is_given_up_and_the_others_kept(
    harm: str, words: str, cluster: Capacity, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    said = rf"2 of 12 teachers could not be trained; teacher 4 failed 3 times.*{words}.*10 teachers"
    with pytest.raises(EnsembleIncomplete, match=said):
        train(tmp_path, Simulated(**{harm: 5}, notes=notes))
    # One more where it could not be told, the first time, that it was this batch.
    assert TRIES <= tries_of(notes, [4, 5]) <= TRIES + (harm == "dies")
    assert a_journal(tmp_path).finished == set(range(TEACHERS)) - {4, 5}
    # The cause is mended: only those two are trained.
    outcome = train(tmp_path, Simulated())
    assert (outcome.trained, outcome.reused) == (2, 10)
    np.testing.assert_array_equal(a_journal(tmp_path).votes(), expected_votes(TEACHERS))


@pytest.mark.ray_cluster
def test_actors_that_find_no_room_hold_nothing_back(cluster: Capacity, tmp_path: Path) -> None:
    # One CPU each, two of which are there: the other three never start.
    outcome = train(tmp_path, Simulated(), actors=5, each=Resources(cpus=cluster.cpus / 2))
    assert outcome.trained == TEACHERS


@pytest.mark.ray_cluster
def test_a_cluster_that_is_too_full_is_no_silent_wait(
    cluster: Capacity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_members, "START_SECONDS", 1.0)
    too_large = Resources(cpus=cluster.cpus + 1)
    with pytest.raises(
        CannotFit, match=r"no teacher actor \(\d+ CPU \+ 0 GPU\) started within 1 s"
    ):
        train(tmp_path, Simulated(), each=too_large)


@pytest.mark.ray_cluster
def test_actors_that_die_as_they_start_are_given_up(cluster: Capacity, tmp_path: Path) -> None:
    with pytest.raises(EnsembleIncomplete, match="died 3 times as it started"):
        train(tmp_path, Unloadable(), actors=1)


@pytest.mark.ray_cluster
def test_nothing_is_left_running(cluster: Capacity, tmp_path: Path) -> None:
    def actors() -> list[Process]:
        return titled(family(os.getpid()), "ray::TeacherActor")

    pools: list[list[Process]] = []
    train(tmp_path, Simulated(), on_progress=lambda _: pools.append(actors()))
    assert pools[0]
    wait_until(lambda: not actors(), what="the pool's actors end", seconds=30)

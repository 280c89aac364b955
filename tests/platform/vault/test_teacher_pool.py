"""The pool: every teacher once, whatever dies; batches that fail are named and the rest kept.

Most rules are tested on a virtual clock (`virtual_ray`), and those about processes on Ray.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard
from labeldp.platform.sweep.cluster import Capacity, connected
from labeldp.platform.sweep.sweep import CannotFit, Resources
from labeldp.platform.vault import teacher_pool
from labeldp.platform.vault.teacher_actor import TeacherActor, VoteFunction
from labeldp.platform.vault.teacher_pool import (
    GROWN_ACTORS,
    MACHINES,
    TRIES,
    EnsembleIncomplete,
    pool_size,
    train_ensemble,
)
from labeldp.platform.vault.vote_store import VoteJournal
from tests.faults.processes import Process, family, titled, wait_until
from tests.platform.sweep.examples import a_cluster
from tests.platform.sweep.simulated_teachers import (
    CLASSES,
    QUERIES,
    Simulated,
    Unloadable,
    expected_votes,
    shards_of,
    tries_of,
)
from tests.platform.sweep.virtual_ray import VirtualRay, put_in_place

TEACHERS = 12
QUARTER = Resources(cpus=0.25)
INFINITY = float("inf")


def a_journal(folder: Path, teachers: int = TEACHERS) -> VoteJournal:
    return VoteJournal(folder / "v", key="k", teachers=teachers, queries=QUERIES, classes=CLASSES)


# How large a pool is, and its lines of progress


@pytest.mark.parametrize(
    ("each", "cluster", "actors"),
    [
        (Resources(cpus=0.5), a_cluster((2, 0)), 4),
        # Three cores in two places hold two actors of two cores, not three.
        (Resources(cpus=2), a_cluster((3, 0), (3, 0)), 2),
        (Resources(cpus=1, gpus=0.25), a_cluster((16, 1)), 4),
        (Resources(cpus=4, gpus=0.25), a_cluster((8, 1), (8, 0)), 2),
        (Resources(cpus=0.1), a_cluster((0.3, 0)), 3),
        # One that does not fit now is requested all the same: a node may come back.
        (Resources(cpus=1, gpus=1), a_cluster((2, 0)), 1),
        (Resources(cpus=0), a_cluster((2, 0)), 2),
        (Resources(cpus=1, gpus=1), a_cluster((0, 0), grows=True), GROWN_ACTORS),
    ],
)
def test_a_pool_is_as_large_as_the_nodes_hold(
    each: Resources, cluster: Capacity, actors: int
) -> None:
    assert pool_size(each, cluster) == actors


# On a virtual clock


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., VirtualRay]:
    def run(
        seconds: Callable[[Sequence[int]], float],
        *,
        teachers: int,
        actors: int,
        batch: int = 1,
        **behavior: Any,
    ) -> VirtualRay:
        """Train an ensemble to its end, and check its votes."""
        virtual = VirtualRay(seconds, **behavior)
        put_in_place(virtual, monkeypatch)
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        journal = a_journal(folder, teachers)
        train_ensemble(
            Simulated(),
            data=None,
            shards=shards_of(teachers),
            batch=batch,
            journal=journal,
            actors=actors,
            each=Resources(),
            say=virtual.lines.append,
        )
        np.testing.assert_array_equal(journal.votes(), expected_votes(teachers))
        return virtual

    return run


def first_is_slow(ids: Sequence[int]) -> float:
    return 100.0 if ids == [0] else 10.0


def test_progress_is_printed_now_and_then(simulate: Any) -> None:
    printed = simulate(lambda ids: 4.0, teachers=10, actors=1).lines
    assert printed == [
        "teachers: 3/10, 900 per hour, about 28 s left",
        "teachers: 6/10, 900 per hour, about 16 s left",
        "teachers: 9/10, 900 per hour, about 4 s left",
    ]


def test_nothing_waits_behind_a_straggler(simulate: Any) -> None:
    virtual = simulate(lambda ids: 500.0 if ids == [3] else 10.0, teachers=40, actors=4)
    assert virtual.now == 500.0
    last = max(sent for actor in virtual.actors for sent, _ in actor.batches)
    assert last == 120.0  # 39 batches on the three others


def test_idle_actors_are_let_go(simulate: Any) -> None:
    no_room = {"starts": lambda number: 1e6 if number == 3 else 0.0}
    virtual = simulate(first_is_slow, teachers=5, actors=4, **no_room)
    assert virtual.now == 100.0
    # Two rounds of the two others; one that waits for room stops waiting with the last batch.
    assert [actor.ended for actor in virtual.actors] == [100.0, 20.0, 20.0, 10.0]


def test_a_failure_when_the_others_are_gone_is_tried_again(simulate: Any) -> None:
    virtual = simulate(first_is_slow, teachers=3, actors=3, fails=[[0], [0]])
    assert virtual.now == 300.0 and len(virtual.actors) == 3
    dies = {"dies": lambda number: 50.0 if number == 0 else INFINITY}
    dying = simulate(first_is_slow, teachers=3, actors=3, **dies)
    assert dying.now == 150.0 and len(dying.actors) == 4


def test_a_machine_that_goes_away_says_nothing_of_the_batch(simulate: Any) -> None:
    """Ten minutes of life, nine of work: of a process that dies so often the batch is given up."""

    def lives(number: int) -> float:
        return 300.0 if number < MACHINES - 1 else 600.0

    one: dict[str, Any] = {"teachers": 1, "actors": 1}
    virtual = simulate(lambda ids: 540.0, **one, dies=lives, machines_die=True)
    assert len(virtual.actors) == MACHINES and virtual.now == 300 * (MACHINES - 1) + 540
    with pytest.raises(EnsembleIncomplete, match=f"1 of 1 .* failed {TRIES} times"):
        simulate(lambda ids: 540.0, **one, dies=lives)
    # A batch that ends every machine ends itself.
    with pytest.raises(EnsembleIncomplete, match=f"failed {MACHINES} times"):
        simulate(lambda ids: 540.0, **one, dies=lambda number: 60.0, machines_die=True)


def test_a_thousand_actors_are_asked_about_together(simulate: Any) -> None:
    virtual = simulate(lambda ids: 10.0, teachers=1_000, actors=500)
    assert virtual.now == 20.0
    assert virtual.waits <= 2 * 3  # starts, and two rounds


def test_batches_are_always_the_same_ones(simulate: Any) -> None:
    dies = {"dies": lambda number: 40.0}
    virtual = simulate(lambda ids: 3.0 * len(ids), teachers=50, actors=3, batch=4, **dies)
    sent = {tuple(ids) for actor in virtual.actors for _, ids in actor.batches}
    assert sent == {tuple(range(50)[start : start + 4]) for start in range(0, 50, 4)}


# On Ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[Capacity]:
    with connected("local") as capacity:
        yield capacity


def train(
    folder: Path,
    vote: VoteFunction,
    *,
    actors: int = 2,
    each: Resources = QUARTER,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    data = ray.put("public data")
    return train_ensemble(
        vote,
        data=data,
        shards=shards_of(TEACHERS),
        batch=2,
        journal=a_journal(folder),
        actors=actors,
        each=each,
        say=say,
    )


@pytest.mark.ray_cluster
def test_every_teacher_votes_once_and_never_again(
    cluster: Capacity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def actors() -> list[Process]:
        return titled(family(os.getpid()), "ray::TeacherActor")

    monkeypatch.setattr(teacher_pool, "_TELL_SECONDS", 0.0)
    told: list[str] = []
    pools: list[list[Process]] = []

    def tell(line: str) -> None:
        told.append(line)
        pools.append(actors())

    assert train(tmp_path, Simulated(), say=tell) == TEACHERS
    np.testing.assert_array_equal(a_journal(tmp_path).votes(), expected_votes(TEACHERS))
    assert [line.split()[1] for line in told] == [f"{done}/12," for done in range(2, 14, 2)]
    assert pools[0]
    wait_until(lambda: not actors(), what="the pool's actors end", seconds=30)
    # A second run has nothing to do: not even an actor that could not start would matter.
    assert train(tmp_path, Unloadable()) == 0


@pytest.mark.ray_cluster
@pytest.mark.fault
@pytest.mark.parametrize(
    ("harm", "words"), [("fails", "RuntimeError: .*bewitched"), ("dies", "Actor")]
)
def test_a_batch_is_tried_thrice_then_given_up_and_the_others_kept(
    harm: str, words: str, cluster: Capacity, tmp_path: Path
) -> None:
    def folder(name: str) -> Path:
        (tmp_path / name / "notes").mkdir(parents=True)
        return tmp_path / name

    twice = folder("twice")
    train(twice, Simulated(**{harm: 5}, times=TRIES - 1, notes=twice / "notes"))
    np.testing.assert_array_equal(a_journal(twice).votes(), expected_votes(TEACHERS))
    for first in range(0, TEACHERS, 2):
        expected = TRIES if first == 4 else 1
        assert tries_of(twice / "notes", [first, first + 1]) == expected

    always = folder("always")
    message = (
        rf"2 of 12 teachers could not be trained; teacher 4 failed 3 times.*{words}.*10 teachers"
    )
    with pytest.raises(EnsembleIncomplete, match=message):
        train(always, Simulated(**{harm: 5}, notes=always / "notes"))
    assert tries_of(always / "notes", [4, 5]) == TRIES
    assert a_journal(always).finished == set(range(TEACHERS)) - {4, 5}
    # The cause is mended: only those two are trained.
    assert train(always, Simulated()) == 2
    np.testing.assert_array_equal(a_journal(always).votes(), expected_votes(TEACHERS))


@pytest.mark.ray_cluster
def test_actors_that_do_not_start(
    cluster: Capacity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnsembleIncomplete, match="died 3 times as it started"):
        train(tmp_path, Unloadable(), actors=1)
    with monkeypatch.context() as hurried:
        hurried.setattr(teacher_pool, "START_SECONDS", 1.0)
        words = r"no teacher actor \(\d+ CPU \+ 0 GPU\) started within 1 s"
        with pytest.raises(CannotFit, match=words):
            train(tmp_path, Simulated(), each=Resources(cpus=cluster.cpus + 1))
    # Of five with half of the cores each three find no room, and hold nothing back.
    assert train(tmp_path, Simulated(), actors=5, each=Resources(cpus=cluster.cpus / 2)) == TEACHERS


# A member


def vote(teachers: Sequence[int], shards: Sequence[Shard], data: Any) -> NDArray[np.uint8]:
    """The label of each shard for the first query, the teacher's number for the second."""
    rows = [(shard.labels[0], id) for id, shard in zip(teachers, shards, strict=True)]
    return np.array(rows, dtype=np.uint8) + np.uint8(data)


def test_a_batch_is_trained_on_its_own_shards_and_the_data_of_all() -> None:
    before = torch.get_num_threads()
    try:
        actor = TeacherActor(vote, 100, threads=before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    shards = [Shard(indices=np.array([each]), labels=np.array([each + 5])) for each in (3, 1)]
    assert actor.train([3, 1], shards).tolist() == [[108, 103], [106, 101]]


def test_a_member_whose_teachers_need_no_torch_does_not_load_it() -> None:
    code = (
        "import sys\n"
        "from labeldp.platform.vault.teacher_actor import TeacherActor\n"
        "TeacherActor(lambda *batch: batch, None, threads=1)\n"
        "print(sorted({'torch', 'mlflow', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr

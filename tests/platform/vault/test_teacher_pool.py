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
from labeldp.platform.vault.teacher_actor import TeacherActor
from labeldp.platform.vault.teacher_pool import (
    GROWN_ACTORS,
    MACHINES,
    TRIES,
    EnsembleIncomplete,
    pool_size,
    train_ensemble,
)
from labeldp.platform.vault.vote_store import VoteJournal
from tests.faults.processes import family, titled, wait_until
from tests.platform.sweep.examples import a_cluster
from tests.platform.sweep.simulated_teachers import (
    CLASSES,
    QUERIES,
    Unloadable,
    expected_votes,
    shards_of,
    simulated,
)
from tests.platform.sweep.virtual_ray import VirtualRay, put_in_place

TEACHERS = 12
QUARTER = Resources(cpus=0.25)
INFINITY = float("inf")


def a_journal(folder: Path, teachers: int = TEACHERS) -> VoteJournal:
    return VoteJournal(folder / "v", key="k", teachers=teachers, queries=QUERIES, classes=CLASSES)


@pytest.mark.parametrize(
    ("each", "cluster", "actors"),
    [
        (Resources(cpus=0.5), a_cluster((2, 0)), 4),
        # Three cores in two places hold two actors of two cores, not three.
        (Resources(cpus=2), a_cluster((3, 0), (3, 0)), 2),
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
            simulated,
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


def test_a_batch_is_tried_thrice_then_given_up_and_the_others_kept(
    simulate: Any, tmp_path: Path
) -> None:
    named = r"2 of 6 teachers could .*; teacher 2 failed 3 times.*RuntimeError: .*bewitched.* of 4 "
    with pytest.raises(EnsembleIncomplete, match=named):
        simulate(lambda ids: 5.0, teachers=6, actors=2, batch=2, fails=[[2, 3]] * TRIES)
    assert a_journal(tmp_path / "0", 6).finished == {0, 1, 4, 5}


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


def train(folder: Path, vote: Any = simulated, **changes: Any) -> int:
    given: dict[str, Any] = {"actors": 2, "each": QUARTER, **changes}
    return train_ensemble(
        vote,
        data=ray.put("public data"),
        shards=shards_of(TEACHERS),
        batch=2,
        journal=a_journal(folder),
        **given,
    )


@pytest.mark.ray_cluster
def test_every_teacher_votes_once_and_never_again(
    cluster: Capacity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def actors() -> int:
        return len(titled(family(os.getpid()), "ray::TeacherActor"))

    monkeypatch.setattr(teacher_pool, "_TELL_SECONDS", 0.0)
    told: list[tuple[str, int]] = []
    say: Callable[[str], None] = lambda line: told.append((line.split()[1], actors()))  # noqa: E731
    assert train(tmp_path, say=say) == TEACHERS
    np.testing.assert_array_equal(a_journal(tmp_path).votes(), expected_votes(TEACHERS))
    assert [done for done, _ in told] == [f"{done}/12," for done in range(2, 14, 2)]
    assert told[0][1]
    wait_until(lambda: not actors(), what="the pool's actors end", seconds=30)
    # A second run has nothing to do: not even an actor that could not start would matter.
    assert train(tmp_path, Unloadable()) == 0


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
            train(tmp_path, each=Resources(cpus=cluster.cpus + 1))
    # Of five with half of the cores each three find no room, and hold nothing back.
    assert train(tmp_path, actors=5, each=Resources(cpus=cluster.cpus / 2)) == TEACHERS


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

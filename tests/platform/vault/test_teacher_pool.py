"""The pool: every teacher once, whatever dies; batches that fail are named and the rest kept.

Retries are tested on a fake of Ray, and what is about processes on Ray.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
import torch

from labeldp.mechanisms.vault import Shard
from labeldp.platform.cluster import Capacity, connected
from labeldp.platform.settings.sweep import CannotFit, Resources, Unfinished
from labeldp.platform.vault import actors
from labeldp.platform.vault.actors import (
    DEATHS,
    GROWN_ACTORS,
    START_SECONDS,
    TRIES,
    TeacherActor,
    pool_size,
    train_ensemble,
)
from labeldp.platform.vault.vault_store import VoteJournal
from tests.faults.processes import family, titled, wait_until
from tests.platform.sweep.examples import a_cluster
from tests.platform.vault.simulated_teachers import (
    CLASSES,
    QUERIES,
    Unloadable,
    expected_votes,
    shards_of,
    simulated,
)

TEACHERS = 12
QUARTER = Resources(cpu=0.25)


def a_journal(folder: Path, teachers: int = TEACHERS) -> VoteJournal:
    return VoteJournal(folder / "v", teachers=teachers, queries=QUERIES, classes=CLASSES)


#: Of a run on the fake.
FAKED: dict[str, Any] = {"data": "public data", "resources": Resources(cpu=2, gpu=0.5)}


def train(folder: Path, vote: Any = simulated, *, teachers: int = TEACHERS, **changes: Any) -> int:
    if "data" not in changes:
        changes["data"] = ray.put("public data")
    given: dict[str, Any] = {"actors": 2, "resources": QUARTER, **changes}
    journal = a_journal(folder, teachers)
    return train_ensemble(vote, shards=shards_of(teachers), batch=2, journal=journal, **given)


@pytest.mark.parametrize(
    ("each", "cluster", "actors"),
    [
        (Resources(cpu=0.5), a_cluster((2, 0)), 4),
        # Three cores in two places hold two actors of two cores, not three.
        (Resources(cpu=2), a_cluster((3, 0), (3, 0)), 2),
        (Resources(cpu=4, gpu=0.25), a_cluster((8, 1), (8, 0)), 2),
        (Resources(cpu=0.1), a_cluster((0.3, 0)), 3),
        # One that does not fit now is requested all the same: a node may come back.
        (Resources(cpu=1, gpu=1), a_cluster((2, 0)), 1),
        (Resources(cpu=1, gpu=1), a_cluster((0, 0), grows=True), GROWN_ACTORS),
    ],
)
def test_a_pool_fills_the_nodes(each: Resources, cluster: Capacity, actors: int) -> None:
    assert pool_size(each, cluster) == actors


class Answer:
    def __init__(self, value: Any, *, of_a_start: bool = False) -> None:
        self.value, self.of_a_start = value, of_a_start


class FakeRay:
    """Ray in this process: a call of `train` raises the next error that `errors` has for it."""

    exceptions = ray.exceptions

    def __init__(self, errors: dict[int, list[Exception]]) -> None:
        self.errors, self.made = errors, 0
        self.shares = list[float]()
        self.working = set[int]()
        self.batches: list[list[int]] = []

    def remote(self, kind: type) -> Any:
        def options(**given: Any) -> Any:
            self.shares.append(given.pop("num_gpus"))
            assert given == {"num_cpus": 2, "max_restarts": -1, "max_task_retries": DEATHS}
            return SimpleNamespace(remote=self._make)

        assert kind is TeacherActor
        return SimpleNamespace(options=options)

    def wait(
        self, waiting: list[Answer], num_returns: int, timeout: float | None
    ) -> tuple[list[Answer], list[Answer]]:
        assert (num_returns, timeout) in ((1, START_SECONDS), (len(waiting), 0))
        return waiting[:num_returns], waiting[num_returns:]

    def kill(self, actor: Any) -> None:
        self.working.remove(actor.number)

    def get(self, answer: Answer) -> Any:
        if isinstance(answer.value, Exception):
            raise answer.value
        return answer.value

    def _make(self, vote: Any, data: Any, threads: int) -> Any:
        assert threads == 2
        self.made += 1
        self.working.add(self.made)

        def train(ids: list[int], shards: Sequence[Shard]) -> Answer:
            self.batches.append(ids)
            errors = self.errors.get(ids[0])
            return Answer(errors.pop() if errors else vote(ids, shards, data))

        started = Answer(None, of_a_start=True)
        return SimpleNamespace(
            number=self.made,
            ready=SimpleNamespace(remote=lambda: started),
            train=SimpleNamespace(remote=train),
        )


def failed(why: str = "bewitched") -> Exception:
    make: Any = ray.exceptions.RayTaskError
    error: Exception = make("train", "trace", RuntimeError(why))
    return error


def died() -> Exception:
    return ray.exceptions.ActorDiedError()


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeRay]:
    def run(errors: dict[int, list[Exception]]) -> FakeRay:
        """Train an ensemble of six in batches of two to its end, and check its votes."""
        fake = FakeRay(errors)
        monkeypatch.setattr(actors, "ray", fake)
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        try:
            for trained in (6, 0):  # what has voted is not trained again
                assert trained == train(folder, teachers=6, **FAKED)
        finally:
            assert not fake.working, "actors end, whatever happens"
        np.testing.assert_array_equal(a_journal(folder, 6).votes(), expected_votes(6))
        return fake

    return run


def test_failed_batches_are_tried_again_and_are_always_the_same_ones(simulate: Any) -> None:
    fake = simulate({0: [failed(), failed()], 4: [failed()]})
    assert sorted(fake.batches) == [[0, 1]] * 3 + [[2, 3]] + [[4, 5]] * 2
    assert fake.made == 2
    assert fake.shares == [0.5]


@pytest.mark.parametrize("why", ["CUDA out of memory", "cuDNN: CUDNN_STATUS_ALLOC_FAILED"])
def test_teachers_that_are_out_of_memory_start_again_with_more_of_the_gpu(
    why: str, simulate: Any
) -> None:
    fake = simulate({2: [failed(why) for _ in range(TRIES)]})
    assert sorted(fake.batches) == [[0, 1]] + [[2, 3]] * (TRIES + 1) + [[4, 5]]
    assert fake.shares == [0.5, 1.0] and fake.made == 3  # one actor has the GPU to itself


@pytest.mark.parametrize("dies", [False, True])
def test_a_batch_is_given_up_and_others_kept(dies: bool, simulate: Any, tmp_path: Path) -> None:
    """Ray has tried again by itself where the actor died."""
    errors, times, what = [died()], DEATHS + 1, "ActorDiedError"
    if not dies:
        errors, times, what = [failed() for _ in range(TRIES)], TRIES, "RuntimeError: .*bewitched"
    named = rf"2 of 6 teachers could .*; teacher 2 failed {times} times.*{what}.* of 4 "
    with pytest.raises(Unfinished, match=named):
        simulate({2: errors})
    assert a_journal(tmp_path / "0", 6).finished == {0, 1, 4, 5}


def test_no_batch_waits_for_a_machine_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, clusters = FakeRay({}), [a_cluster((2, 1)), a_cluster((2, 0))]

    def working(waiting: Any, **_: Any) -> tuple[list[Any], list[Any]]:
        return [answer for answer in waiting if answer.of_a_start], []

    monkeypatch.setattr(fake, "wait", working)
    monkeypatch.setattr(actors, "ray", fake)
    monkeypatch.setattr(actors, "capacity", lambda: clusters.pop(0))
    with pytest.raises(CannotFit, match=r"a teacher actor needs 2 CPU \+ 0.5 GPU on one node"):
        train(tmp_path, teachers=2, actors=1, **FAKED)
    assert not clusters and not fake.working


def test_time_that_is_over_ends_training_and_keeps_votes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, now, waits = FakeRay({}), [0.0], list[float | None]()

    def wait(waiting: list[Answer], num_returns: int, timeout: float | None) -> Any:
        """Starts come at once; then a batch comes back each minute."""
        if num_returns > 1 or timeout == 0:
            return [], waiting
        started = [answer for answer in waiting if answer.of_a_start]
        if not started:
            waits.append(timeout)
            now[0] += 60
        done = (started or waiting)[:1] if now[0] <= 120 else []
        return done, [answer for answer in waiting if answer not in done]

    monkeypatch.setattr(fake, "wait", wait)
    monkeypatch.setattr(actors, "ray", fake)
    monkeypatch.setattr(actors, "monotonic", lambda: now[0])
    trained = train(tmp_path, teachers=10, actors=1, until=150.0, **FAKED)
    assert waits == [150.0, 90.0, 30.0], "it waits for what is left"
    assert trained == 4 and a_journal(tmp_path, 10).finished == {0, 1, 2, 3}
    assert not fake.working


@pytest.fixture(scope="module")
def cluster() -> Iterator[Capacity]:
    with connected("local") as capacity:
        yield capacity


@pytest.mark.ray_cluster
def test_every_teacher_votes_once_and_never_again(
    cluster: Capacity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alive() -> int:
        return len(titled(family(os.getpid()), "ray::TeacherActor"))

    monkeypatch.setattr(actors, "_TELL_SECONDS", 0.0)
    told: list[tuple[str, int]] = []

    def say(line: str) -> None:
        told.append((line.split()[1], alive()))

    assert train(tmp_path, say=say) == TEACHERS
    np.testing.assert_array_equal(a_journal(tmp_path).votes(), expected_votes(TEACHERS))
    assert [done for done, _ in told] == [f"{done}/12," for done in range(2, 14, 2)]
    assert told[0][1]
    wait_until(lambda: not alive(), what="the pool's actors end", seconds=30)
    # A second run has nothing to do: not even an actor that could not start would matter.
    assert train(tmp_path, Unloadable()) == 0


@pytest.mark.ray_cluster
def test_failing_starts(cluster: Capacity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unfinished, match=r"died as it started: .*no module named 'wand'"):
        train(tmp_path, Unloadable(), actors=1)
    with monkeypatch.context() as hurried:
        hurried.setattr(actors, "START_SECONDS", 1.0)
        words = r"no teacher actor \(\d+ CPU \+ 0 GPU\) started within 1 s"
        with pytest.raises(CannotFit, match=words):
            train(tmp_path, resources=Resources(cpu=cluster.nodes[0][0] + 1))
    # Of five with half of the cores each three find no room, and hold nothing back.
    assert train(tmp_path, actors=5, resources=Resources(cpu=cluster.nodes[0][0] / 2)) == TEACHERS


def test_an_actor_has_its_threads() -> None:
    before = torch.get_num_threads()
    try:
        TeacherActor(simulated, None, threads=before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_a_member_whose_teachers_need_no_torch_does_not_load_it() -> None:
    code = (
        "import sys\n"
        "from labeldp.platform.vault.actors import TeacherActor\n"
        "TeacherActor(lambda *batch: batch, None, threads=1)\n"
        "print(sorted({'torch', 'mlflow', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr

"""The pool's members on a virtual clock: who gets what, who dies with what, who is let go."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.sweep.sweep import Resources
from labeldp.platform.vault.teacher_pool import (
    MACHINES,
    TRIES,
    EnsembleIncomplete,
    PoolSize,
    TeacherWork,
    batches_of,
    train_ensemble,
)
from labeldp.platform.vault.vote_store import VoteJournal
from tests.platform.sweep.simulated_teachers import (
    CLASSES,
    QUERIES,
    Simulated,
    expected_votes,
    shards_of,
)
from tests.platform.sweep.virtual_ray import VirtualRay, put_in_place


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    return tmp_path


def train(
    virtual: VirtualRay,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    teachers: int,
    actors: int,
    batch: int = 1,
) -> None:
    """Train an ensemble to its end, and check its votes."""
    folder.mkdir(exist_ok=True)
    put_in_place(virtual, monkeypatch)
    journal = VoteJournal(
        folder / "v", key="k", teachers=teachers, queries=QUERIES, classes=CLASSES
    )
    train_ensemble(
        TeacherWork(vote=Simulated(), data=None, shards=shards_of(teachers), batch=batch),
        journal=journal,
        pool=PoolSize(actors=actors, each=Resources()),
    )
    np.testing.assert_array_equal(journal.votes(), expected_votes(teachers))


def most_at_once(virtual: VirtualRay) -> int:
    """The most batches that were sent to an actor within a second."""
    return max(
        sum(0 <= later - sent < 1.0 for later, _ in actor.batches)
        for actor in virtual.actors
        for sent, _ in actor.batches
    )


def test_short_batches_are_sent_ahead_and_long_ones_are_not(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    short = VirtualRay(lambda ids: 0.2)
    train(short, monkeypatch, folder, teachers=40, actors=2)
    assert short.now == pytest.approx(20 * 0.2) and most_at_once(short) > 2
    long = VirtualRay(lambda ids: 5.0)
    train(long, monkeypatch, folder / "long", teachers=40, actors=2)
    assert long.now == 20 * 5.0 and most_at_once(long) == 1


def test_nothing_waits_behind_a_straggler(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    virtual = VirtualRay(lambda ids: 500.0 if ids == [3] else 10.0)
    train(virtual, monkeypatch, folder, teachers=40, actors=4)
    assert virtual.now == 500.0
    last = max(sent for actor in virtual.actors for sent, _ in actor.batches)
    assert last == 120.0  # 39 batches on the three others


def test_who_has_nothing_to_do_is_let_go(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    virtual = VirtualRay(
        lambda ids: 100.0 if ids == [0] else 10.0,
        starts=lambda number: 1e6 if number == 3 else 0.0,  # no room for it
    )
    train(virtual, monkeypatch, folder, teachers=5, actors=4)
    assert virtual.now == 100.0
    # Two rounds of the two others; one that waits for room stops waiting with the last batch.
    assert [actor.ended for actor in virtual.actors] == [100.0, 20.0, 20.0, 10.0]


def test_what_fails_when_the_others_are_gone_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    virtual = VirtualRay(lambda ids: 100.0 if ids == [0] else 10.0, fails=[[0], [0]])
    train(virtual, monkeypatch, folder, teachers=3, actors=3)
    assert virtual.now == 300.0 and len(virtual.actors) == 3
    dying = VirtualRay(
        lambda ids: 100.0 if ids == [0] else 10.0,
        dies=lambda number: 50.0 if number == 0 else float("inf"),
    )
    train(dying, monkeypatch, folder / "dying", teachers=3, actors=3)
    assert dying.now == 150.0 and len(dying.actors) == 4


def test_a_machine_that_goes_away_says_nothing_of_the_batch(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Ten minutes of life, nine of work: of a process that dies so often the batch is given up."""

    def lives(number: int) -> float:
        return 300.0 if number < MACHINES - 1 else 600.0

    virtual = VirtualRay(lambda ids: 540.0, dies=lives, machines_die=True)
    train(virtual, monkeypatch, folder, teachers=1, actors=1)
    assert len(virtual.actors) == MACHINES and virtual.now == 300 * (MACHINES - 1) + 540

    process = VirtualRay(lambda ids: 540.0, dies=lives)
    with pytest.raises(EnsembleIncomplete, match=f"1 of 1 .* failed {TRIES} times"):
        train(process, monkeypatch, folder / "process", teachers=1, actors=1)


def test_what_ends_every_machine_ends_itself(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    virtual = VirtualRay(lambda ids: 540.0, dies=lambda number: 60.0, machines_die=True)
    with pytest.raises(EnsembleIncomplete, match=f"failed {MACHINES} times"):
        train(virtual, monkeypatch, folder, teachers=1, actors=1)


def test_of_two_at_an_actor_that_died_neither_is_blamed(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    virtual = VirtualRay(lambda ids: 0.5, dies=lambda number: 2.25 if number == 0 else float("inf"))
    train(virtual, monkeypatch, folder, teachers=20, actors=1)
    first, second = virtual.actors
    held = [ids for sent, ids in first.batches if sent >= 1.5][-2:]
    assert [ids for _, ids in second.batches][-2:] == held
    sent = [sent for sent, _ in second.batches][-2:]
    assert sent[1] - sent[0] == 0.5  # alone, each of them


def test_a_thousand_actors_are_asked_about_together(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    virtual = VirtualRay(lambda ids: 10.0)
    train(virtual, monkeypatch, folder, teachers=1_000, actors=500)
    assert virtual.now == 20.0
    assert virtual.waits <= 2 * 3  # starts, and two rounds


def test_batches_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    virtual = VirtualRay(lambda ids: 3.0 * len(ids), dies=lambda number: 40.0)
    train(virtual, monkeypatch, folder, teachers=50, actors=3, batch=4)
    sent = {tuple(ids) for actor in virtual.actors for _, ids in actor.batches}
    assert sent == {tuple(ids) for ids in batches_of(50, 4)}

"""Teachers: votes depend on their own shard and seed alone, whatever they are trained with."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.vault import LabelVault, Shard
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.teachers import TeacherVotes
from labeldp.trainers.models.schedules import Recipe
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import EnsembleConfig, ForestSettings, TeacherKind
from labeldp.trainers.settings.training import FixMatchConfig, LearnerConfig
from tests.trainers.small_data import small_images, small_table

NETWORK = LearnerConfig(width=16, epochs=20, batch_size=16, learning_rate=0.1)
FIXMATCH = FixMatchConfig(
    model=ModelName.MLP,
    width=16,
    epochs=1,
    steps_per_epoch=20,
    batch_size=8,
    unlabeled_ratio=2,
    learning_rate=0.1,
    average_decay=0.5,
)
CONFIG = EnsembleConfig(
    teachers=6,
    queries=50,
    forest=ForestSettings(trees=5),
    network=NETWORK,
    fixmatch=FIXMATCH,
)
KINDS = list(TeacherKind)


def problem(
    teachers: int = 6, *, examples: int = 300
) -> tuple[PublicData, NDArray[np.int64], tuple[Shard, ...]]:
    data, labels = small_table(examples=examples)
    vault = LabelVault(labels=labels, num_classes=data.num_classes)
    return data, labels, vault.partition(teachers, seed=3)


@pytest.mark.parametrize("images", [False, True])
def test_a_network_with_a_recipe_is_trained_on_its_own(images: bool) -> None:
    data, labels = small_images() if images else small_table()
    recipe = Recipe(label_smoothing=0.2, average_decay=0.9, mirrored=images)
    network = replace(NETWORK, recipe=recipe)
    if images:
        network = replace(network, model=ModelName.FAST_CNN, width=4, learning_rate=0.3)
    config = replace(CONFIG, kind=TeacherKind.NETWORK, network=network)
    assert config.batch == 1
    vault = LabelVault(labels=labels, num_classes=data.num_classes)
    votes = TeacherVotes(config=config)(range(3), vault.partition(3, seed=0), data)
    assert (votes == labels[config.query_positions(400)]).mean() > 0.6


@pytest.mark.parametrize("kind", KINDS)
def test_votes_repeat_to_the_bit(kind: TeacherKind) -> None:
    data, labels, shards = problem()
    vote = TeacherVotes(config=replace(CONFIG, kind=kind))
    torch.manual_seed(1)
    first = vote(range(6), shards, data)
    assert first.dtype == np.uint8 and first.shape == (6, 50) and first.max() < 3
    assert (first == labels[CONFIG.query_positions(300)]).mean() > 0.7
    torch.manual_seed(2)  # nothing global has a say
    np.random.seed(5)
    np.testing.assert_array_equal(vote(range(6), shards, data), first)


@pytest.mark.parametrize("kind", KINDS)
def test_one_label_changes_no_other_teachers_vote(kind: TeacherKind) -> None:
    data, labels, _ = problem()
    vote = TeacherVotes(config=replace(CONFIG, kind=kind))

    def votes(given: NDArray[np.int64]) -> NDArray[np.uint8]:
        shards = LabelVault(labels=given, num_classes=3).partition(6, seed=3)
        return vote(range(6), shards, data)

    changed = labels.copy()
    changed[17] = (changed[17] + 1) % 3
    differ = (votes(labels) != votes(changed)).any(axis=1)
    owner = [
        17 in shard.indices
        for shard in LabelVault(labels=labels, num_classes=3).partition(6, seed=3)
    ]
    assert not differ[~np.array(owner)].any()


@pytest.mark.parametrize("kind", [TeacherKind.FOREST, TeacherKind.FIXMATCH])
def test_a_teacher_alone_votes_as_in_a_batch(kind: TeacherKind) -> None:
    data, _, shards = problem()
    vote = TeacherVotes(config=replace(CONFIG, kind=kind))
    together = vote(range(6), shards, data)
    np.testing.assert_array_equal(vote([4], [shards[4]], data)[0], together[4])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"teachers": 301}, "ensemble.teachers is 301, but there are 300 labels"),
        ({"queries": 301}, "ensemble.queries is 301, but there are 300 training examples"),
    ],
)
def test_too_few_examples_are_refused(changes: dict[str, int], words: str) -> None:
    data, _, _ = problem()
    with pytest.raises(ValueError, match=words):
        replace(CONFIG, **changes).check_data(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", list(TeacherKind))
def test_more_classes_than_a_byte_tells_apart_are_refused(kind: TeacherKind) -> None:
    table = replace(small_table(examples=400)[0], num_classes=257)
    with pytest.raises(ValueError, match="257 classes, but a vote is kept in one byte"):
        replace(CONFIG, kind=kind).check_data(table)

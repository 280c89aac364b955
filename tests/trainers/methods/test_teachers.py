"""Teachers: votes depend on their own shard and seed alone, whatever they are trained with."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.vault import LabelVault, Shard
from labeldp.trainers.methods.pate import TeacherVotes
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import EnsembleConfig, ForestSettings, TeacherKind
from labeldp.trainers.settings.training import FixMatchConfig, LearnerConfig
from tests.trainers.small_data import small_table

NETWORK = LearnerConfig(width=16, epochs=20, batch_size=16, learning_rate=0.1)
MLP = LearnerConfig(width=16, epochs=8, batch_size=8, learning_rate=0.1, weight_decay=1e-3)
CNN = replace(MLP, model=ModelName.SMALL_CNN, width=4)
CONFIG = EnsembleConfig(
    teachers=6,
    queries=50,
    forest=ForestSettings(trees=5),
    network=NETWORK,
    fixmatch=FixMatchConfig(
        model=ModelName.MLP,
        width=16,
        epochs=1,
        steps_per_epoch=20,
        batch_size=8,
        unlabeled_ratio=2,
        learning_rate=0.1,
        average_decay=0.5,
    ),
)
#: Neighbors are no teachers with shards of their own (`test_neighbors`).
KINDS = [kind for kind in TeacherKind if kind is not TeacherKind.NEIGHBORS]


def cut(labels: NDArray[np.int64], teachers: int = 6, *, num_classes: int = 3) -> tuple[Shard, ...]:
    return LabelVault(labels=labels, num_classes=num_classes).partition(teachers, seed=3)


@pytest.mark.parametrize("kind", KINDS)
def test_votes_repeat_to_the_bit_and_one_label_changes_no_other_teachers_vote(
    kind: TeacherKind,
) -> None:
    data, labels = small_table(examples=300)
    vote = TeacherVotes(config=replace(CONFIG, kind=kind))
    torch.manual_seed(1)
    first = vote(range(6), cut(labels), data)
    assert first.dtype == np.uint8 and first.shape == (6, 50) and first.max() < 3
    assert (first == labels[CONFIG.query_positions(300)]).mean() > 0.7
    torch.manual_seed(2)  # nothing global has a say
    np.random.seed(5)
    np.testing.assert_array_equal(vote(range(6), cut(labels), data), first)
    changed = labels.copy()
    changed[17] = (changed[17] + 1) % 3
    differ = (vote(range(6), cut(changed), data) != first).any(axis=1)
    owner = np.array([17 in shard.indices for shard in cut(labels)])
    assert owner.sum() == 1 and not differ[~owner].any()
    if kind in (TeacherKind.FOREST, TeacherKind.FIXMATCH):  # in another batch
        np.testing.assert_array_equal(vote([4], [cut(labels)[4]], data)[0], first[4])


@pytest.mark.parametrize("kind", KINDS)
def test_data_that_do_not_fit_are_refused(kind: TeacherKind) -> None:
    data, _ = small_table(examples=300)
    with pytest.raises(ValueError, match=r"ensemble\.teachers is 301, but there are 300 labels"):
        replace(CONFIG, kind=kind, teachers=301).check_data(data)
    with pytest.raises(ValueError, match=r"ensemble\.queries is 301, but there are 300 training"):
        replace(CONFIG, kind=kind, queries=301).check_data(data)
    with pytest.raises(ValueError, match="257 classes, but a vote is kept in one byte"):
        replace(CONFIG, kind=kind).check_data(replace(data, num_classes=257))

"""vault_part: a part sees and charges its own labels only, and ensembles train on them alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse
from labeldp.mechanisms.vault import LabelVault
from labeldp.mechanisms.vault_part import VaultPart

LABELS = np.array([0, 2, 1, 1, 0, 2, 2])
TRAINING, HELD_OUT = np.array([0, 1, 2, 3]), np.array([4, 5, 6])


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Stands for what an ensemble answers."""

    failure_probability: ClassVar[float] = 0.0

    @property
    def event(self) -> PureEvent:
        return PureEvent(epsilon=0.5)

    def release(self, votes: NDArray[np.int64], *, generator: object) -> NDArray[np.int64]:
        return np.asarray(votes.argmax(1))


def parts() -> tuple[LabelVault, VaultPart, VaultPart]:
    vault = LabelVault(labels=LABELS, num_classes=3)
    return vault, VaultPart(vault, TRAINING), VaultPart(vault, HELD_OUT)


def test_a_part_is_numbered_from_0() -> None:
    _, training, held_out = parts()
    bare = NoNoise(num_classes=3)
    assert (training.num_labels, held_out.num_labels, held_out.num_classes) == (4, 3, 3)
    whole = held_out.release(bare)
    assert whole.indices is None
    assert whole.values.tolist() == LABELS[HELD_OUT].tolist()
    some = held_out.release(bare, indices=np.array([2, 0]))
    assert some.indices is not None and some.indices.tolist() == [2, 0]
    assert some.values.tolist() == [LABELS[6], LABELS[4]]


def test_a_part_cannot_reach_beyond_itself() -> None:
    _, training, _ = parts()
    with pytest.raises(ValueError, match="index 4 is outside"):
        training.release(NoNoise(num_classes=3), indices=np.array([4]))
    with pytest.raises(ValueError, match="index 7 is outside"):
        VaultPart(LabelVault(labels=LABELS, num_classes=3), np.array([7]))


def test_parts_are_charged_apart() -> None:
    vault, training, held_out = parts()
    training.release(RandomizedResponse(epsilon=1.0, num_classes=3))
    held_out.release(RandomizedResponse(epsilon=1.5, num_classes=3))
    assert vault.epsilon(delta=0.0) == training.epsilon(delta=0.0) == 1.5
    training.release(RandomizedResponse(epsilon=2.0, num_classes=3))
    assert vault.epsilon(delta=0.0) == 3.0


def test_ensembles_train_on_a_part_and_their_answers_charge_it_alone() -> None:
    vault, training, held_out = parts()
    shards = training.partition(2, seed=0)
    assert sorted(np.concatenate([shard.indices for shard in shards])) == [0, 1, 2, 3]
    for part, rows in ((training, TRAINING), (held_out, HELD_OUT)):
        for shard in part.partition(2, seed=0):
            assert shard.labels.tolist() == LABELS[rows][shard.indices].tolist()
    with pytest.raises(ValueError, match="teachers is 5, but there are 4 labels"):
        training.partition(5, seed=0)
    training.release_from_votes(Counts(), np.array([[2, 0, 0], [0, 1, 1]]))
    (charge,) = vault.charges()
    assert charge.indices is not None and charge.indices.tolist() == TRAINING.tolist()
    held_out.release(RandomizedResponse(epsilon=0.4, num_classes=3))
    assert vault.epsilon(delta=0.0) == 0.5

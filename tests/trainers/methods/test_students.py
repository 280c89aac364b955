"""Students: what they learn from, what a seed changes, what they refuse."""

from dataclasses import replace

import numpy as np
import pytest

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.pate import start_student
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import ForestSettings, StudentConfig, StudentKind
from labeldp.trainers.settings.training import FixMatchConfig, LearnerConfig
from labeldp.trainers.trainer import Trainer
from tests.trainers.small_data import small_images, small_table

KINDS = list(StudentKind)
CONFIG = StudentConfig(
    forest=ForestSettings(trees=10),
    network=LearnerConfig(width=16, epochs=10, batch_size=16, learning_rate=0.1),
    fixmatch=FixMatchConfig(
        model=ModelName.MLP,
        width=16,
        epochs=2,
        steps_per_epoch=20,
        batch_size=8,
        unlabeled_ratio=2,
        learning_rate=0.1,
        average_decay=0.5,
    ),
)
ANSWERED = 60


def a_student(kind: StudentKind, *, seed: int = 0) -> tuple[Trainer, PublicData]:
    """A student of some answers about a table, all of them right."""
    data, truth = small_table()
    student = start_student(
        replace(CONFIG, kind=kind),
        data=data,
        indices=np.arange(0, 2 * ANSWERED, 2),
        labels=truth[: 2 * ANSWERED : 2],
        seed=seed,
        performance=Performance(device=Device.CPU),
    )
    return student, data


def trained(kind: StudentKind, *, seed: int = 0) -> tuple[Trainer, PublicData]:
    student, data = a_student(kind, seed=seed)
    for _ in range(replace(CONFIG, kind=kind).epochs):
        student.epoch()
    return student, data


@pytest.mark.parametrize("kind", KINDS)
def test_a_student_learns(kind: StudentKind) -> None:
    student, data = trained(kind)
    found = student.predict(data.test_features)
    assert found.shape == (200, 3) and found.dtype == np.float32
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)
    accuracy = (found.argmax(1) == data.test_labels).mean()
    assert student.evaluate() == pytest.approx(accuracy) and accuracy > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_a_student_resumes_to_the_bit(kind: StudentKind) -> None:
    epochs = replace(CONFIG, kind=kind).epochs
    one, data = a_student(kind)
    one.epoch()
    other, _ = a_student(kind)
    other.load_state_dict(one.state_dict())
    for _ in range(epochs - 1):
        one.epoch()
        other.epoch()
    np.testing.assert_array_equal(
        one.predict(data.test_features), other.predict(data.test_features)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_without_answers_there_is_no_student(kind: StudentKind) -> None:
    data, _ = small_table()
    with pytest.raises(ValueError, match=r"no query was answered.*lower the threshold"):
        start_student(
            replace(CONFIG, kind=kind),
            data=data,
            indices=np.array([], dtype=np.intp),
            labels=np.array([], dtype=np.int64),
            seed=0,
            performance=Performance(device=Device.CPU),
        )


@pytest.mark.parametrize("kind", [StudentKind.PROBE, StudentKind.SELF_TRAINED])
def test_probes_of_images_are_refused(kind: StudentKind) -> None:
    data, _ = small_images(examples=50)
    with pytest.raises(ValueError, match=r"holds images.*features=patches"):
        replace(CONFIG, kind=kind).check_data(data)

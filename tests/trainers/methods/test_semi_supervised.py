"""Students of releases: the reading of answers, the labeled part, evidence, refusals."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.trainers.base import FeatureSet, ModelName
from labeldp.trainers.methods.pate import start, start_student
from labeldp.trainers.methods.pate_settings import (
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
)
from labeldp.trainers.methods.semi_supervised import (
    most_probable,
    read_answers,
    smooth_functions,
)
from labeldp.trainers.settings.training import LearnerConfig, SemiSupervisedConfig
from tests.trainers.small_data import ON_CPU, digits, small_images, small_table, student_of
from tests.trainers.test_methods import STUDENT

SMALL: dict[str, Any] = {"model": ModelName.SMALL_CNN, "width": 16, "batch_size": 16}
ON_TABLES = {**SMALL, "model": ModelName.MLP}


def test_answers_are_read_with_as_much_trust_as_they_deserve() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(0, 3, 3000)
    functions = (np.eye(3)[truth] + 0.05 * random.normal(size=(3000, 3))).astype(np.float32)
    examples = random.permutation(3000)[:200]
    answers = truth[examples].copy()
    answers[:60] = random.integers(0, 3, 60)  # a third of these are right by chance
    read = read_answers(functions, examples, answers, num_classes=3)
    assert (read.argmax(1) == truth).mean() > 0.99
    np.testing.assert_allclose(read.sum(1), 1)
    # The probability of the class is about that of a right answer, 0.8.
    assert read.max(1).mean() == pytest.approx(0.8, abs=0.07)
    right = read_answers(functions, examples, truth[examples], num_classes=3)
    assert right.max(1).mean() > 0.95


def test_the_labeled_part_is_what_the_release_is_surest_of_in_each_class() -> None:
    posterior = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.3, 0.7]])
    examples, labels = most_probable(posterior, count=2)
    assert examples.tolist() == [0, 2, 3] and labels.tolist() == [0, 0, 1]


def test_smooth_functions_tell_near_examples_from_far_ones() -> None:
    data, _ = digits(train=600)
    functions = smooth_functions(FeatureSet.AS_THEY_ARE, data)
    assert np.square(functions).sum(1).mean() == pytest.approx(1, rel=1e-4)
    alike = functions @ functions.T
    rows = data.train_features.flatten(1).float()
    pixels = torch.cdist(rows, rows).numpy()
    upper = np.triu_indices(len(pixels), 1)
    assert np.corrcoef(alike[upper], -pixels[upper])[0, 1] > 0.7


def test_forty_labels_do_for_more_with_all_other_examples() -> None:
    data, vault = digits(train=1400)
    found = {}
    how = {**STUDENT, **SMALL, "epochs": 15, "unlabeled_ratio": 4, "average_decay": 0.95}
    few = SemiSupervisedConfig(**how)
    for config in (
        StudentConfig(kind=StudentKind.NETWORK, network=LearnerConfig(**SMALL, epochs=40)),
        StudentConfig(kind=StudentKind.SEMI_SUPERVISED, semi_supervised=few),
    ):
        trainer = start_student(
            config,
            data=data,
            examples=np.arange(40),
            labels=vault.labels[:40],
            functions=smooth_functions(config.features, data),
            seed=0,
            performance=ON_CPU,
        )
        for _ in range(config.epochs):
            trainer.epoch()
        found[config.kind] = trainer.evaluate()
    assert found[StudentKind.SEMI_SUPERVISED] > max(0.93, found[StudentKind.NETWORK] + 0.05)


def test_evidence_outweighs_a_network_that_knows_nothing() -> None:
    data, _ = small_table(examples=200)
    posterior = np.full((200, data.num_classes), 0.01)
    posterior[:, 1] = 1 - 0.01 * (data.num_classes - 1)
    judged = {}
    for power in (0.0, 1.0):
        config = SemiSupervisedConfig(**ON_TABLES, power=power)
        student = student_of(config, data, posterior)
        judged[power] = student._judged(data.train_features, torch.arange(200))
    assert (judged[1.0].argmax(1) == 1).all()
    # Power 0 is FixMatch, but for the shares of the classes.
    assert float(judged[0.0][:, 1].mean()) < float(judged[1.0][:, 1].mean())


@pytest.mark.parametrize("flip", [True, False])
def test_mirror_images_are_judged_alike_where_views_are_mirrored(flip: bool) -> None:
    data, _ = small_images(examples=50)
    even = np.full((50, data.num_classes), 1 / data.num_classes)
    student = student_of(SemiSupervisedConfig(**SMALL, flip=flip), data, even)
    seen, mirrored = (student.predict(x) for x in (data.test_features, data.test_features.flip(3)))
    assert np.allclose(seen, mirrored, atol=1e-6) == flip


def test_data_that_do_not_fit_are_refused() -> None:
    data, _ = small_table(examples=50)
    names = replace(data, train_features=(data.train_features > 0).long())
    kind = StudentKind.SEMI_SUPERVISED
    config = StudentConfig(kind=kind, semi_supervised=SemiSupervisedConfig(**ON_TABLES))
    with pytest.raises(ValueError, match="a semi-supervised student can't use them"):
        config.check_data(names)
    with pytest.raises(ValueError, match=r"student.features is patches, which are features of im"):
        replace(config, features=FeatureSet.PATCHES).check_data(data)
    with pytest.raises(ValueError, match=r"student.kind probe predicts from the trial's"):
        StudentConfig(features=FeatureSet.PATCHES)
    images, _ = digits(train=50)
    cropped = replace(config, semi_supervised=SemiSupervisedConfig(**SMALL, padding=8))
    with pytest.raises(ValueError, match="padding is 8, but images of digits have 8 rows"):
        cropped.check_data(images)


def test_features_that_data_do_not_have_are_refused_before_the_answers_are_paid() -> None:
    small, _ = small_images(examples=100, side=6)
    kind = StudentKind.SEMI_SUPERVISED
    student = StudentConfig(
        kind=kind,
        features=FeatureSet.PATCHES,
        semi_supervised=SemiSupervisedConfig(**SMALL, padding=1),
    )
    config = PateConfig(ensemble=EnsembleConfig(teachers=5, queries=20), answers=9, student=student)
    vault: Any = None  # nobody asks it
    with pytest.raises(ValueError, match="at least 8 x 8"):
        start(config, data=small, labels=vault, seed=0, performance=ON_CPU)

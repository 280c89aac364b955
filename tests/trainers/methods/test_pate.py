"""PATE-FM: its questions, its plan, and what its students refuse."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.pate.accounting import CheckNoise
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.releases import PublishedCost
from labeldp.mechanisms.vault import LabelVault, Shard
from labeldp.trainers.base import FeatureSet, ModelName
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.pate import (
    TeacherVotes,
    fit_forest,
    nearest,
    start_student,
    train_probes,
)
from labeldp.trainers.methods.pate_settings import (
    AggregatorKind,
    EnsembleConfig,
    ForestSettings,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.models.features import described_by_features
from labeldp.trainers.settings.trainer import EstimatorPredictor
from labeldp.trainers.settings.training import FixMatchConfig, LearnerConfig
from tests.trainers.small_data import (
    FEW_LABELS,
    ON_CPU,
    Given,
    SeededVault,
    digits,
    small_images,
    small_table,
    trained,
)

CONFIG = PateConfig(
    ensemble=EnsembleConfig(teachers=40, queries=100, seed=2),
    threshold=25.0,
    sigma1=10.0,
    sigma2=5.0,
    answers=60,
    student=StudentConfig(
        kind=StudentKind.NETWORK,
        network=LearnerConfig(width=16, epochs=5, batch_size=16, learning_rate=0.1),
    ),
)
INTERACTIVE = replace(CONFIG, aggregator=AggregatorKind.INTERACTIVE, threshold=10.0)


def given() -> Given:
    data, labels = small_table()
    return data, SeededVault(labels, 3)


def test_an_interactive_run_requests_twice_with_a_student_in_between() -> None:
    data, vault = given()
    trainer = trained(INTERACTIVE, (data, vault))
    (first, nothing, _), (both, scores, publish) = vault.asked
    assert first == INTERACTIVE.rounds[:1] and nothing is None
    assert both == INTERACTIVE.rounds and scores is not None and scores.shape == (50, 3)
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)
    assert not publish  # no bound is proven for two rounds
    assert [r.queries for r in both] == [50, 50] and [r.max_answers for r in both] == [30, 30]
    # The student's own sure labels come on top of what teachers answered.
    assert trainer.evaluate() > 0.7 and trainer.figures()["answered"] > 30


@pytest.mark.parametrize("kind", [StudentKind.FOREST, StudentKind.NETWORK])
def test_students_count_when_they_are_trained(kind: StudentKind) -> None:
    config = replace(CONFIG, student=replace(CONFIG.student, kind=kind))
    each = config.student.epochs
    for epochs in (1, 2 * each - 1, 2 * each, config.epochs):  # a sweep may stop a trial anywhere
        stopped = trained(config, given(), epochs=epochs)
        resumed = trained(config, given(), epochs=0)
        resumed.load_state_dict(stopped.state_dict())
        accuracies = [one.evaluate() for one in stopped.students[: max(1, epochs // each)]]
        for pate in (stopped, resumed):
            assert pate.evaluate() == pytest.approx(np.mean(accuracies))
            assert len(pate.predictor().parts) == len(accuracies)
            spread = np.std(accuracies, ddof=1) if len(accuracies) > 1 else 0.0
            assert pate.figures()["student_accuracy_std"] == pytest.approx(spread)
    assert len(accuracies) == config.students == 3


@pytest.mark.parametrize("publish", [True, False])
def test_a_vault_charges_the_planned_price(publish: bool) -> None:
    config = replace(CONFIG, publish_cost=publish)
    (request,) = config.rounds
    planned = config.planned_charge(num_classes=3, seed=5)
    events = [request.event]
    if publish:
        cost = PublishedCost.of(request, teachers=40, classes=3, delta=config.delta)
        assert cost is not None
        events.append(cost.event)
        assert planned.failure_probability == cost.tail
    assert planned.releases == len(events)
    assert epsilon_of([planned.event], delta=1e-5) == pytest.approx(epsilon_of(events, delta=1e-5))
    # Students and seeds of training read the same release; other noise does not.
    same = replace(config, students=1).planned_charge(num_classes=3, seed=9)
    assert same.release == planned.release
    other = replace(config, sigma2=6.0).planned_charge(num_classes=3, seed=5)
    assert other.release != planned.release


def test_noise_on_every_count_before_the_check_is_priced_as_two_checks() -> None:
    one = replace(CONFIG, publish_cost=False)
    per_class = replace(one, check_noise=CheckNoise.PER_CLASS)
    (request,) = per_class.rounds
    assert request.aggregator == ConfidentGNMax(
        threshold=25.0, sigma1=10.0, sigma2=5.0, check_noise=CheckNoise.PER_CLASS
    )
    # A vote moves two counts, which is a check of noise smaller by the root of two.
    as_two = replace(one, sigma1=10.0 / 2**0.5)
    assert one.price < per_class.price == pytest.approx(as_two.price, rel=1e-3)
    # No bound on its real cost is proven, and none is planned.
    charge = replace(per_class, publish_cost=True).planned_charge(num_classes=3, seed=0)
    assert charge.releases == 1
    noise = [
        replace(each, sigma1=None, sigma2=60.0, epsilon=2.0).calibrated().sigma1 or 0.0
        for each in (one, per_class)
    ]
    assert noise[1] == pytest.approx(2**0.5 * noise[0], rel=0.01) and noise[0] > 0


def test_students_without_answers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no query was answered.*lower the threshold"):
        trained(replace(CONFIG, threshold=49.0, sigma1=3.0), given())


def test_no_text_shows_the_labels_of_a_teacher() -> None:
    labels = np.arange(5) % 3
    teacher = start_student(
        StudentConfig(kind=StudentKind.FOREST),
        data=given()[0],
        examples=np.arange(5),
        labels=labels,
        seed=0,
        performance=ON_CPU,
    )
    assert str(labels.tolist())[1:-1] not in repr(teacher)


# closed_forms: probes against one regression at a time, forests against scikit-learn.


def test_each_teacher_is_a_ridge_regression_on_its_shard() -> None:
    # Shards below and above the number of features take different ways to the same solution.
    sizes = [4, 40, 6, 4, 7]
    random = np.random.default_rng(0)
    features = random.normal(size=(61, 6)).astype(np.float32)
    shards = np.split(random.permutation(61), np.cumsum(sizes)[:-1])
    labels = [random.integers(0, 3, size) for size in sizes]
    probes = train_probes(torch.from_numpy(features), shards, labels, 3, ridge=0.3)
    assert probes.shape == (5, 7, 3)
    for teacher, (shard, classes) in enumerate(zip(shards, labels, strict=True)):
        x = np.c_[features[shard], np.ones(len(shard))]
        y = np.eye(3)[classes] - 1 / 3
        slow = Ridge(alpha=0.3, fit_intercept=False).fit(x.astype(float), y).coef_.T
        np.testing.assert_allclose(probes[teacher], slow, atol=2e-6)


def test_a_forest_has_the_bits_of_scikit_learns_and_zeros_for_classes_it_never_saw() -> None:
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.normal(size=(500, 6)).round(1).astype(np.float32))
    labels = (features[:, 0] + features[:, 1] > 0).long().numpy() + 2 * (random.random(500) < 0.2)
    fit_forest(features, labels, settings=ForestSettings(trees=2), seed=2**32)  # 3 students
    forest = fit_forest(features, labels, settings=ForestSettings(trees=11), seed=0)
    ours = EstimatorPredictor(estimator=forest, num_classes=5)
    expected = np.zeros((len(features), 5), dtype=np.float32)
    expected[:, forest.classes_] = forest.predict_proba(features.numpy())
    assert not expected[:, 4].any()
    for model in (ours, EstimatorPredictor.restored(ours.described(), ours.arrays())):
        np.testing.assert_array_equal(model.predict(features), expected)
        assert model.predict(features[:0]).shape == (0, 5)


# Teachers: votes depend on their own shard and seed alone, whatever they are trained with.

NETWORK = LearnerConfig(width=16, epochs=20, batch_size=16, learning_rate=0.1)
TEACHERS_CONFIG = EnsembleConfig(
    teachers=6,
    queries=50,
    forest=ForestSettings(trees=5),
    network=NETWORK,
    fixmatch=FixMatchConfig(**{**FEW_LABELS, "epochs": 1}),
)
#: Kinds with a shard for each teacher. Neighbors vote without shards and have their own tests.
KINDS = [kind for kind in TeacherKind if kind is not TeacherKind.NEIGHBORS]


def cut(labels: NDArray[np.int64]) -> tuple[Shard, ...]:
    return LabelVault(labels=labels, num_classes=3).partition(6, seed=3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_label_changes_no_other_teachers_vote(kind: TeacherKind) -> None:
    data, labels = small_table(examples=300)
    vote = TeacherVotes(config=replace(TEACHERS_CONFIG, kind=kind))
    torch.manual_seed(1)
    first = vote(range(6), cut(labels), data)
    assert first.dtype == np.uint8 and first.shape == (6, 50) and first.max() < 3
    assert (first == labels[TEACHERS_CONFIG.query_positions(300)]).mean() > 0.7
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


@pytest.mark.parametrize("kind", [TeacherKind.PROBE, TeacherKind.FOREST])
def test_teachers_have_features_of_their_own(kind: TeacherKind) -> None:
    data, vault = digits(train=300)
    shards = LabelVault(labels=vault.labels, num_classes=10).partition(6, seed=3)
    config = replace(TEACHERS_CONFIG, kind=kind)
    own = TeacherVotes(config=replace(config, features=FeatureSet.PATCHES))(range(6), shards, data)
    described = TeacherVotes(config=config)(range(6), shards, described_by_features(data))
    np.testing.assert_array_equal(own, described)
    # Votes of earlier versions are found by facts that do not name the setting.
    assert "features" not in config.facts()


def test_teachers_from_other_weights_have_other_votes(tmp_path: Path) -> None:
    assert "encoder" not in EnsembleConfig().facts()["fixmatch"]
    files = []
    for name, weights in (("a.pt", b"1"), ("b.pt", b"1"), ("c.pt", b"2")):
        files.append(tmp_path / name)
        files[-1].write_bytes(weights)
    for kind in ("network", "fixmatch"):
        settings = {"network": LearnerConfig, "fixmatch": FixMatchConfig}[kind]
        first, same, other = (
            EnsembleConfig(**{kind: settings(encoder=str(file))}).facts() for file in files
        )
        assert first == same != other


@pytest.mark.parametrize("kind", KINDS)
def test_data_that_do_not_fit_are_refused(kind: TeacherKind) -> None:
    data, _ = small_table(examples=300)
    with pytest.raises(ValueError, match=r"ensemble\.teachers is 301, but there are 300 labels"):
        replace(TEACHERS_CONFIG, kind=kind, teachers=301).check_data(data)
    with pytest.raises(ValueError, match=r"ensemble\.queries is 301, but there are 300 training"):
        replace(TEACHERS_CONFIG, kind=kind, queries=301).check_data(data)
    with pytest.raises(ValueError, match="257 classes, but a vote is kept in one byte"):
        replace(TEACHERS_CONFIG, kind=kind).check_data(replace(data, num_classes=257))


def test_teachers_that_need_images_or_numbers_do_not_get_vectors_or_names() -> None:
    images, _ = digits(train=60)
    network = replace(NETWORK, model=ModelName.SMALL_CNN)
    config = replace(TEACHERS_CONFIG, kind=TeacherKind.NETWORK, queries=20, network=network)
    config.check_data(images)
    with pytest.raises(ValueError, match=r"ensemble\.features is patches, which are vectors, but"):
        replace(config, features=FeatureSet.PATCHES).check_data(images)
    table, _ = small_table(examples=60)
    names = replace(table, train_features=(table.train_features > 0).long())
    for kind in (TeacherKind.SMOOTH, TeacherKind.NEIGHBORS):
        with pytest.raises(ValueError, match="the distance between examples can't use them"):
            replace(TEACHERS_CONFIG, kind=kind).check_data(names)


# Nearest labels as teachers: who votes is public, and one label moves one vote of its queries.

NEIGHBORS_CONFIG = EnsembleConfig(
    kind=TeacherKind.NEIGHBORS, teachers=9, queries=50, queries_per_label=3
)


def votes_of(
    config: EnsembleConfig, data: PublicData, labels: NDArray[np.int64]
) -> NDArray[np.uint8]:
    shards = LabelVault(labels=labels, num_classes=3).partition(config.teachers, seed=config.seed)
    return TeacherVotes(config=config)(range(config.teachers), shards, data)


@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("small", [small_table, small_images])
def test_a_label_moves_one_vote_of_each_query_that_it_is_near_and_of_no_more_than_the_limit(
    small: type, most: int | None
) -> None:
    data, labels = small(examples=300)
    config = replace(NEIGHBORS_CONFIG, queries_per_label=most)
    first, moved = votes_of(config, data, labels), []
    assert first.shape == (9, 50) and first.dtype == np.uint8
    assert (first == labels[config.query_positions(300)]).mean() > 0.6
    for label in range(300):
        changed = labels.copy()
        changed[label] = (changed[label] + 1) % 3
        differs = votes_of(config, data, changed) != first
        assert differs.sum(axis=0).max() <= 1, "two votes of one query"
        moved.append(differs.any(axis=0).sum())
    # Each vote is one label's, so the limit is reached only if the votes are spread.
    assert sum(moved) == 9 * 50
    assert max(moved) == most if most else max(moved) > 3


@pytest.mark.parametrize("most", [50, 2])
def test_the_nearest_are_those_of_a_plain_search(most: int) -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(260, 3, 2)).astype(np.float32)
    queries = random.permutation(260)[:50]
    found = nearest(torch.from_numpy(features), queries, count=10, most=most)
    used = np.zeros(260, dtype=int)
    for query, rows in zip(queries, found, strict=True):
        distances = np.linalg.norm((features - features[query]).reshape(260, -1), axis=1)
        distances[used >= most] = np.inf
        assert rows.tolist() == np.argsort(distances, kind="stable")[:10].tolist()
        used[rows] += 1
    assert used.max() <= most


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"teachers": 300}, r"ensemble\.teachers is 300, but there are 300 labels.*fewer neighb"),
        ({"queries_per_label": 1}, r"queries_per_label is 1, but 50 queries with 9 n.* need 2;"),
        ({"teachers": 100, "queries_per_label": 24}, r"neighbors each among 300 labels need 25;"),
    ],
)
def test_neighbors_that_do_not_suffice_are_refused(changes: dict[str, Any], words: str) -> None:
    data, labels = small_table(examples=300)
    with pytest.raises(ValueError, match=words):
        votes_of(replace(NEIGHBORS_CONFIG, **changes), data, labels)


def test_the_least_limit_suffices_and_is_of_neighbors_alone() -> None:
    data, labels = small_table(examples=300)
    votes_of(replace(NEIGHBORS_CONFIG, teachers=100, queries_per_label=25), data, labels)
    with pytest.raises(ValueError, match=r"queries_per_label is 3, but each of probe teachers"):
        replace(NEIGHBORS_CONFIG, kind=TeacherKind.PROBE)

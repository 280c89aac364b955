"""Priors: price, sources, refusals, kernel moments; computed once, and the same to the bit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.amounts import LEVELS
from labeldp.mechanisms.label_moments import ROUNDING, LabelMoments
from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.preprocessing import NOTHING
from labeldp.trainers.methods import priors
from labeldp.trainers.methods.priors import (
    Directions,
    MomentQuery,
    clusters_of,
    kernel_directions,
    learned_prior,
    moment_query,
    prior_features,
    probabilities_from,
)
from labeldp.trainers.methods.settings import (
    AmountRelease,
    AmountsConfig,
    PriorSettings,
    PriorSource,
    TableStackConfig,
)
from labeldp.trainers.methods.smooth_sums import labels_of_sums
from labeldp.trainers.models.features import (
    PatchFeatures,
    RandomPatchFeatures,
    described_by_features,
)
from labeldp.trainers.models.smooth_functions import SmoothFunctions
from labeldp.trainers.performance import Performance
from tests.trainers.small_data import Given, SeededVault, digits, small_table

CLUSTERS = PriorSettings(source=PriorSource.CLUSTERS, clusters=40)
MOMENTS = PriorSettings(source=PriorSource.MOMENTS, landmarks=300)
SUMS = PriorSettings(source=PriorSource.SMOOTH_SUMS)
ON_PATCHES = [replace(settings, features=FeatureSet.PATCHES) for settings in (CLUSTERS, MOMENTS)]


def learned(settings: PriorSettings, given: Given, epsilon: float = 1.0) -> NDArray[np.float64]:
    data, vault = given
    return learned_prior(settings, data, vault, epsilon=epsilon, delta=1e-5)


def test_a_uniform_prior_requests_nothing() -> None:
    given = digits()
    np.testing.assert_allclose(learned(PriorSettings(), given), 0.1)
    assert not given[1].charges()
    assert PriorSettings().planned_charge(epsilon=0.0, delta=1e-5, num_classes=10) is None


def test_data_that_do_not_fit_are_refused_before_any_release() -> None:
    with pytest.raises(ValueError, match="a prior from uniform is learned of no features"):
        PriorSettings(features=FeatureSet.PATCHES)
    with pytest.raises(ValueError, match="clusters is 1439, but there are 1438 examples"):
        replace(CLUSTERS, clusters=1439).check_size(1438)
    replace(CLUSTERS, clusters=1438).check_size(1438)
    PriorSettings(clusters=1439).check_size(1438)  # which a uniform prior does not look at
    data, labels = small_table()
    given, settings = (data, SeededVault(labels, 3)), ON_PATCHES[1]
    with pytest.raises(ValueError, match=r"is tabular here; set data\.features=as_they_are"):
        learned(settings, given)
    assert not given[1].charges()
    images, _ = digits(train=200)
    small = replace(
        images,
        train_features=images.train_features[..., :5],
        test_features=images.test_features[..., :5],
        preprocessing=NOTHING,
    )
    with pytest.raises(ValueError, match="8 x 5 pixels"):
        prior_features(replace(settings, features=FeatureSet.RANDOM_PATCHES), small)


SMALL: dict[FeatureSet, PatchFeatures | RandomPatchFeatures] = {
    FeatureSet.PATCHES: PatchFeatures(patch=3, centers=20, dimensions=30, sampled_patches=2000),
    FeatureSet.RANDOM_PATCHES: RandomPatchFeatures(
        patch=3, filters=32, dimensions=30, sampled_patches=2000
    ),
}


@pytest.mark.parametrize("settings", ON_PATCHES)
def test_a_prior_on_other_features_is_that_of_data_described_so(
    settings: PriorSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same query, to the bit; other features are another release, and planned as one."""
    monkeypatch.setattr(priors, "image_features", SMALL.__getitem__)
    data, vault = digits(train=400)
    images = replace(data, features_folder=tmp_path)
    prior = learned(settings, (images, vault))
    described = described_by_features(images, SMALL[settings.features], folder=tmp_path)
    plain = replace(settings, features=FeatureSet.AS_THEY_ARE)
    assert np.array_equal(learned(plain, (described, vault)), prior)
    assert len(vault.charges()) == 1
    assert vault.epsilon(delta=1e-5) == pytest.approx(1.0, rel=1e-9)
    kinds = (settings, plain, replace(settings, features=FeatureSet.RANDOM_PATCHES))
    for each in kinds[1:]:
        learned(each, (images, vault))
    plans = [each.planned_charge(epsilon=1.0, delta=1e-5, num_classes=10) for each in kinds]
    assert len(vault.charges()) == 3 == len({plan.release for plan in plans if plan})
    assert [plan.event for plan in plans if plan] == [each.event for each in vault.charges()]


@pytest.mark.parametrize(
    ("settings", "name"), [(CLUSTERS, "clusters_of"), (MOMENTS, "kernel_directions")]
)
def test_workers_share_computed_features_and_one_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: PriorSettings, name: str
) -> None:
    alone, vault = digits(train=300)
    calls, computed, fitted = list[int](), getattr(priors, name), PatchFeatures.fit

    def counted(*args: Any, **settings: Any) -> Any:
        calls.append(torch.get_num_threads())
        return computed(*args, **settings)

    def fit(settings: PatchFeatures, images: torch.Tensor) -> Any:
        assert torch.get_num_threads() == 1, "other last digits would be another release"
        calls.append(0)
        return fitted(settings, images)

    monkeypatch.setattr(priors, name, counted)
    monkeypatch.setattr(PatchFeatures, "fit", fit)
    monkeypatch.setattr(priors, "image_features", SMALL.__getitem__)
    settings = replace(settings, clusters=20, landmarks=60)
    shared, found = replace(alone, features_folder=tmp_path), []
    for data in (alone, shared, shared, replace(shared)):
        found.append(learned(settings, (data, vault)))
    assert len(calls) == 2, "once alone, once for all workers"
    assert len(vault.charges()) == 1, "one release, by its query's bits"
    assert all(np.array_equal(found[0], each) for each in found)
    for _ in range(2):
        learned(replace(settings, features=FeatureSet.PATCHES), (shared, vault))
    assert len(calls) == 4, "features and what is found of them, once for all workers"
    assert len(vault.charges()) == 2
    learned(replace(settings, seed=1), (shared, vault))
    assert len(calls) == 5


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 0.90), (1.0, 0.94)])
def test_counts_are_read_together_at_the_price_of_one_release(epsilon: float, least: float) -> None:
    """More true labels than each cluster's own counts tell, of the same release, at delta 0."""
    data, vault = digits()
    settings, examples = replace(CLUSTERS, clusters=None), len(data.train_features)
    prior = learned(settings, (data, vault), epsilon)
    mechanism = ClusterHistograms(epsilon=epsilon, num_classes=10)
    clusters = settings.number_of_clusters(mechanism, examples=examples)
    groups = clusters_of(data.train_features, clusters=clusters, seed=settings.seed)
    counts = vault.release(mechanism, groups).values  # stored: it is not charged again
    assert vault.epsilon(delta=0.0) == epsilon and len(vault.charges()) == 1
    labels = load("digits").train_labels[:examples]
    own = (prior.argmax(1) == labels).mean()
    largest = (counts[groups].argmax(1) == labels).mean()
    assert own > max(least, largest + 0.01)


def test_clusters_are_so_many_that_noise_does_not_drown_their_counts() -> None:
    def number(epsilon: float, examples: int) -> int:
        mechanism = ClusterHistograms(epsilon=epsilon, num_classes=10)
        return replace(CLUSTERS, clusters=None).number_of_clusters(mechanism, examples=examples)

    # Noise has a standard deviation of about sqrt(8) / epsilon = 28.3, .15 of 189 examples.
    assert number(0.1, 60_000) == 318
    assert number(10.0, 300) == 30 and number(10.0, 60_000) == 1600 and number(0.01, 100) == 10
    assert number(0.01, 1438) == 16
    assert (
        CLUSTERS.number_of_clusters(ClusterHistograms(epsilon=1, num_classes=2), examples=60) == 40
    )


def test_smooth_sums_of_a_table_are_one_release_that_workers_share(tmp_path: Path) -> None:
    data, labels = small_table()
    vault = SeededVault(labels, 3)
    shared = replace(data, features_folder=tmp_path)
    found = [learned(SUMS, (each, vault), epsilon=4.0) for each in (data, shared, replace(shared))]
    assert all(np.array_equal(found[0], each) for each in found)
    assert np.mean(found[0].argmax(1) == labels) > 0.9
    assert found[0].min() >= SUMS.smoothing / 3
    planned = SUMS.planned_charge(epsilon=4.0, delta=1e-5, num_classes=3)
    assert planned is not None
    assert [planned.event] == [each.event for each in vault.charges()]
    assert vault.epsilon(delta=1e-5) == pytest.approx(4.0, rel=1e-9)
    # Read at the rows of a sample, it is fitted to these alone.
    mechanism = SUMS.mechanism(epsilon=4.0, delta=1e-5, num_classes=3)
    assert isinstance(mechanism, LabelMoments)
    some = np.arange(0, 400, 2)
    rows = prior_features(SUMS, shared)
    numbers = rows.features.numpy()
    soft = labels_of_sums(numbers, vault, mechanism=mechanism, seed=SUMS.seed, places=some)
    assert soft.shape == (200, 3) and len(vault.charges()) == 1
    assert np.abs(soft - found[0][some]).mean() < 0.05


@pytest.mark.parametrize(
    "config",
    [TableStackConfig(epsilon=0.9), AmountsConfig(release=AmountRelease.SUMS)],
)
def test_trials_on_other_processors_share_a_release(
    config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the groups of a table's rows, and of functions of them."""
    data, labels = small_table()
    if isinstance(config, AmountsConfig):
        data = replace(data, num_classes=LEVELS, bounds=(0.0, 1.0))
    vault = SeededVault(labels, data.num_classes)
    given: Any = {"labels": vault, "seed": 0, "performance": Performance()}
    config.start(data=replace(data, features_folder=tmp_path), **given)
    # Its last digits differ; here all of the functions do.
    there = SmoothFunctions.learned(data.train_features.numpy(), count=60, seed=1)
    monkeypatch.setattr(SmoothFunctions, "learned", lambda *_, **how: there)
    config.start(data=replace(data, features_folder=tmp_path), **given)
    assert len(vault.charges()) == 1
    config.start(data=data, **given)
    assert len(vault.charges()) == 2


def directions_of_digits() -> tuple[Directions, NDArray[np.int64]]:
    data, vault = digits()
    features = data.train_features.float() / 255
    return kernel_directions(features, landmarks=300, seed=0), vault.labels


def test_directions_are_those_of_the_kernel() -> None:
    """With all examples as landmarks Nystroem's method is exact: the kernel's own eigenvectors."""
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32))
    directions = kernel_directions(rows, landmarks=60, seed=0)
    squares = torch.cdist(rows, rows).square().double()
    kernel = torch.exp(-squares / (1.5 * squares.median())).numpy()
    values, vectors = np.linalg.eigh(kernel)
    np.testing.assert_allclose(directions.strengths[:10], values[::-1][:10], rtol=1e-3)
    overlap = np.abs((directions.values[:, :5] * vectors[:, ::-1][:, :5]).sum(0))
    np.testing.assert_allclose(overlap, 1, atol=1e-3)


@pytest.mark.parametrize("distinct", [20, 300])
def test_directions_exist_where_most_distances_are_zero(distinct: int) -> None:
    """Between two landmarks half of them are; among rows that are mostly equal, most are."""
    rows = torch.zeros(300, 4)
    rows[:distinct] = torch.randn(distinct, 4, generator=torch.Generator().manual_seed(0))
    directions = kernel_directions(rows, landmarks=2 if distinct == 300 else 50, seed=0)
    query = moment_query(directions, noise_std=1.0)
    assert np.abs(directions.values).max(1).all() and np.isfinite(query.weights).all()


def test_one_seed_finds_the_same_directions_whatever_the_threads() -> None:
    """Else a trial that is resumed with more cores would draw, and pay, once more."""
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 1, 2, 3):
            torch.set_num_threads(count)
            found.append(directions_of_digits()[0])
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert np.array_equal(found[0].values, other.values)
        assert np.array_equal(found[0].strengths, other.strengths)


def divided_by_length(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    divided: NDArray[np.float32] = rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return divided


def test_rows_that_are_too_long_by_rounding_are_shortened_and_others_keep_their_bits() -> None:
    """A later stage would be refused when earlier ones are paid for."""
    count = 3000
    candidates = np.arange(0.005, 0.05, 0.0003, dtype=np.float32)
    rows = np.repeat(candidates[:, None], count, axis=1)
    single = np.linalg.norm(divided_by_length(rows).astype(np.float64), axis=1)
    entry = candidates[single.argmax()]
    assert single.max() > 1 + ROUNDING
    values = np.full((50, count), entry)
    values[0, 1:] = 0  # a short row
    directions = Directions(values=values, strengths=np.linspace(2, 1, count))
    query = moment_query(directions, noise_std=1e-6)
    assert query.weights.shape == values.shape and query.weights.dtype == np.float32
    assert np.linalg.norm(query.weights.astype(np.float64), axis=1).max() <= 1 + 2.0**-23
    assert query.weights[0, 0] == entry / np.float32(query.scale)
    np.testing.assert_allclose(query.weights[1:], divided_by_length(values[1:]), rtol=1e-5)
    LabelMoments(noise_std=1.0, num_classes=2).release(
        np.zeros(50, dtype=np.int64), query.weights, generator=np.random.default_rng(0)
    )


def asked(
    directions: Directions, labels: NDArray[np.int64], noise_std: float, seed: int
) -> tuple[MomentQuery, NDArray[Any]]:
    query = moment_query(directions, noise_std=noise_std)
    mechanism = LabelMoments(noise_std=noise_std, num_classes=int(labels.max()) + 1)
    generator = np.random.default_rng(seed)
    return query, mechanism.release(labels, query.weights, generator=generator)


def test_without_noise_it_is_kernel_regression_and_noise_stays_within_what_is_tolerated() -> None:
    directions, labels = directions_of_digits()

    def scores(noise_std: float, seed: int) -> NDArray[np.float32]:
        query, moments = asked(directions, labels, noise_std, seed)
        return query.scores(moments, noise_std=noise_std)

    # The least-squares fit to centered labels, but for the rows that were shortened.
    exact = scores(1e-6, 0)
    assert (exact.argmax(1) == labels).mean() > 0.99
    np.testing.assert_allclose(exact.sum(1), 1, atol=0.15)
    assert 0.01 < np.std([scores(3.0, seed) for seed in range(20)], axis=0).mean() < 0.1


def answered(
    directions: Directions,
    labels: NDArray[np.int64],
    noise_std: float,
    seed: int,
    before: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return probabilities of the classes, and the regression that they are made of."""
    query, moments = asked(directions, labels, noise_std, seed)
    found = probabilities_from(
        moments, query, directions, noise_std=noise_std, seed=0, before=before
    )
    np.testing.assert_allclose(found.sum(1), 1)
    return found, query.scores(moments, noise_std=noise_std)


def test_labels_that_features_determine_are_as_probable_as_they_are_right() -> None:
    directions, labels = directions_of_digits()
    for noise_std, gain in ((1.0, 0.001), (10.0, 0.02)):
        several = [answered(directions, labels, noise_std, seed) for seed in range(5)]
        right = [np.mean(found.argmax(1) == labels) for found, _ in several]
        alone = [np.mean(scores.argmax(1) == labels) for _, scores in several]
        assert np.mean(right) > np.mean(alone) + gain
        assert abs(np.mean([found.max(1).mean() for found, _ in several]) - np.mean(right)) < 0.1
        assert np.mean([scores.max(1).mean() for _, scores in several]) < np.mean(right) - 0.08


def test_an_earlier_answer_counts_beside_a_later_one() -> None:
    directions, labels = directions_of_digits()
    alone, both = list[float](), list[float]()
    for seed in range(5):
        first, _ = answered(directions, labels, 20.0, seed)
        for before, right in ((None, alone), (first, both)):
            second, _ = answered(directions, labels, 20.0, 100 + seed, before)
            right.append(float(np.mean(second.argmax(1) == labels)))
    assert np.mean(both) > np.mean(alone) + 0.01


def test_random_labels_keep_their_probabilities() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(4000, 4)).astype(np.float32)
    rates = 1 / (1 + np.exp(1 - features[:, 0]))
    labels = (generator.random(4000) < rates).astype(np.int64)
    directions = kernel_directions(torch.from_numpy(features), landmarks=300, seed=0)
    known = np.column_stack((1 - rates, rates))
    alone, both = list[float](), list[float]()
    for seed in range(5):
        found, _ = answered(directions, labels, 3.0, seed)
        assert np.abs(found[:, 1] - rates).mean() < 0.08
        assert abs(found[:, 1].mean() - labels.mean()) < 0.03
        for before, errors in ((None, alone), (known, both)):
            found, _ = answered(directions, labels, 300.0, seed, before)
            errors.append(np.abs(found - known).mean())
    # What is known before is not forgotten beside an answer of little but noise.
    assert np.mean(both) < 0.7 * np.mean(alone)

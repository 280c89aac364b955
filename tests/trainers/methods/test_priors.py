"""Priors: price, knowledge, sources and refusals; groups and directions are computed once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.vault import LabelVault, MemoryStore
from labeldp.trainers.data.labelled_data import PublicData, load
from labeldp.trainers.data.preprocessing import NOTHING
from labeldp.trainers.methods import priors
from labeldp.trainers.methods.priors import (
    learned_prior,
    prior_features,
)
from labeldp.trainers.models.features import PatchFeatures, described_by_features
from labeldp.trainers.settings.base import FeatureSet
from labeldp.trainers.settings.methods import PriorSettings, PriorSource
from tests.trainers.tiny_data import digits, table

LEARNED = [
    PriorSettings(source=PriorSource.CLUSTERS, clusters=40),
    PriorSettings(source=PriorSource.MOMENTS, landmarks=300),
]


def vault_of_digits() -> LabelVault:
    return LabelVault(labels=load("digits").train_labels, num_classes=10)


def learned(settings: PriorSettings, *, epsilon: float = 1.0) -> NDArray[np.float64]:
    data, labels = digits()
    return learned_prior(settings, data, labels, epsilon=epsilon, delta=1e-5)


def test_uniform_asks_nothing() -> None:
    vault, (data, _) = vault_of_digits(), digits()
    prior = learned_prior(PriorSettings(), data, vault, epsilon=0.0, delta=1e-5)
    np.testing.assert_allclose(prior, 0.1)
    assert not vault.charges()
    assert PriorSettings().planned_charge(epsilon=0.0, delta=1e-5, num_classes=10) is None


def file_prior(path: Path) -> PriorSettings:
    return PriorSettings(source=PriorSource.FILE, path=str(path), smoothing=1e-6)


def test_a_prior_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "prior.npy"
    mine = np.random.default_rng(0).dirichlet(np.ones(10), 1438)
    np.save(path, mine.astype(np.float32))
    np.testing.assert_allclose(learned(file_prior(path)), mine, atol=1e-5)


def broken(row: int, values: list[float]) -> NDArray[np.float64]:
    prior = np.full((1438, 10), 0.1)
    prior[row, : len(values)] = values
    return prior


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (broken(7, [float("nan")]), "row 7"),
        (broken(3, [-0.1, 0.3]), "row 3"),
        (broken(3, [-1e-5, 0.20001]), "row 3"),
        (broken(5, [0.0] * 10), "row 5 .* sum 0"),
        (broken(0, [0.9]), "row 0"),
        (np.full((1437, 10), 0.1), "1437 rows, but there are 1438"),
        (np.full((1438, 9), 1 / 9), r"must be \[N, 10\]"),
        (np.array(["a"]), "no array of numbers"),
    ],
)
def test_a_bad_prior_of_the_users_own(tmp_path: Path, prior: NDArray[Any], message: str) -> None:
    path = tmp_path / "prior.npy"
    np.save(path, prior)
    with pytest.raises(ValueError, match=message):
        learned(file_prior(path))


def test_what_cannot_be_made_of_these_data_is_refused_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    size = {"examples": 1438, "num_classes": 10}
    with pytest.raises(ValueError, match="clusters is 1439, but there are 1438 examples"):
        PriorSettings(source=PriorSource.CLUSTERS, clusters=1439).check_size(**size)
    with pytest.raises(ValueError, match=r"nowhere\.npy cannot be read"):
        file_prior(tmp_path / "nowhere.npy").check_size(**size)
    PriorSettings(source=PriorSource.CLUSTERS, clusters=1438).check_size(**size)
    PriorSettings(clusters=1439).check_size(**size)  # which a uniform prior does not look at


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": PriorSource.FILE}, "FILE needs a path"),
        ({"path": "prior.npy"}, "no other source takes one"),
        ({"features": "patchwork"}, "features is 'patchwork'; it must be one of as_they_are"),
        ({"features": FeatureSet.PATCHES}, "a prior from uniform is learned of no features"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PriorSettings(**changes)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> PublicData:
    data, _ = digits()
    return replace(data, features_folder=tmp_path_factory.mktemp("features"))


ON_PATCHES = [replace(settings, features=FeatureSet.PATCHES) for settings in LEARNED]


@pytest.mark.parametrize("settings", ON_PATCHES)
def test_a_prior_on_other_features_is_that_of_data_described_so(
    settings: PriorSettings, images: PublicData
) -> None:
    """The same query, to the bit: where both are asked for there is one release."""
    vault = vault_of_digits()
    prior_features(settings, images)
    prior = learned_prior(settings, images, vault, epsilon=2.0, delta=1e-5)
    described = described_by_features(images, folder=images.features_folder)
    plain = replace(settings, features=FeatureSet.AS_THEY_ARE)
    assert np.array_equal(learned_prior(plain, described, vault, epsilon=2.0, delta=1e-5), prior)
    assert len(vault.charges()) == 1
    assert vault.epsilon(delta=1e-5) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("settings", ON_PATCHES)
def test_other_features_are_another_release_and_planned_as_one(
    settings: PriorSettings, images: PublicData
) -> None:
    vault, plans = vault_of_digits(), []
    plain = replace(settings, features=FeatureSet.AS_THEY_ARE)
    for each in (plain, settings, replace(settings, features=FeatureSet.RANDOM_PATCHES)):
        learned_prior(each, images, vault, epsilon=1.0, delta=1e-5)
        plans.append(each.planned_charge(epsilon=1.0, delta=1e-5, num_classes=10))
    assert len(vault.charges()) == 3
    assert len({plan.release for plan in plans if plan}) == 3
    assert [plan.event for plan in plans if plan] == [each.event for each in vault.charges()]


def test_features_are_computed_once_and_read_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, found, threads = load("digits", limit=200), [], torch.get_num_threads()
    public = replace(data.public, features_folder=tmp_path)
    settings = replace(ON_PATCHES[1], landmarks=20)
    encoded = PatchFeatures.fit

    def counted(settings: PatchFeatures, images: torch.Tensor) -> Any:
        found.append(torch.get_num_threads())
        return encoded(settings, images)

    monkeypatch.setattr(PatchFeatures, "fit", counted)
    learned = []
    for _ in range(2):
        priors.remembered_features.cache_clear()  # as in another process
        vault = LabelVault(labels=data.train_labels, num_classes=10, store=MemoryStore(bytes(32)))
        prior_features(settings, public)
        learned_prior(settings, public, vault, epsilon=1.0, delta=1e-5)
        learned += [charge.key for charge in vault.charges()]
    assert found == [1], "once, and on one thread"
    assert learned[0] == learned[1], "the same release, by its query's bits"
    assert torch.get_num_threads() == threads
    priors.remembered_features.cache_clear()


def test_features_of_images_need_images_that_are_large_enough() -> None:
    settings = replace(ON_PATCHES[1], features=FeatureSet.RANDOM_PATCHES)
    rows, vault = table()
    with pytest.raises(ValueError, match=r"clouds is tabular here; set data\.features=as_they_are"):
        prior_features(settings, rows)
    with pytest.raises(ValueError, match="clouds is tabular here"):
        learned_prior(settings, rows, vault, epsilon=1.0, delta=1e-5)
    data, _ = digits(train=200)
    small = replace(
        data,
        train_features=data.train_features[..., :5],
        test_features=data.test_features[..., :5],
        preprocessing=NOTHING,
    )
    with pytest.raises(ValueError, match="8 x 5 pixels"):
        prior_features(settings, small)
    prior_features(PriorSettings(), rows)  # which looks at no features


REMEMBERED = (priors.remembered_clusters, priors.remembered_directions)


def as_in_another_process() -> None:
    for remembered in REMEMBERED:
        remembered.cache_clear()


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    as_in_another_process()
    yield
    as_in_another_process()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (PriorSettings(source=PriorSource.CLUSTERS, clusters=20), "clusters_of"),
        (PriorSettings(source=PriorSource.MOMENTS, landmarks=60), "kernel_directions"),
    ],
)
def test_another_worker_reads_what_one_has_computed_and_asks_for_the_same_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: PriorSettings, name: str
) -> None:
    data, calls, computed = load("digits", limit=300), list[int](), getattr(priors, name)

    def counted(*args: Any, **settings: Any) -> Any:
        calls.append(1)
        return computed(*args, **settings)

    monkeypatch.setattr(priors, name, counted)
    alone = data.public  # which keeps nothing, as it was before there were files
    shared = replace(data.public, features_folder=tmp_path)
    store, learned = MemoryStore(bytes(32)), []
    for public in (alone, shared, shared, replace(shared)):
        as_in_another_process()
        vault = LabelVault(labels=data.train_labels, num_classes=10, store=store)
        learned.append(learned_prior(settings, public, vault, epsilon=1.0, delta=1e-5))
    assert calls == [1, 1], "once alone, once for all workers"
    assert len(store.charges()) == 1, "one release, by its query's bits"
    assert all(np.array_equal(learned[0], each) for each in learned)
    other = replace(settings, seed=1)
    as_in_another_process()
    learned_prior(
        other, shared, LabelVault(labels=data.train_labels, num_classes=10), epsilon=1.0, delta=1e-5
    )
    assert len(calls) == 3 and len(list(tmp_path.iterdir())) == 2

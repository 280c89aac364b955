"""Forests: scikit-learn's, with a probability for every class and a seed that decides all."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from labeldp.trainers.methods.pate.closed_forms import fit_forest
from labeldp.trainers.settings.forest import ForestSettings
from tests.trainers.small_data import small_images, small_table

SETTINGS = ForestSettings(trees=10, min_samples_leaf=2)


def test_a_forest_is_scikit_learns() -> None:
    data, labels = small_table()
    forest = fit_forest(data.train_features, labels, settings=SETTINGS, seed=3)
    other = RandomForestClassifier(n_estimators=10, min_samples_leaf=2, random_state=3)
    other.fit(data.train_features.numpy(), labels)
    np.testing.assert_allclose(
        forest.probabilities(data.test_features),
        other.predict_proba(data.test_features.numpy()),
        atol=1e-7,
    )
    np.testing.assert_array_equal(
        forest.predict(data.test_features), other.predict(data.test_features.numpy())
    )


def test_a_seed_decides_all() -> None:
    data, labels = small_table()
    one, same, other = (
        fit_forest(data.train_features, labels, settings=SETTINGS, seed=seed).probabilities(
            data.test_features
        )
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_classes_that_were_not_seen_have_probability_zero() -> None:
    data, labels = small_table(classes=4)
    seen = np.flatnonzero((labels == 1) | (labels == 3))
    forest = fit_forest(
        data.train_features[seen], labels[seen], settings=SETTINGS, seed=0, num_classes=6
    )
    found = forest.probabilities(data.test_features)
    assert found.shape == (200, 6)
    assert (found[:, [0, 2, 4, 5]] == 0).all()
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    assert set(forest.predict(data.test_features)) == {1, 3}


def test_images_are_taken_pixel_by_pixel() -> None:
    data, labels = small_images(examples=100)
    forest = fit_forest(data.train_features, labels, settings=SETTINGS, seed=0)
    assert (forest.predict(data.test_features) == data.test_labels).mean() > 0.8


@pytest.mark.parametrize("changes", [{"trees": 0}, {"min_samples_leaf": 0}, {"trees": 1.5}])
def test_counts_out_of_range_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        ForestSettings(**changes)

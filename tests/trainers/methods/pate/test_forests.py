"""Forests: scikit-learn's, with a probability for every class and a seed that decides all."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from labeldp.trainers.methods.pate.closed_forms import fit_forest
from labeldp.trainers.settings.pate import ForestSettings
from tests.trainers.small_data import small_table

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

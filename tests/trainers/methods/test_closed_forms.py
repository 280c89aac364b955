"""closed_forms: probes against one regression at a time, forests against scikit-learn."""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from labeldp.trainers.methods.pate import fit_forest, train_probes
from labeldp.trainers.models.estimators import EstimatorPredictor
from labeldp.trainers.settings.pate import ForestSettings

Shards = list[NDArray[np.int64]]


def _problem(sizes: list[int], width: int = 6) -> tuple[torch.Tensor, Shards, Shards]:
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.normal(size=(sum(sizes), width)).astype(np.float32))
    order = random.permutation(sum(sizes))
    shards = np.split(order, np.cumsum(sizes)[:-1])
    return features, shards, [random.integers(0, 3, size) for size in sizes]


def test_each_teacher_is_a_ridge_regression_on_its_shard() -> None:
    # Shards below and above the number of features take different ways to the same solution.
    features, shards, labels = _problem([4, 40, 6, 4, 7])
    probes = train_probes(features, shards, labels, 3, ridge=0.3)
    assert probes.shape == (5, 7, 3)
    for teacher, (shard, classes) in enumerate(zip(shards, labels, strict=True)):
        x = np.c_[features.numpy()[shard], np.ones(len(shard))]
        y = np.eye(3)[classes] - 1 / 3
        slow = Ridge(alpha=0.3, fit_intercept=False).fit(x.astype(float), y).coef_.T
        np.testing.assert_allclose(probes[teacher], slow, atol=2e-6)


RANDOM = np.random.default_rng(0)
FEATURES = torch.from_numpy(RANDOM.normal(size=(500, 6)).round(1).astype(np.float32))
LABELS = (FEATURES[:, 0] + FEATURES[:, 1] > 0).long().numpy() + 2 * (RANDOM.random(500) < 0.2)


def test_a_forest_has_the_bits_of_scikit_learns_and_zeros_for_classes_it_never_saw() -> None:
    forest = fit_forest(FEATURES, LABELS, settings=ForestSettings(trees=11), seed=0)
    ours = EstimatorPredictor(estimator=forest, num_classes=5)
    expected = np.zeros((len(FEATURES), 5), dtype=np.float32)
    expected[:, forest.classes_] = forest.predict_proba(FEATURES.numpy())
    assert not expected[:, 4].any()
    for model in (ours, EstimatorPredictor.restored(ours.described(), ours.arrays())):
        np.testing.assert_array_equal(model.predict(FEATURES), expected)

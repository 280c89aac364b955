"""closed_forms: probes against one regression at a time, forests against scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from labeldp.trainers.methods.closed_forms import fit_forest, train_probes
from labeldp.trainers.models.predictors import (
    ForestPredictor,
    restored,
)
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": 0.0}, "ridge is 0.0"),
        ({"num_classes": 257}, "one byte"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], message: str) -> None:
    features, shards, labels = _problem([4, 4])
    labels[0][:] = 2
    given = {"features": features, "shards": shards, "labels_of_shards": labels, "num_classes": 3}
    with pytest.raises(ValueError, match=message):
        train_probes(**(given | change))  # type: ignore[arg-type]


RANDOM = np.random.default_rng(0)
FEATURES = torch.from_numpy(RANDOM.normal(size=(500, 6)).round(1).astype(np.float32))
LABELS = (FEATURES[:, 0] + FEATURES[:, 1] > 0).long().numpy() + 2 * (RANDOM.random(500) < 0.2)


@pytest.mark.parametrize("leaf", [1, 20])
def test_a_forest_of_arrays_has_the_bits_of_scikit_learns(leaf: int) -> None:
    """Also of classes that the forest never saw, of rows on a threshold, and written down."""
    settings = ForestSettings(trees=11, min_samples_leaf=leaf)
    forest = fit_forest(FEATURES, LABELS, settings=settings, seed=0)
    ours = ForestPredictor.of(forest, 5)
    far = torch.cat((FEATURES, 100 * FEATURES[:9], torch.zeros(2, 6)))
    expected = np.zeros((len(far), 5), dtype=np.float32)
    expected[:, forest.classes_] = forest.predict_proba(far.numpy())
    assert (ours.predict(far) == expected).all() and not expected[:, 4].any()
    assert (restored(ours.described(), ours.arrays()).predict(far) == expected).all()


def test_nodes_that_lead_out_of_their_tree_or_in_a_circle_are_refused() -> None:
    settings = ForestSettings(trees=3, min_samples_leaf=30)
    forest = ForestPredictor.of(fit_forest(FEATURES, LABELS, settings=settings, seed=0), 3)
    inner = int(np.flatnonzero(forest.left >= 0)[0])

    def with_one(name: str, value: int) -> ForestPredictor:
        changed = getattr(forest, name).copy()
        changed[inner] = value
        return replace(forest, **{name: changed})

    for wrong in (
        with_one("left", 0),
        with_one("right", len(forest.left)),
        with_one("left", -7),
        with_one("feature", 6),
        with_one("feature", -2),
        replace(forest, threshold=forest.threshold[:-1]),
        replace(forest, share=forest.share[:, :1]),
        replace(forest, classes=forest.classes + 9),
        replace(forest, num_features=1),
    ):
        with pytest.raises((ValueError, IndexError)):
            restored(wrong.described(), wrong.arrays())
    with pytest.raises(ValueError, match=r"weights have shape \(3,\)"):
        restored({"kind": "probe"}, {"weights": torch.zeros(3)})

"""closed_forms: forests as arrays against scikit-learn's, and nodes that belong to no tree."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeldp.trainers.methods.pate.closed_forms import fit_forest
from labeldp.trainers.models.predictors import (
    ForestPredictor,
    LinearPredictor,
    Pixels,
    ProbePredictor,
    restored,
)
from labeldp.trainers.settings.pate import ForestSettings

RANDOM = np.random.default_rng(0)
FEATURES = torch.from_numpy(RANDOM.normal(size=(500, 6)).round(1).astype(np.float32))
LABELS = (FEATURES[:, 0] + FEATURES[:, 1] > 0).long().numpy() + 2 * (RANDOM.random(500) < 0.2)


@pytest.mark.parametrize("leaf", [1, 20])
def test_a_forest_of_arrays_has_the_bits_of_scikit_learns(leaf: int) -> None:
    """Also of classes that the forest never saw, of rows on a threshold, and written down."""
    settings = ForestSettings(trees=11, min_samples_leaf=leaf)
    forest = fit_forest(FEATURES, LABELS, settings=settings, seed=0, num_classes=5)
    ours = forest.predictor()
    far = torch.cat((FEATURES, 100 * FEATURES[:9], torch.zeros(2, 6)))
    expected = forest.probabilities(far)
    assert (ours.predict(far) == expected).all() and not expected[:, 4].any()
    assert (restored(ours.described(), ours.arrays()).predict(far) == expected).all()


def test_a_tree_of_one_class_is_a_leaf() -> None:
    labels = np.full(500, 1)
    forest = fit_forest(FEATURES, labels, settings=ForestSettings(trees=2), seed=0, num_classes=3)
    assert forest.predictor().predict(FEATURES[:2]).tolist() == [[0, 1, 0], [0, 1, 0]]


def test_nodes_that_lead_out_of_their_tree_or_in_a_circle_are_refused() -> None:
    settings = ForestSettings(trees=3, min_samples_leaf=30)
    forest = fit_forest(FEATURES, LABELS, settings=settings, seed=0).predictor()
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


def test_a_linear_model_by_hand() -> None:
    weights = np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 0.0]])
    found = LinearPredictor(weights=weights).predict(torch.tensor([[1.0, 1.0]]))
    scores = np.exp([1.5, 2.0])
    np.testing.assert_allclose(found[0], scores / scores.sum(), rtol=1e-6)
    pixels = Pixels(mean=(0.5,), std=(0.25,))
    images = torch.full((1, 1, 1, 2), 255, dtype=torch.uint8)
    scores = np.exp([2.5, 4.0])
    found = LinearPredictor(weights=weights, pixels=pixels).predict(images)
    np.testing.assert_allclose(found[0], scores / scores.sum(), rtol=1e-6)


def test_a_probe_by_hand() -> None:
    probe = ProbePredictor(weights=torch.tensor([[1.0, 0.0], [0.0, 0.5]]))
    scores = np.exp(8 * np.array([0.25, 0.5]))
    np.testing.assert_allclose(
        probe.predict(torch.tensor([[0.25]]))[0], scores / scores.sum(), rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"weights have shape \(3,\)"):
        restored({"kind": "probe"}, {"weights": torch.zeros(3)})

"""Labels released for training elsewhere, and estimators that learn from them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from labeldp.platform.api.classifier import LabelPrivateClassifier
from labeldp.platform.api.label_release import SINGLE, privatize
from labeldp.trainers.methods.smooth_sums import SumQuestion
from labeldp.trainers.models.trained_model import load_model

CLASSES = ["no", "perhaps", "yes"]


@pytest.mark.parametrize("method", SINGLE)
def test_soft_labels_are_the_posterior_and_the_loss_has_its_gradient(method: str) -> None:
    labels = np.array(CLASSES)[np.random.default_rng(0).integers(3, size=200)]
    release = privatize(labels, epsilon=1.5, classes=CLASSES, method=method)
    assert (release.epsilon, release.delta, len(release.values)) == (1.5, 0.0, 200)
    logits = torch.randn(200, 3, dtype=torch.float64, requires_grad=True)
    rows = torch.arange(200)
    (gradient,) = torch.autograd.grad(release.loss(logits, rows) * 200, logits)
    prior = logits.detach().softmax(1)
    expected = prior - torch.from_numpy(release.soft_labels(prior.numpy()))
    torch.testing.assert_close(gradient, expected)


def test_without_much_noise_a_release_is_the_labels() -> None:
    labels = np.array(CLASSES)[np.random.default_rng(0).integers(3, size=200)]
    for method in SINGLE:
        release = privatize(labels, epsilon=40.0, classes=CLASSES, method=method)
        assert (np.array(CLASSES)[release.soft_labels().argmax(1)] == labels).all()


def test_a_refused_release_names_no_label() -> None:
    with pytest.raises(ValueError, match=r"1 labels are not among the classes no, yes") as caught:
        privatize(["no", "Zwetschge"], epsilon=1.0, classes=["no", "yes"])
    assert "Zwetschge" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"labels": pd.DataFrame({"yes": ["no", "yes"]})}, r"DataFrame of shape \(2, 1\); it must"),
        ({"labels": {"yes": 1}}, "labels is a dict"),
        ({"labels": "yes"}, "labels is a str"),
        ({"epsilon": "1"}, "epsilon is '1'; it must be a number"),
        ({"epsilon": 1e308}, "it must be at most 500"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"method": None}, "method is None; known are subset"),
        ({"method": "moments"}, "method is 'moments'"),
        ({"classes": None}, "classes is None; .* state them"),
    ],
)
def test_arguments_of_other_kinds_are_refused(given: dict[str, Any], says: str) -> None:
    right: dict[str, Any] = {"labels": ["no", "yes"], "epsilon": 1.0, "classes": ["no", "yes"]}
    with pytest.raises(ValueError, match=says):
        privatize(**{**right, **given})


def test_a_number_of_classes_names_them() -> None:
    for labels in (np.array([2, 0, 1]), torch.tensor([2, 0, 1])):
        release = privatize(labels, epsilon=40.0, classes=3)
        assert release.classes == (0, 1, 2)
        assert release.soft_labels().argmax(1).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("method", "delta"), [("auto", 1e-5), ("auto", 0.0), ("moment_labels", 1e-5), ("alibi", 0.0)]
)
def test_the_classifier_takes_any_estimator(method: str, delta: float) -> None:
    # Rows of its own for each case: equal rows would add up.
    x = np.random.default_rng([len(method), delta > 0]).normal(size=(3000, 4))
    y = np.array(CLASSES)[(x[:, 0] > -0.4).astype(int) + (x[:, 0] > 0.4)]
    trees = HistGradientBoostingClassifier(max_leaf_nodes=8, min_samples_leaf=50, max_iter=30)
    model = LabelPrivateClassifier(
        method, epsilon=2.0, delta=delta, classes=CLASSES, estimator=trees, random_state=0
    ).fit(x, y)
    assert len(model.ledger_) == 1 and model.epsilon_ == pytest.approx(2.0, abs=1e-9)
    assert model.delta_ <= delta and model.score(x, y) > 0.75
    np.testing.assert_array_equal(model.model_.preprocessing(x), x)  # in their own units
    model.save("model")
    kept = load_model("model").predict_proba(x)
    np.testing.assert_array_equal(kept, model.predict_proba(x))


@pytest.mark.parametrize("classes", [2, 5])
def test_soft_labels_of_sums_keep_the_share_of_a_rare_class_and_rank_it(classes: int) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(30_000, 4)).astype(np.float32)
    rare = generator.random(len(rows)) < expit(-5 + 1.5 * rows[:, 0] + rows[:, 1])
    labels = np.where(rare, classes - 1, generator.integers(classes - 1, size=len(rows)))
    weights, question = SumQuestion.asked(rows, count=60, seed=0)
    units, length = question.no_longer_than_one(weights)
    sums = units.T @ np.eye(classes)[labels] + generator.normal(0, 3.0, (units.shape[1], classes))
    some = rows[:10_000]  # a sample of the rows that were asked about
    soft = question.soft_labels(some, sums, count=len(rows), noise_std=3.0, length=length)
    assert np.allclose(soft.sum(1), 1) and (soft >= 0).all()
    assert soft[:, -1].mean() == pytest.approx(rare.mean(), rel=0.2)
    assert roc_auc_score(rare[:10_000], soft[:, -1]) > 0.84  # the law itself has 0.88


def test_sums_of_rare_flags_are_asked_and_read() -> None:
    generator = np.random.default_rng(0)
    rows = (generator.random((60_000, 5)) < 0.02).astype(np.float32)
    flagged = rows[:, :2].any(1)
    labels = generator.random(len(rows)) < np.where(flagged, 0.9, 0.2)
    weights, question = SumQuestion.asked(rows, count=60, seed=0)
    assert weights.any(0).all()
    units, length = question.no_longer_than_one(weights)
    sums = units.T @ np.eye(2)[labels.astype(int)]
    how: Any = {"count": len(rows), "noise_std": 3.0, "length": length}
    soft = question.soft_labels(rows, sums, **how)[:, 1]
    assert soft[flagged].mean() > 0.7 and soft[~flagged].mean() < 0.3
    # Of these rows, one function is 0 at all.
    same = question.soft_labels(rows[~rows[:, 4].astype(bool)], sums, **how)
    assert np.isfinite(same).all()
